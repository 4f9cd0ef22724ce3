/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy-turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output/messages.h"
#include "policy-state.h"
#include "policy/clock.h"
#include "base/fd.h"
#include "base/units.h"

#define FILE_NAME "policy-clock"

/* Opens and locks the file; for a dry run only to be read, and empty where there is none. The
 * directory must be ours alone, as the daemon wants it. */
static int turn_open(const char *dir, bool dry)
{
	_cleanup_close_ int dirfd = open(dir, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (dirfd < 0 && errno == ENOENT && dry)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dirfd < 0 || fstat(dirfd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	fd = openat(dirfd, FILE_NAME, (dry ? O_RDONLY : O_RDWR | O_CREAT) | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0 && errno == ENOENT && dry)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (!dry && flock(fd, LOCK_EX) < 0))
		return -errno;
	return fd_take(&fd);
}

static int clocks_read(struct clock_reading *ret)
{
	struct timespec boottime, realtime;
	struct timex timex = { 0 };
	_cleanup_free_ char *boot = NULL;
	ssize_t r = fd_read_file("/proc/sys/kernel/random/boot_id", 4096, &boot);

	if (r < 0)
		return (int)r;
	if (clock_gettime(CLOCK_BOOTTIME, &boottime) < 0 ||
	    clock_gettime(CLOCK_REALTIME, &realtime) < 0)
		return -errno;
	*ret = (struct clock_reading){
		.boottime_usec = (uint64_t)boottime.tv_sec * USEC_PER_SEC +
				 (uint64_t)boottime.tv_nsec / 1000,
		.realtime_usec = realtime.tv_sec * (int64_t)USEC_PER_SEC + realtime.tv_nsec / 1000,
		.synchronized = adjtimex(&timex) >= 0 && !(timex.status & STA_UNSYNC),
	};
	(void)snprintf(ret->boot, sizeof(ret->boot), "%.*s", (int)strcspn(boot, "\n"), boot);
	return 0;
}

/* Compares with the file. Returns by how much the clock was set, after having reported that, or 0.
 */
static int64_t clock_check(int fd, const struct clock_reading *now)
{
	char line[CLOCK_LINE + 1] = "", by[32];
	struct clock_reading before;
	ssize_t n = pread(fd, line, CLOCK_LINE, 0);
	int64_t jump;

	if (n == 0)
		return 0; /* the first time */
	if (n < 0 || clock_parse(line, &before) < 0) {
		complain(FILE_NAME,
			 "in the state directory cannot be read, so whether the clock is right "
			 "is not known, and nothing is deleted by age: if it is right, say so with "
			 "reclaimctl policy run --clock-is-right NAME");
		return 1;
	}
	jump = clock_jump_usec(&before, now);
	if (jump != 0)
		complain(
			"policy run",
			"the clock is %s %s where it should be since a policy ran last, so nothing "
			"is deleted by age: if it is right now, say so with reclaimctl policy run "
			"--clock-is-right NAME",
			timespan_format(by, sizeof(by), (uint64_t)(jump < 0 ? -jump : jump)),
			jump < 0 ? "behind" : "ahead of");
	return jump;
}

static int clock_write(int fd, const struct clock_reading *now)
{
	char line[CLOCK_LINE];
	size_t len;
	ssize_t n;

	clock_format(line, now);
	len = strlen(line);
	n = pwrite(fd, line, len, 0);
	if (n != (ssize_t)len)
		return n < 0 ? -errno : -ENOSPC;
	return ftruncate(fd, (off_t)len) < 0 || fdatasync(fd) < 0 ? -errno : 0;
}

int policy_turn(const struct options *o, int64_t *ret_jump_usec, int *ret_status)
{
	const char *dir = options_state_dir(o);
	_cleanup_close_ int fd = turn_open(dir, o->dry_run);
	struct clock_reading now;
	int r = fd < 0 ? fd : clocks_read(&now);

	*ret_status = EXIT_FAILED;
	*ret_jump_usec = r >= 0 && !o->clock_is_right ? clock_check(fd, &now) : 0;
	/* The next run compares with the reading that could be trusted last. */
	if (r >= 0 && !o->dry_run && *ret_jump_usec == 0)
		r = clock_write(fd, &now);
	/* A policy may be what makes room. What was read is compared with next time. */
	if (r == -ENOSPC || r == -EDQUOT) {
		complain(dir, "%s: when this policy ran is not recorded there; ignoring",
			 strerror(-r));
		r = 0;
	}
	if (r >= 0)
		return fd_take(&fd);
	complain(dir, "%s, and without it no policy runs",
		 r != -EPERM ? strerror(-r)
		 : o->user   ? "must be yours and writable by you alone"
			     : "is the daemon's state directory and must be root's and writable by "
			       "root alone");
	return -1;
}
