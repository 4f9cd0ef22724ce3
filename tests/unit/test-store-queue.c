/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The thread of the store: many answers for one flush, in order, each only when it is durable. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store-support.h"
#include "store/store-internal.h"
#include "store/store-queue.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

enum { MANY = 400 };

struct fixture {
	struct state_dir dir;
	struct store *store; /* the queue's */
	struct store_queue *q;
	sem_t begun, go;
	atomic_uint commits, lazy_commits;
	bool refuse_commits; /* set before the thread is let go */
	unsigned int answers, failed;
	int last;
};

/* What is posted: an id to see the order by, and how it is to end. */
struct request {
	struct fixture *f;
	unsigned int number;
	int fail; /* with this, after it has written */
	uint64_t seen, id;
};

static int count_commit(void *userdata)
{
	struct fixture *f = userdata;

	atomic_fetch_add(&f->commits, 1);
	atomic_fetch_add(&f->lazy_commits, f->store->lazy);
	return f->refuse_commits;
}

static void fixture_make(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	state_make(&f->dir);
	f->store = state_open(&f->dir);
	(void)sqlite3_commit_hook(f->store->db, count_commit, f);
	ck_assert_int_eq(sem_init(&f->begun, 0, 0), 0);
	ck_assert_int_eq(sem_init(&f->go, 0, 0), 0);
	ck_assert_int_eq(store_queue_new(&f->q, f->store), 0);
}

static void fixture_remove(struct fixture *f)
{
	store_queue_free(f->q);
	(void)sem_destroy(&f->begun);
	(void)sem_destroy(&f->go);
	state_remove(&f->dir);
}

static int wait_work(struct store *s, void *userdata)
{
	struct fixture *f = userdata;

	(void)s;
	(void)sem_post(&f->begun);
	while (sem_wait(&f->go) < 0)
		;
	return 0;
}

/* Keeps the writing thread in a piece of work until sem_post(&f->go). */
static void hold(struct fixture *f)
{
	ck_assert_int_eq(store_queue_post(f->q, wait_work, NULL, f), 0);
	while (sem_wait(&f->begun) < 0)
		;
}

static int add_work(struct store *s, void *userdata)
{
	struct request *r = userdata;
	int e = job_make(s, "/a", 1, &r->id);

	return e < 0 ? e : r->fail < 0 ? r->fail : (int)r->number;
}

static int count_work(struct store *s, void *userdata)
{
	struct request *r = userdata;

	r->seen = jobs_count(s);
	return 0;
}

static void answered(int r, void *userdata)
{
	struct request *q = userdata;

	ck_assert_uint_eq(q->number, q->f->answers);
	q->f->answers++;
	q->f->failed += r < 0;
	q->f->last = r;
	if (r >= 0 && q->id > 0)
		ck_assert_int_eq(r, (int)q->number);
}

static void wait_answers(struct fixture *f, unsigned int n)
{
	struct pollfd p = { .fd = store_queue_fd(f->q), .events = POLLIN };

	while (f->answers < n) {
		ck_assert_int_eq(poll(&p, 1, 20000), 1);
		store_queue_dispatch(f->q);
	}
}

static void requests_init(struct fixture *f, struct request *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		r[i] = (struct request){ .f = f, .number = i };
}

