/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two deleters on one tree, as two hosts would be: one has the job, and gives units of it away,
 * which the other takes, and the first when it has nothing else to do. Either is killed at some
 * moment; what it had is done again. In the end a last run takes what is left, and nothing else has
 * been touched. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"
#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"
#include "daemon/workers/worker-handle-state.h"
#include "worker-fixture.h"

#define ROUNDS 20

#define FLAT 2500
#define DIRS 60
#define DIR_FILES 30
#define TREE (1ULL + 1 + FLAT + 1 + DIRS * (1ULL + DIR_FILES))

/* A unit that was given away, or a unit of none: the job's name itself. */
struct unit {
	struct run_unit unit;
	char *path;
	struct run_item *items;
	char *names;
	size_t n;
};

struct host {
	struct worker *worker;
	struct unit does; /* while it runs */
	bool runs, gives;
	uint64_t done; /* by runs that have ended */
};

static struct fixture f;
static struct {
	struct host hosts[2];
	struct unit *waiting;
	size_t n_waiting;
	struct unit job; /* all of it */
	int job_fd;
	bool job_ran; /* once, to its end */
	uint64_t given, errors, killed;
	unsigned kept;
} s;

static void unit_free(struct unit *u)
{
	free(u->path);
	free(u->items);
	free(u->names);
	*u = (struct unit){ 0 };
}

static struct unit unit_copy(const struct run_unit *unit, const struct given_name *names, size_t n)
{
	struct unit u = { .unit = *unit, .path = strdup(unit->path), .n = n };

	u.unit.path = u.path;
	u.items = calloc(n + 1, sizeof(*u.items));
	u.names = calloc(n + 1, NAME_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		char *name = u.names + i * (NAME_MAX + 1);

		(void)snprintf(name, NAME_MAX + 1, "%s", names[i].name);
		u.items[i] = (struct run_item){ i + 1, name, names[i].id };
	}
	return u;
}

static void put(struct unit u)
{
	struct unit *to = array_add(&s.waiting, &s.n_waiting, sizeof(*to));

	ck_assert_ptr_nonnull(to);
	*to = u;
}

static struct unit take(void)
{
	struct unit u = s.waiting[0];

	memmove(s.waiting, s.waiting + 1, --s.n_waiting * sizeof(u));
	return u;
}

static void on_given(const struct given_unit *u, void *userdata)
{
	(void)userdata;
	put(unit_copy(&u->unit, u->names, u->n));
	s.given++;
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	(void)userdata;
	s.errors += p->is_error;
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	(void)seq;
	(void)userdata;
	/* The other one may have been quicker. */
	s.kept += error != -ENOENT;
}

static bool is_job(const struct unit *u)
{
	return !u->path;
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	struct host *h = userdata;

	h->runs = false;
	if (result) {
		h->done += result->entries;
		s.errors += result->errors;
	}
	/* What was begun and not ended is done again, by whichever host is free. */
	if (r == -EPIPE && !is_job(&h->does))
		put(h->does);
	else if (!is_job(&h->does))
		unit_free(&h->does);
	else
		s.job_ran = r == 0;
}

static void host_start(struct host *h)
{
	struct worker_options o = { .program = RECLAIM_WORKER,
				    .role = WORKER_DELETE,
				    .credentials = &f.who,
				    .landlock_fd = s.job_fd };

	h->worker = worker_free(h->worker);
	ck_assert_int_ge(worker_new(&h->worker, f.event, &o), 0);
}

static void host_run(struct host *h, struct unit u, bool gives)
{
	const struct run_callbacks cb = { .problem = on_problem,
					  .kept = on_kept,
					  .ran = on_ran,
					  .given = gives ? on_given : NULL,
					  .unit = is_job(&u) ? NULL : &u.unit };

	h->does = u;
	h->runs = true;
	ck_assert_int_ge(worker_run(h->worker, s.job_fd, NULL, 0, "/shown", u.items, u.n, &cb, h),
			 0);
	if (gives)
		worker_demand(h->worker, 3);
}

