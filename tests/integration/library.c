/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* library VERB...: each function of libreclaim, as its test wants it called. What they return is
 * printed, a line each. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reclaim.h"

#define THREADS 8
#define FILES 20

static int said(const struct reclaim *r, const char *what, int error)
{
	if (error < 0)
		printf("%s: %s: %s\n", what, strerrorname_np(-error), r ? reclaim_error(r) : "");
	else
		printf("%s: 0\n", what);
	fflush(stdout);
	return error;
}

/* A handle, or the end. */
static struct reclaim *opened(void)
{
	struct reclaim *r = NULL;

	if (said(NULL, "open", reclaim_open(&r, 0)) < 0)
		exit(1);
	return r;
}

static int directory(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void wait_for_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

/* submit DIR NAME UNDO PRIORITY TIMEOUT */
static int submit(char **v)
{
	struct reclaim *r = opened();
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	int fd = directory(v[0]);
	uint64_t job = 77;

	if (*v[2])
		o.undo_usec = strtoull(v[2], NULL, 10);
	o.priority = (uint32_t)strtoul(v[3], NULL, 10);
	if (*v[4])
		o.timeout_usec = strtoull(v[4], NULL, 10);
	said(r, "submit", reclaim_submit_at(r, fd, v[1], &o, &job));
	printf("job: %" PRIu64 "\n", job);
	close(fd);
	reclaim_close(r);
	return 0;
}

static void status_print(const struct reclaim_status *s)
{
	printf("state: %u job: %" PRIu64 " uid: %u entries: %" PRIu64 " done: %" PRIu64
	       " bytes: %" PRIu64 " freed: %" PRIu64 " errors: %" PRIu64
	       " created: %d held: %d started: %d finished: %d\n",
	       s->state, s->job, s->uid, s->entries, s->entries_done, s->bytes, s->bytes_freed,
	       s->errors, s->created_usec > 0, s->held_until_usec > 0, s->started_usec > 0,
	       s->finished_usec > 0);
}

/* wait JOB USEC */
static int wait_job(char **v)
{
	struct reclaim *r = opened();
	struct reclaim_status s = RECLAIM_STATUS_INIT;

	s.state = 77;
	said(r, "wait", reclaim_wait(r, strtoull(v[0], NULL, 10), strtoull(v[1], NULL, 10), &s));
	status_print(&s);
	reclaim_close(r);
	return 0;
}

/* get JOB */
static int get(char **v)
{
	struct reclaim *r = opened();
	struct reclaim_status s = RECLAIM_STATUS_INIT;

	said(r, "get", reclaim_get(r, strtoull(v[0], NULL, 10), &s));
	status_print(&s);
	reclaim_close(r);
	return 0;
}

/* cancel JOB */
static int cancel(char **v)
{
	struct reclaim *r = opened();

	said(r, "cancel", reclaim_cancel(r, strtoull(v[0], NULL, 10)));
	reclaim_close(r);
	return 0;
}

/* plan DIR NAME */
static int plan(char **v)
{
	struct reclaim *r = opened();
	struct reclaim_plan p = RECLAIM_PLAN_INIT;
	int fd = directory(v[0]);

	said(r, "plan", reclaim_plan(r, fd, v[1], &p));
	printf("length: %" PRIu64 " frees: %" PRIu64 " links: %" PRIu64 " mode: %o\n",
	       p.length_bytes, p.frees_bytes, p.links, p.mode);
	close(fd);
	reclaim_close(r);
	return 0;
}

/* sizes DIR NAME: structures of headers that are older and newer than the library */
static int sizes(char **v)
{
	struct {
		struct reclaim_options o;
		uint64_t more;
	} newer = { .o = RECLAIM_OPTIONS_INIT };
	struct reclaim_options older = RECLAIM_OPTIONS_INIT;
	struct {
		struct reclaim_plan p;
		uint64_t more;
	} big = { .p = RECLAIM_PLAN_INIT, .more = 77 };
	struct reclaim_plan small = RECLAIM_PLAN_INIT;
	struct reclaim *r = opened();
	int fd = directory(v[0]);
	uint64_t job;

	newer.o.size = sizeof(newer);
	newer.more = 1;
	said(r, "newer, used", reclaim_submit_at(r, fd, v[1], &newer.o, &job));
	older.reserved = 1;
	said(r, "reserved", reclaim_submit_at(r, fd, v[1], &older, &job));
	older.reserved = 0;
	older.priority = 3;
	said(r, "priority", reclaim_submit_at(r, fd, v[1], &older, &job));
	older.size = 0;
	said(r, "no size", reclaim_submit_at(r, fd, v[1], &older, &job));
	big.p.size = sizeof(big);
	said(r, "big", reclaim_plan(r, fd, v[1], &big.p));
	printf("links: %" PRIu64 " more: %" PRIu64 "\n", big.p.links, big.more);
	small.size = 16;
	small.frees_bytes = 77;
	said(r, "small", reclaim_plan(r, fd, v[1], &small));
	printf("length: %" PRIu64 " frees: %" PRIu64 "\n", small.length_bytes, small.frees_bytes);
	/* What an old program does not know of is not read: here it has no meaning. */
	older.size = 24;
	said(r, "older", reclaim_submit_at(r, fd, v[1], &older, &job));
	newer.more = 0;
	said(r, "newer, unused", reclaim_submit_at(r, fd, v[2], &newer.o, NULL));
	close(fd);
	reclaim_close(r);
	return 0;
}

static void on_submitted(struct reclaim *r, int error, uint64_t job, void *userdata)
{
	said(r, userdata, error);
	printf("job: %" PRIu64 "\n", job);
}

struct expected {
	uint64_t from; /* jobs before that are of other callers */
	unsigned ended;
};

static void on_finished(struct reclaim *r, uint64_t job, unsigned state, void *userdata)
{
	(void)r;
	struct expected *e = userdata;

	/* Those may only now be told of. */
	if (job < e->from)
		return;
	printf("finished: %" PRIu64 " %u\n", job, state);
	e->ended++;
}

/* Until so many jobs have ended. */
static int loop(struct reclaim *r, const unsigned *ended, unsigned n)
{
	while (*ended < n) {
		struct pollfd p = { .fd = reclaim_fd(r) };
		uint64_t until = 0;
		int error = reclaim_timeout(r, &until), events = reclaim_events(r);

		if (error < 0 || events < 0)
			return error < 0 ? error : events;
		p.events = (short)events;
		/* There may be a time limit of half an hour; an end comes before. */
		(void)poll(&p, 1, until == RECLAIM_FOREVER || until > 0 ? 60000 : 0);
		error = reclaim_process(r);
		if (error < 0)
			return error;
	}
	return 0;
}

/* loop DIR GOOD ABSENT PROTECTED JOB: all at once, in one's own loop */
static int event_loop(char **v)
{
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct reclaim *r = opened();
	int fd = directory(v[0]);
	struct expected e = { .from = strtoull(v[4], NULL, 10) };

	o.timeout_usec = 1800 * 1000000ULL;
	said(r, "on_finished", reclaim_on_finished(r, on_finished, &e));
	said(r, "absent", reclaim_submit_at_async(r, fd, v[2], NULL, on_submitted, "never"));
	said(r, "bad", reclaim_submit_at_async(r, fd, "a/b", NULL, on_submitted, "never"));
	said(r, "protected",
	     reclaim_submit_at_async(r, fd, v[3], NULL, on_submitted, "answer for protected"));
	said(r, "good", reclaim_submit_at_async(r, fd, v[1], &o, on_submitted, "answer for good"));
	said(r, "loop", loop(r, &e.ended, 1));
	said(r, "no callback", reclaim_on_finished(r, NULL, NULL));
	close(fd);
	reclaim_close(r);
	return 0;
}

static void on_answer(struct reclaim *r, int error, uint64_t job, void *userdata)
{
	on_submitted(r, error, job, "answer");
	*(unsigned *)userdata = 1;
}

/* replaced DIR NAME OTHER: the daemon stands still from the first line on, and goes on at the
 * second, where another file is there */
static int replaced(char **v)
{
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct reclaim *r = opened();
	int fd = directory(v[0]);
	unsigned answered = 0;

	wait_for_line();
	o.timeout_usec = 100000;
	said(r, "in time", reclaim_submit_at(r, fd, v[2], &o, NULL));
	said(r, "submit", reclaim_submit_at_async(r, fd, v[1], NULL, on_answer, &answered));
	wait_for_line();
	said(r, "loop", loop(r, &answered, 1));
	close(fd);
	reclaim_close(r);
	return 0;
}

/* lost DIR NAME: the daemon is killed at the line */
static int lost(char **v)
{
	struct reclaim *r = opened();
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	int fd = directory(v[0]);
	struct expected e = { 0 };
	uint64_t job = 0;

	said(r, "submit", reclaim_submit_at(r, fd, v[1], NULL, &job));
	wait_for_line();
	said(r, "loop", loop(r, &e.ended, 1));
	said(r, "get", reclaim_get(r, job, &s));
	said(r, "wait", reclaim_wait(r, job, RECLAIM_FOREVER, &s));
	said(r, "submit again", reclaim_submit_at(r, fd, v[1], NULL, &job));
	said(r, "cancel", reclaim_cancel(r, job));
	said(r, "process", reclaim_process(r));
	said(r, "on_finished", reclaim_on_finished(r, on_finished, &e));
	close(fd);
	reclaim_close(r);
	return 0;
}

/* wait-lost DIR NAME: the daemon is killed while we wait for a job */
static int wait_lost(char **v)
{
	struct reclaim *r = opened();
	int fd = directory(v[0]);
	uint64_t job = 0;

	said(r, "submit", reclaim_submit_at(r, fd, v[1], NULL, &job));
	said(r, "wait", reclaim_wait(r, job, RECLAIM_FOREVER, NULL));
	close(fd);
	reclaim_close(r);
	return 0;
}

static unsigned answers;
static int reclaim_fd_of_parent;

static void on_answer_count(struct reclaim *r, int error, uint64_t job, void *userdata)
{
	(void)r;
	*(unsigned *)userdata += error == 0 && job > 0;
}

static void on_finished_count(struct reclaim *r, uint64_t job, unsigned state, void *userdata)
{
	(void)r;
	(void)job;
	(void)state;
	((struct expected *)userdata)->ended++;
}

/* fork DIR NAME: closing is for every process that has the handle. */
static int forked(char **v)
{
	struct reclaim *r = opened();
	int fd = directory(v[0]), status;
	pid_t pid = fork();

	if (pid == 0) {
		said(r, "child submit", reclaim_submit_at(r, fd, v[1], NULL, NULL));
		said(r, "child process", reclaim_process(r));
		reclaim_close(r);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	said(r, "parent submit", reclaim_submit_at(r, fd, v[1], NULL, NULL));
	close(fd);
	reclaim_close(r);
	return 0;
}

/* Everything that a child may try with its parent's handle; prints what is not refused. Ends. */
static void child_tries(struct reclaim *r, int dirfd, const char *name)
{
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	struct reclaim_plan p = RECLAIM_PLAN_INIT;
	int fd = reclaim_fd_of_parent;
	uint64_t usec;
	const struct {
		const char *what;
		int error;
	} tries[] = {
		{ "submit", reclaim_submit_at(r, dirfd, name, NULL, NULL) },
		{ "submit_async",
		  reclaim_submit_at_async(r, dirfd, name, NULL, on_submitted, "never") },
		{ "plan", reclaim_plan(r, dirfd, name, &p) },
		{ "get", reclaim_get(r, 1, &s) },
		{ "wait", reclaim_wait(r, 1, 0, &s) },
		{ "cancel", reclaim_cancel(r, 1) },
		{ "on_finished", reclaim_on_finished(r, on_finished, NULL) },
		{ "fd", reclaim_fd(r) },
		{ "events", reclaim_events(r) },
		{ "timeout", reclaim_timeout(r, &usec) },
		{ "process", reclaim_process(r) },
	};
	struct reclaim *own = NULL;
	uint64_t job = 0;

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		if (tries[i].error != -ECHILD)
			said(r, tries[i].what, tries[i].error);
	reclaim_close(r);
	if (fcntl(fd, F_GETFD) >= 0)
		printf("the child still has the connection\n");
	if (reclaim_open(&own, 0) < 0 || reclaim_submit_at(own, dirfd, name, NULL, &job) < 0)
		printf("the child can do nothing with its own\n");
	reclaim_close(own);
	fflush(stdout);
	_exit(0);
}

static pid_t fork_by(int how)
{
	switch (how) {
	case 0:
		return fork();
	case 1:
		return _Fork();
	case 2:
		return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	default:
		/* The first process of a namespace, as its parent is one of another. */
		return (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, NULL, NULL, NULL, NULL);
	}
}

/* forks DIR: answers to the parent are on their way while its children, made in all ways, try. */
static int forks(char **v)
{
	struct reclaim *r = opened();
	int fd = directory(v[0]);
	struct expected e = { .from = 1 };

	reclaim_fd_of_parent = reclaim_fd(r);
	said(r, "on_finished", reclaim_on_finished(r, on_finished_count, &e));
	for (unsigned how = 0; how < 4; how++) {
		char name[32];
		pid_t pid;

		snprintf(name, sizeof(name), "parent.%u", how);
		if (reclaim_submit_at_async(r, fd, name, NULL, on_answer_count, &answers) < 0)
			printf("not sent\n");
		snprintf(name, sizeof(name), "child.%u", how);
		pid = fork_by((int)how);
		if (pid == 0)
			child_tries(r, fd, name);
		waitpid(pid, NULL, 0);
	}
	/* Those of the children, too. */
	said(r, "loop", loop(r, &e.ended, 8));
	printf("answers: %u\n", answers);
	close(fd);
	reclaim_close(r);
	return 0;
}

static int has_handler(int signal)
{
	struct sigaction a;

	return sigaction(signal, NULL, &a) == 0 && a.sa_handler != SIG_DFL;
}

/* cloexec: opens nothing that a program which is run has, and leaves signals as they are. */
static int cloexec(char **v)
{
	int open_fds = 0, handlers = 0;
	struct reclaim *r;

	(void)v;
	for (int i = 1; i < NSIG; i++)
		handlers += has_handler(i);
	r = opened();
	for (int i = 1; i < NSIG; i++)
		handlers -= has_handler(i);
	for (int fd = 3; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			open_fds++;
	}
	printf("left open: %d, ours is %d, signals: %d\n", open_fds, reclaim_fd(r) > 2, handlers);
	reclaim_close(r);
	printf("flags: %s\n", strerrorname_np(-reclaim_open(&r, 2)));
	reclaim_close(NULL);
	return 0;
}

static const char *threads_dir;

static void *thread(void *number)
{
	int fd = directory(threads_dir);
	struct reclaim *r = NULL;
	intptr_t good = 0;

	if (reclaim_open(&r, 0) < 0)
		return NULL;
	for (int i = 0; i < FILES; i++) {
		struct reclaim_status s = RECLAIM_STATUS_INIT;
		uint64_t job;
		char name[32];

		snprintf(name, sizeof(name), "%d.%d", (int)(intptr_t)number, i);
		if (reclaim_submit_at(r, fd, name, NULL, &job) == 0 &&
		    reclaim_submit_at(r, fd, name, NULL, NULL) == -ENOENT &&
		    strcmp(reclaim_error(r), "No such file or directory") == 0 &&
		    reclaim_wait(r, job, RECLAIM_FOREVER, &s) == 0 && s.state == RECLAIM_DONE)
			good++;
	}
	close(fd);
	reclaim_close(r);
	return (void *)good;
}

/* threads DIR: each with a handle of its own */
static int threads(char **v)
{
	pthread_t ids[THREADS];
	intptr_t good = 0;

	threads_dir = v[0];
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, thread, (void *)i) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++) {
		void *n;

		pthread_join(ids[i], &n);
		good += (intptr_t)n;
	}
	printf("good: %d\n", (int)good);
	return 0;
}