START_TEST(one_commit_answers_many)
{
	struct fixture f;
	struct request r[MANY];
	struct pollfd p;
	struct store *s;

	fixture_make(&f);
	requests_init(&f, r, MANY);
	hold(&f);
	for (unsigned int i = 0; i < MANY; i++)
		ck_assert_int_eq(store_queue_post(f.q, add_work, answered, &r[i]), 0);
	p = (struct pollfd){ .fd = store_queue_fd(f.q), .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	(void)sem_post(&f.go);
	wait_answers(&f, MANY);
	ck_assert_uint_eq(f.failed, 0);
	ck_assert_uint_ge(atomic_load(&f.commits), 1);
	ck_assert_uint_lt(atomic_load(&f.commits), MANY / 4);
	store_queue_dispatch(f.q); /* with nothing to give out */
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	f.q = store_queue_free(f.q);
	s = state_open(&f.dir);
	ck_assert_uint_eq(jobs_count(s), MANY);
	store_close(s);
	fixture_remove(&f);
}
END_TEST

START_TEST(parts_are_flushed_with_what_completes_them)
{
	struct request r[12];
	struct fixture f;

	fixture_make(&f);
	requests_init(&f, r, 12);
	for (unsigned int i = 0; i < 5; i++)
		ck_assert_int_eq(store_queue_accept_part(f.q, add_work, answered, &r[i]), 0);
	wait_answers(&f, 5);
	ck_assert_uint_ge(atomic_load(&f.commits), 1);
	ck_assert_uint_eq(atomic_load(&f.commits), atomic_load(&f.lazy_commits));
	/* Together with more of them: these are not flushed, but what is posted behind them is. */
	atomic_store(&f.commits, 0);
	atomic_store(&f.lazy_commits, 0);
	hold(&f);
	for (unsigned int i = 5; i < 12; i++)
		ck_assert_int_eq((i == 9 ? store_queue_accept
					 : store_queue_accept_part)(f.q, add_work, answered, &r[i]),
				 0);
	(void)sem_post(&f.go);
	wait_answers(&f, 12);
	ck_assert_uint_eq(f.failed, 0);
	ck_assert_uint_ge(atomic_load(&f.lazy_commits), 1);
	/* The other one is that of hold(). */
	ck_assert_uint_ge(atomic_load(&f.commits), atomic_load(&f.lazy_commits) + 2);
	fixture_remove(&f);
}
END_TEST

START_TEST(work_that_fails_is_undone_alone)
{
	struct fixture f;
	struct request r[30];
	struct store *s;

	fixture_make(&f);
	requests_init(&f, r, 30);
	hold(&f);
	for (unsigned int i = 0; i < 30; i++) {
		r[i].fail = i % 3 == 1 ? -EPERM : 0;
		ck_assert_int_eq(store_queue_post(f.q, add_work, answered, &r[i]), 0);
	}
	(void)sem_post(&f.go);
	wait_answers(&f, 30);
	ck_assert_uint_eq(f.failed, 10);
	f.q = store_queue_free(f.q);
	s = state_open(&f.dir);
	ck_assert_uint_eq(jobs_count(s), 20);
	store_close(s);
	fixture_remove(&f);
}
END_TEST

START_TEST(a_commit_that_fails_fails_all_of_it)
{
	struct fixture f;
	struct request r[20];

	fixture_make(&f);
	requests_init(&f, r, 20);
	hold(&f);
	f.refuse_commits = true;
	for (unsigned int i = 0; i < 19; i++)
		ck_assert_int_eq(store_queue_post(f.q, add_work, answered, &r[i]), 0);
	ck_assert_int_eq(store_queue_read(f.q, STORE_DAEMON, count_work, answered, &r[19]), 0);
	(void)sem_post(&f.go);
	wait_answers(&f, 20);
	ck_assert_uint_eq(f.failed, 19);
	ck_assert_uint_eq(r[19].seen, 0);
	fixture_remove(&f);
}
END_TEST

START_TEST(own_reads_see_everything_posted_before_them)
{
	struct fixture f;
	struct request r[3];

	fixture_make(&f);
	requests_init(&f, r, 3);
	ck_assert_int_eq(store_queue_read(f.q, STORE_DAEMON, count_work, answered, &r[0]), 0);
	wait_answers(&f, 1);
	ck_assert_uint_eq(atomic_load(&f.commits), 0);
	hold(&f);
	ck_assert_int_eq(store_queue_post(f.q, add_work, answered, &r[1]), 0);
	ck_assert_int_eq(store_queue_read(f.q, STORE_DAEMON, count_work, answered, &r[2]), 0);
	(void)sem_post(&f.go);
	wait_answers(&f, 3);
	ck_assert_uint_eq(r[2].seen, 1);
	fixture_remove(&f);
}
END_TEST

static int wait_request_work(struct store *s, void *userdata)
{
	const struct request *r = userdata;

	return wait_work(s, r->f);
}

/* Keeps the reading thread in a read until sem_post(&f->go). */
static void hold_read(struct fixture *f, store_done_t done, struct request *r)
{
	ck_assert_int_eq(store_queue_read(f->q, 1000, wait_request_work, done, r), 0);
	while (sem_wait(&f->begun) < 0)
		;
}

START_TEST(reads_of_users_do_not_wait_for_writes)
{
	struct fixture f;
	struct request r[1];

	fixture_make(&f);
	requests_init(&f, r, 1);
	hold(&f);
	ck_assert_int_eq(store_queue_read(f.q, 1000, count_work, answered, &r[0]), 0);
	wait_answers(&f, 1);
	ck_assert_uint_eq(r[0].seen, 0);
	(void)sem_post(&f.go);
	fixture_remove(&f);
}
END_TEST

START_TEST(test_attack_48_writes_do_not_wait_for_reads)
{
	struct fixture f;
	struct request r[2];

	fixture_make(&f);
	requests_init(&f, r, 2);
	hold_read(&f, NULL, &r[1]);
	ck_assert_int_eq(store_queue_accept(f.q, add_work, answered, &r[0]), 0);
	wait_answers(&f, 1);
	ck_assert_uint_eq(f.failed, 0);
	(void)sem_post(&f.go);
	fixture_remove(&f);
}
END_TEST

/* A list that was being read when a job ended must be shown before the job is forgotten. */
START_TEST(the_last_change_of_a_job_is_answered_after_the_read_in_progress)
{
	struct fixture f;
	struct request r[3]; /* in the order of their answers */

	fixture_make(&f);
	requests_init(&f, r, 3);
	hold_read(&f, answered, &r[1]);
	ck_assert_int_eq(store_queue_post_last(f.q, add_work, answered, &r[2]), 0);
	ck_assert_int_eq(store_queue_post(f.q, add_work, answered, &r[0]), 0);
	wait_answers(&f, 1);
	(void)sem_post(&f.go);
	wait_answers(&f, 3);
	ck_assert_uint_eq(f.failed, 0);
	fixture_remove(&f);
}
END_TEST

static int no_work(struct store *s, void *userdata)
{
	(void)s;
	(void)userdata;
	return 0;
}

/* One user has a thousand reads waiting: each other user waits for one of them at most. */
START_TEST(test_attack_48_callers_are_served_in_turn)
{
	enum { READS = 1000 };
	static struct request r[READS + 4]; /* in the order of their answers */
	struct fixture f;

	fixture_make(&f);
	requests_init(&f, r, READS + 4);
	hold_read(&f, NULL, &r[0]);
	for (unsigned int i = 4; i < READS + 4; i++)
		ck_assert_int_eq(store_queue_read(f.q, 1000, no_work, answered, &r[i]), 0);
	ck_assert_int_eq(store_queue_read(f.q, 1001, no_work, answered, &r[2]), 0);
	ck_assert_int_eq(store_queue_read(f.q, 0, no_work, answered, &r[3]), 0);
	ck_assert_int_eq(store_queue_read(f.q, STORE_DAEMON, no_work, answered, &r[0]), 0);
	ck_assert_int_eq(store_queue_read_on(f.q, 1000, no_work, answered, &r[1]), 0);
	(void)sem_post(&f.go);
	wait_answers(&f, READS + 4);
	fixture_remove(&f);
}
END_TEST

static struct request again;

static void post_again(int r, void *userdata)
{
	struct request *q = userdata;

	ck_assert_int_ge(r, 0);
	again = (struct request){ .f = q->f };
	ck_assert_int_eq(store_queue_post(q->f->q, add_work, answered, &again), 0);
}

START_TEST(freeing_does_what_was_posted_first)
{
	struct fixture f;
	struct request r[50];
	struct store *s;

	fixture_make(&f);
	requests_init(&f, r, 50);
	hold(&f);
	for (unsigned int i = 1; i < 50; i++)
		ck_assert_int_eq(store_queue_post(f.q, add_work, NULL, &r[i]), 0);
	ck_assert_int_eq(store_queue_post(f.q, add_work, post_again, &r[0]), 0);
	(void)sem_post(&f.go);
	f.q = store_queue_free(f.q);
	ck_assert_uint_eq(f.answers, 1);
	s = state_open(&f.dir);
	ck_assert_uint_eq(jobs_count(s), 51);
	store_close(s);
	ck_assert_ptr_null(store_queue_free(NULL));
	fixture_remove(&f);
}
END_TEST

static int mask_work(struct store *s, void *userdata)
{
	sigset_t *mask = userdata;

	(void)s;
	return -pthread_sigmask(SIG_SETMASK, NULL, mask);
}

START_TEST(signals_are_left_to_the_loop)
{
	struct fixture f;
	sigset_t mask, mine;

	fixture_make(&f);
	ck_assert_int_eq(store_queue_post(f.q, mask_work, NULL, &mask), 0);
	f.q = store_queue_free(f.q);
	ck_assert_int_eq(sigismember(&mask, SIGTERM), 1);
	ck_assert_int_eq(sigismember(&mask, SIGCHLD), 1);
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
	ck_assert_int_eq(sigismember(&mine, SIGTERM), 0);
	fixture_remove(&f);
}
END_TEST

/* Posts for ever, and writes the number of each job that it was told is durable. */
static void tell(int r, void *userdata)
{
	struct request *q = userdata;

	if (r < 0 || write((int)q->seen, &q->id, sizeof(q->id)) != sizeof(q->id))
		_exit(1);
	q->seen = 0;
}

static void submit_for_ever(const struct state_dir *d, int out)
{
	struct request r[8];
	struct store_queue *q = NULL;
	struct pollfd p = { .events = POLLIN };
	struct store *s = NULL;
	char *aside = NULL;
	const char *why;

	if (store_open(&s, d->path, &aside, &why) < 0 || store_queue_new(&q, s) < 0)
		_exit(1);
	p.fd = store_queue_fd(q);
	for (;;) {
		for (size_t i = 0; i < ELEMENTSOF(r); i++) {
			r[i] = (struct request){ .seen = (uint64_t)out };
			if (store_queue_post(q, add_work, tell, &r[i]) < 0)
				_exit(1);
		}
		/* Until all are answered: their places are used again. */
		for (bool open = true; open;) {
			(void)poll(&p, 1, -1);
			store_queue_dispatch(q);
			open = false;
			for (size_t i = 0; i < ELEMENTSOF(r); i++)
				open |= r[i].seen != 0;
		}
	}
}

START_TEST(what_was_answered_survives_a_kill)
{
	struct state_dir d;

	state_make(&d);
	for (unsigned int round = 0; round < 20; round++) {
		uint64_t id = 0, last = 0;
		struct store *s;
		int fds[2];
		pid_t pid;

		ck_assert_int_eq(pipe(fds), 0);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0)
			submit_for_ever(&d, fds[1]);
		(void)close(fds[1]);
		for (unsigned int i = 0; i <= 3 * round; i++) {
			ck_assert_int_eq(read(fds[0], &id, sizeof(id)), sizeof(id));
			last = id;
		}
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		while (read(fds[0], &id, sizeof(id)) == sizeof(id))
			last = id;
		(void)close(fds[0]);
		s = state_open(&d);
		ck_assert_uint_ge(jobs_count(s), last);
		for (uint64_t i = 1; i <= jobs_count(s); i++)
			ck_assert_uint_eq(entries_count(s, i), 1);
		store_close(s);
	}
	state_remove(&d);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		one_commit_answers_many,
		parts_are_flushed_with_what_completes_them,
		work_that_fails_is_undone_alone,
		a_commit_that_fails_fails_all_of_it,
		own_reads_see_everything_posted_before_them,
		reads_of_users_do_not_wait_for_writes,
		test_attack_48_writes_do_not_wait_for_reads,
		the_last_change_of_a_job_is_answered_after_the_read_in_progress,
		test_attack_48_callers_are_served_in_turn,
		freeing_does_what_was_posted_first,
		signals_are_left_to_the_loop,
		what_was_answered_survives_a_kill,
	};

	return run_case("store-queue", tests, ELEMENTSOF(tests));
}