/* Each host that is free takes something. False: there is nothing, and none has any. */
static bool go_on(bool gives)
{
	bool busy = false;

	for (size_t i = 0; i < 2; i++) {
		struct host *h = &s.hosts[i];

		if (!h->runs && worker_ended(h->worker))
			host_start(h);
		if (!h->runs && i == 0 && !s.job_ran)
			host_run(h, s.job, gives);
		else if (!h->runs && s.n_waiting > 0)
			host_run(h, take(), gives);
		busy = busy || h->runs;
	}
	return busy;
}

static uint64_t done_so_far(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		struct run_progress p = { 0 };

		if (s.hosts[i].runs && !worker_ended(s.hosts[i].worker))
			worker_progress(s.hosts[i].worker, &p);
		n += s.hosts[i].done + p.entries;
	}
	return n;
}

/* Files and directories of the submitter's own, made as that. */
static void tree_of_job(void)
{
	char name[64];

	ck_assert_int_eq(setegid(NOBODY), 0);
	ck_assert_int_eq(seteuid(NOBODY), 0);
	tree_make(f.dir, "job/1/ job/1/flat/ job/1/dirs/");
	for (int i = 0; i < FLAT; i++) {
		(void)snprintf(name, sizeof(name), "1/flat/%d", i);
		ck_assert_int_eq(mknodat(s.job_fd, name, S_IFREG | 0600, 0), 0);
	}
	for (int i = 0; i < DIRS; i++) {
		(void)snprintf(name, sizeof(name), "1/dirs/%d", i);
		ck_assert_int_eq(mkdirat(s.job_fd, name, 0700), 0);
		for (int k = 0; k < DIR_FILES; k++) {
			(void)snprintf(name, sizeof(name), "1/dirs/%d/%d", i, k);
			ck_assert_int_eq(mknodat(s.job_fd, name, S_IFREG | 0600, 0), 0);
		}
	}
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(setegid(0), 0);
}

static void canaries_live(void)
{
	ck_assert(fixture_has(&f, "canary/x") && fixture_has(&f, "job/2/canary"));
}

/* The one is killed, or the other, or none, when so much has been done. */
static void round_of(unsigned n)
{
	struct host *victim = n % 3 < 2 ? &s.hosts[n % 3] : NULL;
	uint64_t when = (uint64_t)rand() % TREE;
	struct run_item item = { .seq = 1, .name = "1" };

	s.job_ran = false;
	for (size_t i = 0; i < 2; i++)
		s.hosts[i].done = 0;
	tree_of_job();
	ck_assert_int_eq(lasting_at(s.job_fd, "1", &item.id), 0);
	s.job = (struct unit){ .items = &item, .n = 1 };
	while (go_on(/* gives= */ true)) {
		ck_assert_int_ge(sd_event_run(f.event, 1000), 0);
		if (!victim || !victim->runs || done_so_far() < when)
			continue;
		ck_assert_int_eq(
			syscall(SYS_pidfd_send_signal, victim->worker->pidfd, SIGKILL, NULL, 0), 0);
		victim = NULL;
		s.killed++;
	}
	canaries_live();
	s.job_ran = false;
	s.kept = 0;
	while (go_on(/* gives= */ false))
		ck_assert_int_ge(sd_event_run(f.event, UINT64_MAX), 0);
	ck_assert_uint_eq(s.kept, 0);
	ck_assert(!fixture_has(&f, "job/1"));
	canaries_live();
	ck_assert_uint_eq(s.errors, 0);
}

START_TEST(two_hosts_end_one_job)
{
	s.job_fd = fixture_mkdir(&f, "job", 0700);
	tree_make(f.dir, "canary/ canary/x job/2/ job/2/canary");
	srand(1);
	for (size_t i = 0; i < 2; i++)
		host_start(&s.hosts[i]);
	for (unsigned n = 0; n < ROUNDS; n++)
		round_of(n);
	ck_assert_uint_gt(s.given, 0);
	ck_assert_uint_gt(s.killed, 0);
	for (size_t i = 0; i < 2; i++)
		s.hosts[i].worker = worker_free(s.hosts[i].worker);
	free(s.waiting);
	(void)close(s.job_fd);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { two_hosts_end_one_job };

	return fixture_run_case("two-hosts", &f, tests, ELEMENTSOF(tests));
}
