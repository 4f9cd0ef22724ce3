/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "base/macros.h"
#include "sandbox/landlock.h"

#define REFUSED(call) FAILS_WITH(EACCES, call)

static long abi(void)
{
	return MAX(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION),
		   0L);
}

/* In a child: the line of the first surprise, 0 if there is none. */
static void behind(int (*test)(int fd))
{
	char dir[PATH_MAX];
	int status = -1;
	pid_t pid;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "in/ in/a in/b out/ out/c out/d out/e");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = fd < 0 ? 1 : test(fd);

		if (r > 0)
			(void)fprintf(stderr, "line %d: %d\n", r, errno);
		_exit(r > 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	scratch_remove(dir);
	ck_assert_int_eq(status, 0);
}

static int deleter(int fd)
{
	int in = openat(fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long has = landlock_restrict_deleter(in);

	if (has != abi())
		return __LINE__;
	REFUSED(unlinkat(fd, "out/c", 0));
	REFUSED(openat(fd, "out/d", O_WRONLY | O_CLOEXEC));
	REFUSED(mkdirat(fd, "out/new", 0700));
	REFUSED(mkdirat(in, "new", 0700));
	SUCCEEDS(openat(in, "a", O_WRONLY | O_CLOEXEC));
	SUCCEEDS(unlinkat(in, "a", 0));
	SUCCEEDS(openat(fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	return 0;
}

static int intake(int fd)
{
	char *const argv[] = { (char *)"true", NULL };
	long has = landlock_restrict_intake();
	char path[64];

	if (has != (abi() < 2 ? 0 : abi()))
		return __LINE__;
	/* ABI 1 cannot allow what this role does, so that there it is not restricted. */
	if (has == 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/out/c", fd);
	REFUSED(openat(fd, "out/c", O_WRONLY | O_CLOEXEC));
	REFUSED(openat(fd, "out/c", O_RDWR | O_CLOEXEC));
	REFUSED(openat(fd, "out/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	REFUSED(execv("/bin/true", argv));
	if (has >= 3)
		REFUSED(truncate(path, 0));
	SUCCEEDS(openat(fd, "out/c", O_RDONLY | O_CLOEXEC));
	SUCCEEDS(mkdirat(fd, "in/job", 0700));
	SUCCEEDS(renameat2(fd, "out/c", fd, "in/job/1", 1));
	SUCCEEDS(renameat2(fd, "out", fd, "in/job/2", 1));
	SUCCEEDS(renameat2(fd, "in/job/1", fd, "c", 1));
	SUCCEEDS(renameat2(fd, "in/job/2", fd, "out", 1));
	SUCCEEDS(unlinkat(fd, "in/job", AT_REMOVEDIR));
	return 0;
}

static int proxy(int fd)
{
	int ends[2], has = landlock_restrict_proxy();
	char byte = 0;

	if (has != abi())
		return __LINE__;
	REFUSED(openat(fd, "out/c", O_RDONLY | O_CLOEXEC));
	REFUSED(openat(fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	REFUSED(unlinkat(fd, "out/c", 0));
	REFUSED(mkdirat(fd, "new", 0700));
	SUCCEEDS(pipe2(ends, O_CLOEXEC));
	SUCCEEDS(write(ends[1], &byte, 1));
	SUCCEEDS(read(ends[0], &byte, 1));
	return 0;
}

static int reader(int fd)
{
	long has = landlock_restrict_reader();
	char byte;
	int in;

	if (has != abi())
		return __LINE__;
	in = openat(fd, "out/c", O_RDONLY | O_CLOEXEC);
	SUCCEEDS(in);
	SUCCEEDS(read(in, &byte, 1));
	SUCCEEDS(openat(fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	REFUSED(openat(fd, "out/c", O_WRONLY | O_CLOEXEC));
	REFUSED(openat(fd, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	REFUSED(unlinkat(fd, "out/c", 0));
	REFUSED(mkdirat(fd, "new", 0700));
	REFUSED(renameat(fd, "out/c", fd, "out/new"));
	return 0;
}

START_TEST(landlock_of_the_reader)
{
	behind(reader);
}
END_TEST

START_TEST(landlock_of_the_deleter)
{
	behind(deleter);
}
END_TEST

START_TEST(landlock_of_intake)
{
	behind(intake);
}
END_TEST

START_TEST(landlock_of_the_proxy)
{
	behind(proxy);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { landlock_of_the_deleter, landlock_of_intake,
				       landlock_of_the_proxy, landlock_of_the_reader };

	if (abi() == 0) {
		(void)fprintf(stderr, "skipped: this kernel has no Landlock, or it is off\n");
		return 77;
	}
	return run_case("landlock", tests, ELEMENTSOF(tests));
}
