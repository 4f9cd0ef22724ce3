/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stepdelete STEP_BYTES FILES PAUSE_MSEC|rate=BYTES PATH - delete in steps of fixed size.
 *
 * What people write who have been bitten by rm, and what PostgreSQL and other programs do for large
 * tables: a file is truncated from its tail, STEP_BYTES at a time, then unlinked; of a tree, FILES
 * names are removed at a time, as the directory lists them. No fsync. It knows nothing of the disk.
 *
 * With a rate, as RocksDB's deleter does (DeleteScheduler, file/delete_scheduler.cc): a file is
 * synced after each step, a small one is unlinked whole, and after each it waits until what was
 * deleted so far has taken as long as so many bytes a second take.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DIRS_OPEN_MAX 16

/* nftw hands its callback nothing of ours. */
static struct {
	uint64_t n_files;
	uint64_t n_removed;
	long pause_msec;
	uint64_t rate, n_bytes; /* a second; deleted so far */
	struct timespec began;
} pace;

static void pause_now(void)
{
	struct timespec ts = {
		.tv_sec = pace.pause_msec / 1000,
		.tv_nsec = pace.pause_msec % 1000 * 1000000,
	};

	nanosleep(&ts, NULL);
}

/* So many bytes are gone, of which a file may be left. */
static int rate_wait(int fd, uint64_t bytes)
{
	struct timespec until = pace.began;
	uint64_t nsec;

	if (fd >= 0 && fsync(fd) < 0)
		return -errno;
	pace.n_bytes += bytes;
	nsec = (uint64_t)until.tv_nsec + (uint64_t)((double)pace.n_bytes / (double)pace.rate * 1e9);
	until.tv_sec += (time_t)(nsec / 1000000000);
	until.tv_nsec = (long)(nsec % 1000000000);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return 0;
}

static int shrink(const char *path, uint64_t step_bytes, uint64_t size_bytes)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	int r = 0;

	if (fd < 0)
		return -errno;
	while (r >= 0 && size_bytes > step_bytes) {
		size_bytes -= step_bytes;
		if (ftruncate(fd, (off_t)size_bytes) < 0)
			r = -errno;
		else if (pace.rate > 0)
			r = rate_wait(fd, step_bytes);
		else
			pause_now();
	}
	close(fd);
	if (r < 0)
		return r;
	return unlink(path) < 0 ? -errno : pace.rate > 0 ? rate_wait(-1, size_bytes) : 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *position)
{
	(void)position;
	if ((type == FTW_DP ? rmdir(path) : unlink(path)) < 0)
		return -errno;
	if (pace.rate > 0)
		return type == FTW_DP ? 0 : rate_wait(-1, (uint64_t)st->st_size);
	if (++pace.n_removed % pace.n_files == 0)
		pause_now();
	return 0;
}

static int delete (const char *path, uint64_t step_bytes)
{
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return shrink(path, step_bytes, (uint64_t)st.st_size);
	r = nftw(path, remove_entry, DIRS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
	return r == -1 ? -errno : r;
}

int main(int argc, char **argv)
{
	uint64_t step_bytes;
	int r;

	if (argc != 5) {
		fprintf(stderr, "usage: stepdelete STEP_BYTES FILES PAUSE_MSEC|rate=BYTES PATH\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	step_bytes = strtoull(argv[1], NULL, 10);
	pace.n_files = strtoull(argv[2], NULL, 10);
	if (strncmp(argv[3], "rate=", strlen("rate=")) == 0)
		pace.rate = strtoull(argv[3] + strlen("rate="), NULL, 10);
	else
		pace.pause_msec = strtol(argv[3], NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &pace.began);
	if (step_bytes == 0 || pace.n_files == 0) {
		fprintf(stderr, "stepdelete: a step must not be empty\n");
		return 2;
	}
	r = delete (argv[4], step_bytes);
	if (r < 0) {
		fprintf(stderr, "stepdelete: %s: %s\n", argv[4], strerror(-r));
		return 1;
	}
	return 0;
}
