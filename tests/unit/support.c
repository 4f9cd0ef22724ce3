/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "support.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Longer than any suite takes, and shorter than ctest waits before it kills all. */
#define RUN_SECONDS_MOST 540

/* Where a run's scratch directories are; made and removed by the process that waits for the run. */
static char run_dir[64];

/* The last assertion that held, in memory that a run shares with the process that waits for it. */
struct place {
	_Atomic(const char *) file;
	atomic_int line;
};
static struct place *place;

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

/* check writes each assertion that holds to a file, from which it says where a process of its own
 * has died. In a run without such processes that takes most of the time and tells nothing. */
void __wrap__mark_point(const char *file, int line)
{
	if (!place) {
		__real__mark_point(file, line);
		return;
	}
	atomic_store_explicit(&place->file, file, memory_order_relaxed);
	atomic_store_explicit(&place->line, line, memory_order_relaxed);
}

static void place_make(void)
{
	const char *forks = getenv("CK_FORK");

	if (!forks || strcmp(forks, "no") != 0)
		return;
	place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (place == MAP_FAILED)
		place = NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void scratch_remove(const char *path)
{
	(void)nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Waits for the run's end and returns its exit status. What ends the waiting,
 * a signal or the time, ends the run. */
static int run_wait(pid_t pid, const sigset_t *signals)
{
	const struct timespec most = { .tv_sec = RUN_SECONDS_MOST };
	int status = 0, sig;

	do
		sig = sigtimedwait(signals, NULL, &most);
	while (sig < 0 && errno == EINTR);
	if (sig != SIGCHLD) {
		(void)fprintf(stderr, "The run is ended: %s.\n",
			      sig < 0 ? "it takes too long" : strsignal(sig));
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && sig == SIGCHLD)
		(void)fprintf(stderr, "The run has died: %s.\n", strsignal(WTERMSIG(status)));
	if (WIFSIGNALED(status) && place && place->file)
		(void)fprintf(stderr, "The last assertion that held: %s:%d\n", place->file,
			      place->line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* Returns in a child, which runs the tests. However that ends, its parent, this process, removes
 * what it leaves and ends as it did: a test that fails, aborts or hangs never gets to its own
 * cleaning up. */
static void run_begin(void)
{
	sigset_t signals, before;
	pid_t pid, parent = getpid();
	int status;

	(void)snprintf(run_dir, sizeof(run_dir), "%s/reclaim-unit.XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	/* Some tests go on as another user. */
	if (!mkdtemp(run_dir) || chmod(run_dir, 0711) < 0 ||
	    sigprocmask(SIG_BLOCK, &signals, &before) < 0) {
		perror(run_dir);
		exit(EXIT_FAILURE);
	}
	place_make();
	pid = fork();
	if (pid == 0) {
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* What tests mount goes with them. */
		(void)unshare(CLONE_NEWNS);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		return;
	}
	status = pid < 0 ? EXIT_FAILURE : run_wait(pid, &signals);
	scratch_remove(run_dir);
	_exit(status);
}

int run_tests(Suite *s, TCase *tc, const TTest *const *tests, size_t n)
{
	SRunner *sr;
	int failed;

	run_begin();
	tcase_set_timeout(tc, 60);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run_case(const char *name, const TTest *const *tests, size_t n)
{
	return run_tests(suite_create(name), tcase_create(name), tests, n);
}

void scratch_make(char *buf, size_t len)
{
	(void)snprintf(buf, len, "%s/XXXXXX", run_dir);
	ck_assert_ptr_nonnull(mkdtemp(buf));
}

static void entry_make(const char *dir, const char *word)
{
	char path[PATH_MAX];
	char *link;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, word);
	link = strchr(path, '>');
	if (path[strlen(path) - 1] == '/') {
		ck_assert_int_eq(mkdir(path, 0755), 0);
	} else if (link) {
		*link = '\0';
		ck_assert_int_eq(symlink(link + 1, path), 0);
	} else {
		int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(fd, word, strlen(word)), (ssize_t)strlen(word));
		(void)close(fd);
	}
}

void tree_make(const char *dir, const char *text)
{
	char *copy = strdup(text), *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		entry_make(dir, w);
	free(copy);
}

/* Makes the directories on the way to dir/name; path is where that is. */
static void way_make(char *path, size_t len, const char *dir, const char *name)
{
	(void)snprintf(path, len, "%s/%s", dir, name);
	for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		(void)mkdir(path, 0755);
	}
}

void file_make(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	way_make(path, sizeof(path), dir, name);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

void link_make(const char *dir, const char *name, const char *target)
{
	char path[PATH_MAX];

	way_make(path, sizeof(path), dir, name);
	ck_assert_int_eq(symlink(target, path), 0);
}

static size_t counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)st;
	(void)type;
	counted += ftw->level > 0;
	return 0;
}

size_t tree_count(const char *dir)
{
	counted = 0;
	(void)nftw(dir, count_one, 32, FTW_PHYS);
	return counted;
}

void zone_set(const char *zone)
{
	char path[128];

	ck_assert_int_eq(setenv("TZ", zone, 1), 0);
	tzset();
	(void)snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", zone);
	ck_assert_msg(access(path, R_OK) == 0, "%s: there is no such zone: install tzdata", zone);
}