static struct {
	pthread_mutex_t lock;
	struct reclaim *handle;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One at a time, each with what is its own: the answer to one is never another's. */
static void *sharing_thread(void *number)
{
	int fd = directory(threads_dir);
	intptr_t good = 0;

	for (int i = 0; i < FILES; i++) {
		struct reclaim_status s = RECLAIM_STATUS_INIT;
		uint64_t job = 0;
		char name[32];
		int error;

		snprintf(name, sizeof(name), "%d.%d", (int)(intptr_t)number, i);
		pthread_mutex_lock(&shared.lock);
		error = reclaim_submit_at(shared.handle, fd, name, NULL, &job);
		pthread_mutex_unlock(&shared.lock);
		pthread_mutex_lock(&shared.lock);
		if (error == 0 && faccessat(fd, name, F_OK, 0) < 0 &&
		    reclaim_submit_at(shared.handle, fd, name, NULL, NULL) == -ENOENT &&
		    strcmp(reclaim_error(shared.handle), "No such file or directory") == 0 &&
		    reclaim_wait(shared.handle, job, RECLAIM_FOREVER, &s) == 0 && s.job == job &&
		    s.state == RECLAIM_DONE)
			good++;
		pthread_mutex_unlock(&shared.lock);
	}
	close(fd);
	return (void *)good;
}

static _Atomic int threads_go;

static void *forking_thread(void *p)
{
	(void)p;
	while (threads_go) {
		pid_t pid;
		int status;

		/* No other thread is in the midst of something with it. */
		pthread_mutex_lock(&shared.lock);
		pid = fork();
		if (pid == 0) {
			bool refused = reclaim_cancel(shared.handle, 1) == -ECHILD;

			reclaim_close(shared.handle);
			_exit(refused ? 0 : 1);
		}
		pthread_mutex_unlock(&shared.lock);
		if (waitpid(pid, &status, 0) != pid || status != 0)
			printf("a child was not refused: %d\n", status);
	}
	return NULL;
}

/* sharing DIR: one handle for all, while children come and go */
static int sharing(char **v)
{
	pthread_t ids[THREADS], forking;
	intptr_t good = 0;

	threads_dir = v[0];
	shared.handle = opened();
	threads_go = 1;
	if (pthread_create(&forking, NULL, forking_thread, NULL) != 0)
		return 1;
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, sharing_thread, (void *)i) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++) {
		void *n;

		pthread_join(ids[i], &n);
		good += (intptr_t)n;
	}
	threads_go = 0;
	pthread_join(forking, NULL);
	printf("good: %d\n", (int)good);
	reclaim_close(shared.handle);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int args;
		int (*run)(char **v);
	} verbs[] = {
		{ "submit", 5, submit },   { "wait", 2, wait_job },   { "get", 1, get },
		{ "cancel", 1, cancel },   { "plan", 2, plan },       { "sizes", 3, sizes },
		{ "loop", 5, event_loop }, { "lost", 2, lost },       { "wait-lost", 2, wait_lost },
		{ "fork", 2, forked },     { "cloexec", 0, cloexec }, { "replaced", 3, replaced },
		{ "threads", 1, threads }, { "forks", 1, forks },     { "sharing", 1, sharing },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(argv[1], verbs[i].name) == 0 && argc == verbs[i].args + 2)
			return verbs[i].run(argv + 2);
	fprintf(stderr, "usage: library VERB ARGUMENTS, as they are described in the source\n");
	return 2;
}
