/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "sandbox/seccomp.h"

/* In the child, behind the filter. Returns the line of the first surprise, 0 if there is none. */
typedef int (*test_t)(const char *dir);

#define REFUSED(call) FAILS_WITH(EPERM, call)

static int restrict_deleter(void)
{
	return seccomp_restrict(/* deletes= */ true);
}

static int restrict_intake(void)
{
	return seccomp_restrict(/* deletes= */ false);
}

static void behind(int (*restrict_calls)(void), test_t test)
{
	char dir[PATH_MAX];
	int status = -1, filter[2];
	pid_t pid;
	char has;

	scratch_make(dir, sizeof(dir));
	file_make(dir, "file", "x");
	ck_assert_int_eq(pipe(filter), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? restrict_calls() : -1;

		has = r > 0;
		if (write(filter[1], &has, 1) != 1 || r < 0)
			_exit(1);
		r = r > 0 ? test(dir) : 0;
		if (r > 0)
			(void)fprintf(stderr, "line %d\n", r);
		_exit(r > 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(read(filter[0], &has, 1), 1);
	(void)close(filter[0]);
	(void)close(filter[1]);
	scratch_remove(dir);
	ck_assert_int_eq(status, 0);
	ck_assert(has);
}

static int never(const char *dir)
{
	char *const argv[] = { (char *)"true", NULL };
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	SUCCEEDS(fd);
	REFUSED(execv("/bin/true", argv));
	REFUSED(fork());
	REFUSED(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
	REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	REFUSED(mount("none", dir, "tmpfs", 0, NULL));
	REFUSED(chroot(dir));
	REFUSED(linkat(fd, "file", fd, "twin", 0));
	REFUSED(symlinkat("file", fd, "link"));
	REFUSED(mknodat(fd, "fifo", S_IFIFO | 0600, 0));
	REFUSED(fchownat(fd, "file", 0, 0, 0));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
	return 0;
}

static void *nothing(void *arg)
{
	return arg;
}

/* Returns -1 with errno set if none can be had. */
static int thread(void)
{
	pthread_t t;
	int r = pthread_create(&t, NULL, nothing, NULL);

	if (r == 0)
		r = pthread_join(t, NULL);
	errno = r;
	return r == 0 ? 0 : -1;
}

static int what_deleting_needs(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY), file;

	SUCCEEDS(fd);
	SUCCEEDS(thread());
	file = openat(fd, "file", O_WRONLY);
	SUCCEEDS(file);
	SUCCEEDS(socket(AF_UNIX, SOCK_STREAM, 0));
	SUCCEEDS(ftruncate(file, 0));
	SUCCEEDS(unlinkat(fd, "file", 0));
	return 0;
}

static int what_intake_needs_and_no_more(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	SUCCEEDS(fd);
	SUCCEEDS(thread());
	REFUSED(unlinkat(fd, "file", 0));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(truncate(dir, 0));
	SUCCEEDS(mkdirat(fd, "staged", 0700));
	SUCCEEDS(renameat(fd, "file", fd, "staged/1"));
	SUCCEEDS(renameat(fd, "staged/1", fd, "file"));
	SUCCEEDS(unlinkat(fd, "staged", AT_REMOVEDIR));
	return 0;
}

static int what_looking_for_references_needs_and_no_more(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY), file = openat(fd, "file", O_WRONLY);

	SUCCEEDS(fd);
	SUCCEEDS(file);
	SUCCEEDS(inotify_init1(IN_CLOEXEC));
	REFUSED(unlinkat(fd, "file", 0));
	REFUSED(ftruncate(file, 0));
	REFUSED(renameat(fd, "file", fd, "other"));
	REFUSED(mkdirat(fd, "made", 0700));
	REFUSED(fchmod(file, 0777));
	REFUSED(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(thread());
	return 0;
}

static int what_speaking_to_a_master_needs_and_no_more(const char *dir)
{
	char *const argv[] = { (char *)"true", NULL };
	char buf[1];

	REFUSED(execv("/bin/true", argv));
	REFUSED(fork());
	REFUSED(open(dir, O_RDONLY | O_DIRECTORY));
	REFUSED(openat(AT_FDCWD, dir, O_PATH));
	REFUSED(unlink("file"));
	REFUSED(mkdir("made", 0700));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(connect(-1, NULL, 0));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(thread());
	FAILS_WITH(EBADF, send(-1, dir, 1, 0));
	FAILS_WITH(EBADF, recv(-1, buf, sizeof(buf), 0));
	return 0;
}

/* What it has open it had before. */
static int held_dir, held_file;

static int restrict_trim(void)
{
	held_dir = open("/", O_RDONLY | O_DIRECTORY);
	held_file = memfd_create("held", 0);
	return held_dir < 0 || write(held_file, "x", 1) != 1 ? -EIO : seccomp_restrict_trim();
}

static int what_changes_files(const char *dir, int fd, int file)
{
	REFUSED(open(dir, O_RDONLY | O_DIRECTORY));
	REFUSED(openat(fd, "file", O_RDONLY));
	REFUSED(unlinkat(fd, "file", 0));
	REFUSED(ftruncate(file, 0));
	REFUSED(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1));
	REFUSED(pwrite(file, "x", 1, 0));
	REFUSED(renameat(fd, "file", fd, "other"));
	REFUSED(mkdirat(fd, "made", 0700));
	return 0;
}

static int what_starts_more(void)
{
	char *const argv[] = { (char *)"true", NULL };

	REFUSED(execv("/bin/true", argv));
	REFUSED(fork());
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(thread());
	return 0;
}

static int what_trimming_needs_and_no_more(const char *dir)
{
	struct fstrim_range range = { .start = UINT64_MAX };
	char buf[1] = "x";
	int n = 0;

	SUCCEEDS(pread(held_file, buf, 1, 0));
	FAILS_WITH(EBADF, send(-1, buf, 1, 0));
	FAILS_WITH(EBADF, recv(-1, buf, sizeof(buf), 0));
	FAILS_WITH(EBADF, ioctl(-1, FITRIM, &range));
	FAILS_WITH(EBADF, ioctl(-1, FS_IOC_GETFSMAP, &range));
	REFUSED(ioctl(held_dir, FIFREEZE, &n));
	REFUSED(ioctl(held_file, FS_IOC_GETFLAGS, &n));
	REFUSED(ioctl(held_file, FIONREAD, &n));
	n = what_starts_more();
	return n > 0 ? n : what_changes_files(dir, held_dir, held_file);
}

START_TEST(seccomp_of_the_deleter)
{
	behind(restrict_deleter, never);
	behind(restrict_deleter, what_deleting_needs);
}
END_TEST

START_TEST(seccomp_of_intake)
{
	behind(restrict_intake, never);
	behind(restrict_intake, what_intake_needs_and_no_more);
}
END_TEST

START_TEST(seccomp_of_the_last_reference)
{
#ifdef __SANITIZE_THREAD__
	/* It makes calls of its own that are not among so few. */
	return;
#endif
	behind(seccomp_restrict_last_reference, never);
	behind(seccomp_restrict_last_reference, what_looking_for_references_needs_and_no_more);
}
END_TEST

START_TEST(seccomp_of_trim)
{
#ifdef __SANITIZE_THREAD__
	return;
#endif
	behind(restrict_trim, what_trimming_needs_and_no_more);
}
END_TEST

/* What it connects to is the database's address, and that of whatever knows it. */
static int what_is_refused_to_intake_but_the_network(const char *dir)
{
	char path[PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s/file", dir);
	SUCCEEDS(socket(AF_UNIX, SOCK_STREAM, 0));
	SUCCEEDS(socket(AF_INET, SOCK_STREAM, 0));
	SUCCEEDS(socket(AF_NETLINK, SOCK_RAW, 0));
	REFUSED(fork());
	REFUSED(execl("/bin/true", "true", NULL));
	REFUSED(unlink(path));
	REFUSED(unlinkat(AT_FDCWD, path, 0));
	REFUSED(truncate(path, 0));
	REFUSED(mount("none", dir, "tmpfs", 0, NULL));
	return 0;
}

START_TEST(seccomp_of_the_network)
{
	behind(seccomp_restrict_network, what_is_refused_to_intake_but_the_network);
}
END_TEST

START_TEST(seccomp_of_moosefs)
{
#ifdef __SANITIZE_THREAD__
	return;
#endif
	behind(seccomp_restrict_moosefs, what_speaking_to_a_master_needs_and_no_more);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		seccomp_of_the_deleter, seccomp_of_intake,  seccomp_of_the_last_reference,
		seccomp_of_trim,        seccomp_of_moosefs, seccomp_of_the_network
	};

	/* Without an architecture's own list there is no filter, whatever the kernel has. */
#if !defined(__x86_64__) && !defined(__aarch64__)
	(void)fprintf(stderr, "skipped: there is no filter for this architecture\n");
	return 77;
#endif
	if (prctl(PR_GET_SECCOMP) < 0) {
		(void)fprintf(stderr, "skipped: this kernel has no seccomp\n");
		return 77;
	}
	return run_case("seccomp", tests, sizeof(tests) / sizeof(tests[0]));
}
