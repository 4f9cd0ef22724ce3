/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "operations-state.h"
#include "operations.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/context/account.h"
#include "caller.h"
#include "config/config.h"
#include "daemon/jobs/job-control.h"
#include "daemon/jobs/job-rest.h"
#include "daemon/jobs/pacing-window.h"
#include "daemon/context/failure.h"
#include "polkit-grant.h"
#include "daemon/context/log.h"
#include "daemon/jobs/remainder.h"
#include "daemon/jobs/schedule.h"
#include "daemon/jobs/settlement.h"
#include "base/fd.h"

bool authorize_everybody(const struct caller *c, struct failure *f, const char *what)
{
	if (c->id.uid == 0 || (c->grant && c->grant->everybody))
		return true;
	failure_set(f, ERROR_NOT_AUTHORIZED, "only root may %s", what);
	f->others = true;
	return false;
}

bool operations_stopping(const struct operations *o, struct failure *f)
{
	bool is = o->jobs->context->stopping;

	if (is)
		failure_set(f, ERROR_BUSY, "reclaimd is stopping: try again when it runs");
	return is;
}

/* The mount table of the process that asks, which decides what it can write to. A process that has
 * ended is not answered either. */
static bool view_open(const struct caller *c, int *ret, struct failure *f, const char *what)
{
	int r = caller_view(c, ret);

	if (r < 0)
		failure_set(f, ERROR_NOT_AUTHORIZED,
			    "%s: which mounts the process that asks has cannot be seen (%s): it "
			    "must be there until it is answered, and not in a process namespace "
			    "around reclaimd's",
			    what, strerror(-r));
	return r >= 0;
}

/* ---- submit -----------------------------------------------------------------------------------
 */

/* Refuses another job of an account that has its share of jobs: each takes memory until it has
 * ended. */
static void check_jobs(const struct operations *o, uid_t account, struct failure *f)
{
	uint64_t most = o->jobs->context->config->jobs_per_user, own = 0, all = 0, share;
	const struct user *u;

	LIST_FOREACH(u, &o->jobs->submitters->users, link) {
		own += u->account == account ? u->jobs : 0;
		all += u->account != 0 ? u->jobs : 0;
	}
	share = account == 0 ? most : held_part(own, all, most);
	if (own >= most)
		failure_set(f, ERROR_LIMIT_EXCEEDED,
			    "uid %u has %" PRIu64 " unfinished jobs, which is the "
			    "limit (`limits: {jobs-per-user: }`): wait for some to end, or submit "
			    "many paths as one job",
			    (unsigned)account, own);
	else if (own >= share)
		failure_set(f, ERROR_LIMIT_EXCEEDED,
			    "uid %u has %" PRIu64 " unfinished jobs, which is its share while "
			    "other users have %" PRIu64 " (`limits: {jobs-per-user: }`): wait for "
			    "some to end, or submit many paths as one job",
			    (unsigned)account, own, all - own);
}

static void check_submitters(const struct operations *o, const struct caller *c, struct failure *f)
{
	if (!submitter_has_room(o->jobs->submitters, &c->id))
		failure_set(
			f, ERROR_LIMIT_EXCEEDED,
			"uid %u has unfinished jobs of too many of its subordinate ids, or with "
			"too many different groups: wait for some to end",
			(unsigned)account_of(c->id.uid));
}

void operation_submit(struct operations *o, const struct caller *c,
		      const struct intake_group *groups, size_t n, const struct submit_options *how,
		      submit_done_t done, void *userdata)
{
	struct submitted none = { 0 };
	struct failure f = { 0 };
	uid_t account = account_of(c->id.uid);
	_cleanup_close_ int view_fd = -1;

	if (operations_stopping(o, &f))
		;
	else if (n == 0)
		failure_set(&f, ERROR_INVALID_ARGUMENT, "nothing is named that is to be deleted");
	else
		check_jobs(o, account, &f);
	if (!f.cause)
		check_submitters(o, c, &f);
	if (!f.cause)
		(void)view_open(c, &view_fd, &f, "nothing was accepted");
	if (f.cause)
		done(&f, &none, userdata);
	else
		submit_begin(o->jobs, &c->id, view_fd, groups, n, how, done, userdata);
}

/* ---- several jobs at once ---------------------------------------------------------------------
 */

/* Jobs of one call that are awake at the same time: a call may name a hundred thousand. */
#define SEVERAL_AT_ONCE 64

struct several {
	struct operations *o;
	enum control_verb verb;
	struct job_change to;   /* for CONTROL_CHANGE */
	struct failure failure; /* the first */
	operation_done_t done;
	void *userdata;
	bool beginning;
	size_t n, at, open; /* ids; begun with; and not answered yet */
	uint64_t ids[];     /* in order */
};

static struct job_stub *find(struct operations *o, const struct caller *c, uint64_t id,
			     struct failure *f)
{
	struct job_stub *s = job_table_find(&o->jobs->table, id);
	const struct job_record key = s ? job_stub_key(s) : (struct job_record){ 0 };

	if (s && (caller_may_see(c, &key) || grant_covers(c->grant, &key)))
		return s;
	failure_set(f, ERROR_NO_SUCH_JOB, "there is no unfinished job %" PRIu64, id);
	f->others = true;
	return NULL;
}

static void fail_unread(struct failure *f, const struct job_stub *s, int error)
{
	failure_errno(f, error, "job %" PRIu64 " is unchanged, its record cannot be read", s->id);
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void several_begin(struct several *s);

/* Ends the part of the call that concerns one job. If it failed and the job is unfinished, `stub`
 * is the job's, so that it waits again for what it waited for before the call; otherwise NULL. */
static void one_end(struct several *s, struct job_stub *stub, const struct failure *f)
{
	if (f->cause && !s->failure.cause)
		s->failure = *f;
	if (f->cause && stub)
		schedule_release(stub);
	s->open--;
	several_begin(s);
}

static void one_done(struct job *j, const struct failure *f, void *userdata)
{
	one_end(userdata, f->cause ? j->stub : NULL, f);
}

static void on_awake(int r, struct job_stub *stub, void *userdata)
{
	struct several *s = userdata;
	struct failure f = { 0 };

	if (r < 0) {
		fail_unread(&f, stub, r);
		one_end(s, stub, &f);
	} else if (s->verb == CONTROL_CHANGE) {
		control_change(stub->job, &s->to, one_done, s);
	} else {
		control_begin(s->verb, stub->job, NULL, one_done, s);
	}
}

static void one_begin(struct several *s, uint64_t id)
{
	struct job_stub *stub = job_table_find(&s->o->jobs->table, id);
	struct failure f = { 0 };

	s->open++;
	if (stub) {
		job_wake(stub, on_awake, s);
		return;
	}
	failure_set(&f, ERROR_WRONG_STATE, "job %" PRIu64 " has just finished", id);
	one_end(s, NULL, &f);
}

static void several_begin(struct several *s)
{
	if (s->beginning)
		return;
	s->beginning = true;
	for (; s->at < s->n && s->open < SEVERAL_AT_ONCE; s->at++)
		if (s->at == 0 || s->ids[s->at] != s->ids[s->at - 1])
			one_begin(s, s->ids[s->at]);
	s->beginning = false;
	if (s->open > 0)
		return;
	s->done(&s->failure, s->userdata);
	free(s);
}

/* Does something to all or none: a job that is not there, or cannot, refuses the rest too. to: for
 * CONTROL_CHANGE. */
static void act_on_jobs(struct operations *o, const struct caller *c, enum control_verb verb,
			const struct job_change *to, const uint64_t *ids, size_t n,
			operation_done_t done, void *userdata)
{
	struct several *s = calloc(1, sizeof(*s) + n * sizeof(*ids));
	struct failure f = { 0 };

	if (!s) {
		failure_errno(&f, -ENOMEM, "nothing was done");
		done(&f, userdata);
		return;
	}
	(void)operations_stopping(o, &f);
	for (size_t i = 0; i < n && !f.cause; i++) {
		const struct job_stub *stub = find(o, c, ids[i], &f);

		/* Resting jobs can be changed, cancelled, paused and resumed. */
		if (stub && stub->job)
			(void)control_may(to ? CONTROL_CHANGE : verb, stub->job, &f);
	}
	if (f.cause || n == 0) {
		free(s);
		done(&f, userdata);
		return;
	}
	*s = (struct several){ .o = o, .verb = verb, .done = done, .userdata = userdata, .n = n };
	if (to)
		s->to = *to;
	memcpy(s->ids, ids, n * sizeof(*ids));
	qsort(s->ids, n, sizeof(*ids), compare_ids);
	/* None begins to delete before it is its turn to be cancelled. */
	for (size_t i = 0; i < n && (verb == CONTROL_CANCEL || verb == CONTROL_PAUSE); i++)
		schedule_withhold(job_table_find(&o->jobs->table, s->ids[i]));
	several_begin(s);
}

void operation_change(struct operations *o, const struct caller *c, const struct job_change *to,
		      const uint64_t *ids, size_t n, operation_done_t done, void *userdata)
{
	act_on_jobs(o, c, CONTROL_CHANGE, to, ids, n, done, userdata);
}

struct restoring {
	struct restore_target to; /* its own */
	uint64_t id;
	operation_done_t done;
	void *userdata;
};

static void restoring_end(struct job *j, const struct failure *f, void *userdata)
{
	struct restoring *r = userdata;

	(void)j;
	r->done(f, r->userdata);
	fd_closep(&r->to.fd);
	fd_closep(&r->to.view_fd);
	free((char *)r->to.name);
	free(r);
}

static void on_awake_to_restore(int e, struct job_stub *s, void *userdata)
{
	struct restoring *r = userdata;
	struct job *j = s->job;
	struct failure f = { 0 };

	if (e < 0)
		fail_unread(&f, s, e);
	else if (r->to.name && j->r.names > 1)
		failure_set(&f, ERROR_INVALID_ARGUMENT,
			    "job %" PRIu64 " has %" PRIu64 " names: they can go "
			    "into another directory, but not all become %s",
			    r->id, j->r.names, "one name");
	if (f.cause)
		restoring_end(NULL, &f, r);
	else
		control_begin(CONTROL_RESTORE, j, &r->to, restoring_end, r);
}

void operation_restore(struct operations *o, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata)
{
	struct restoring *r = calloc(1, sizeof(*r));
	struct caller by = *c;
	struct failure f = { 0 };
	struct job_stub *stub = NULL;
	char what[32];

	if (!r) {
		failure_errno(&f, -ENOMEM, "nothing was done");
		done(&f, userdata);
		return;
	}
	*r = (struct restoring){
		.to = { .fd = -1, .view_fd = -1 }, .id = id, .done = done, .userdata = userdata
	};
	if (to_fd >= 0)
		by.grant = NULL;
	if (!operations_stopping(o, &f))
		stub = find(o, &by, id, &f);
	if (to_fd >= 0)
		f.others = false;
	(void)snprintf(what, sizeof(what), "job %" PRIu64, id);
	if (stub && view_open(c, &r->to.view_fd, &f, what)) {
		r->to.fd = to_fd >= 0 ? fcntl(to_fd, F_DUPFD_CLOEXEC, 3) : -1;
		r->to.name = to_name ? strdup(to_name) : NULL;
		if ((to_fd >= 0 && r->to.fd < 0) || (to_name && !r->to.name))
			failure_errno(&f, -ENOMEM, "job %" PRIu64, id);
	}
	if (stub && !f.cause)
		job_wake(stub, on_awake_to_restore, r);
	else
		restoring_end(NULL, &f, r);
}

/* ---- all at once ------------------------------------------------------------------------------
 */

struct pausing {
	operation_done_t done;
	void *userdata;
};

static void on_paused(int r, void *userdata)
{
	struct pausing *p = userdata;
	struct failure f = { 0 };

	if (r < 0)
		failure_errno(&f, r, "it is done, but will not last over a restart");
	p->done(&f, p->userdata);
	free(p);
}

static void act_on_all(struct operations *o, const struct caller *c, enum act act,
		       operation_done_t done, void *userdata)
{
	bool reload = act == ACT_RELOAD;
	struct failure f = { 0 };
	struct pausing *p;

	if (authorize_everybody(
		    c, &f, reload ? "reload the configuration" : "pause the jobs of all users") &&
	    !reload) {
		p = malloc(sizeof(*p));
		if (p) {
			*p = (struct pausing){ done, userdata };
			if (jobs_pause_all(o->jobs, act == ACT_PAUSE_ALL, on_paused, p) >= 0)
				return;
			free(p);
		}
		failure_errno(&f, -ENOMEM, "nothing was done");
	} else if (!f.cause && o->reload(o->userdata) < 0) {
		failure_set(&f, ERROR_INVALID_ARGUMENT, "the configuration stays as it was: %s",
			    o->jobs->context->configuration_error
				    ? o->jobs->context->configuration_error
				    : "out of memory");
	}
	done(&f, userdata);
}

void operation_act(struct operations *o, const struct caller *c, enum act act, const uint64_t *ids,
		   size_t n, operation_done_t done, void *userdata)
{
	static const enum control_verb verbs[] = { [ACT_CANCEL] = CONTROL_CANCEL,
						   [ACT_PAUSE] = CONTROL_PAUSE,
						   [ACT_RESUME] = CONTROL_RESUME };

	if (act <= ACT_RESUME)
		act_on_jobs(o, c, verbs[act], NULL, ids, n, done, userdata);
	else
		act_on_all(o, c, act, done, userdata);
}

/* ---- the daemon itself ------------------------------------------------------------------------
 */

void operation_listen(struct operations *o, struct listener *l)
{
	listener_add(o->jobs->context, l);
}

void operation_ignore(struct operations *o, struct listener *l)
{
	listener_remove(o->jobs->context, l);
}

/* What running jobs have done is counted as they say it, and as they have proved it in the end,
 * which may be a little less: a counter must not go back. */
static void freed_view(struct jobs *jobs, struct daemon_view *ret)
{
	uint64_t entries = jobs->entries_freed, bytes = jobs->bytes_freed;
	const struct remainder *remainder;
	struct job_record now;
	const struct staging_area *area;

	LIST_FOREACH(remainder, &jobs->remainders, link)
		bytes += remainder_bytes(remainder);
	LIST_FOREACH(area, &jobs->submitters->areas, link) {
		if (!area->running)
			continue;
		job_snapshot(area->running, &now);
		entries += now.entries_done - area->running->r.entries_done;
		bytes += now.bytes_freed - area->running->r.bytes_freed;
		if (area->running->remainder)
			bytes -= remainder_bytes(area->running->remainder);
	}
	jobs->entries_told = MAX(jobs->entries_told, entries);
	jobs->bytes_told = MAX(jobs->bytes_told, bytes);
	ret->entries_freed = jobs->entries_told;
	ret->bytes_freed = jobs->bytes_told;
}

void operation_view(struct operations *o, struct daemon_view *ret)
{
	struct jobs *jobs = o->jobs;
	const struct context *c = jobs->context;
	const struct window_state w = pacing_window_state(jobs->window);

	*ret = (struct daemon_view){
		.version = RECLAIM_VERSION,
		.features = c->o.features,
		.paused = jobs->paused,
		.window = w.window ? w.window->span : "",
		.window_rate = w.window ? w.window->rate : 0,
		.window_until_usec = w.until_usec == UINT64_MAX ? 0 : w.until_usec,
		.configuration_error = c->configuration_error ? c->configuration_error : "",
		.store_error = c->health.error ? c->health.error : "",
		.interruptions = jobs->interruptions,
		.orphans = jobs->orphans,
		.fleet = jobs->fleet,
	};
	freed_view(jobs, ret);
	memcpy(ret->finished, jobs->finished, sizeof(jobs->finished));
	memcpy(ret->errors, jobs->errors, sizeof(jobs->errors));
	memcpy(ret->jobs, jobs->counts, sizeof(jobs->counts));
}

struct pacers *operation_pacers(struct operations *o)
{
	return o->jobs->context->pacers;
}

/* ---- what other processes leave ---------------------------------------------------------------
 */

/* More are refused, and what they ask for is then left to the kernel. */
#define SETTLINGS_MOST 64

struct settling {
	LIST_ENTRY(settling) link;
	struct operations *operations;
	struct settlement *settlement;
	operation_done_t done;
	void *userdata;
};

static void settling_end(struct settling *s, const struct failure *f)
{
	LIST_REMOVE(s, link);
	s->operations->n_settlings--;
	s->done(f, s->userdata);
	settlement_free(s->settlement);
	free(s);
}

static void on_settled(void *userdata)
{
	struct failure none = { 0 };

	settling_end(userdata, &none);
}

/* Returns 1 if done is called later, or what settlement_new does. */
static int settling_begin(struct operations *o, struct debt_hold *hold, operation_done_t done,
			  void *userdata)
{
	struct settling *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		debt_hold_free(hold);
		return -ENOMEM;
	}
	*s = (struct settling){ .operations = o, .done = done, .userdata = userdata };
	r = settlement_new(&s->settlement, o->jobs->context->event, hold, on_settled, s);
	if (r <= 0) {
		free(s);
		return r;
	}
	LIST_INSERT_HEAD(&o->settlings, s, link);
	o->n_settlings++;
	return r;
}

/* Opens the mount that dirfd is on anew, because dirfd is the caller's, and any call on it may
 * block. Returns -EOPNOTSUPP if the mount is not in the daemon's table, or may not answer. */
static int mount_open_of(struct operations *o, int dirfd)
{
	const struct mounts *mounts = context_mounts(o->jobs->context);
	const struct mount *m;
	uint64_t id;
	int r = fd_mount_id(dirfd, &id);

	if (r < 0)
		return r;
	m = mounts ? mounts_by_id(mounts, id) : NULL;
	return m && !mount_may_hang(m) ? mount_open(m, m->target) : -EOPNOTSUPP;
}

void operation_settle(struct operations *o, int dirfd, uint64_t entries, uint64_t bytes,
		      operation_done_t done, void *userdata)
{
	_cleanup_close_ int fd = -1;
	struct debt_hold *hold = NULL;
	struct failure f = { 0 };
	int r = 0;

	if (!operations_stopping(o, &f) && o->n_settlings >= SETTLINGS_MOST)
		failure_set(&f, ERROR_LIMIT_EXCEEDED,
			    "%u others have asked for what they left to be written back: it is "
			    "left to the kernel",
			    o->n_settlings);
	if (!f.cause)
		r = fd = mount_open_of(o, dirfd);
	if (r >= 0 && !f.cause)
		r = debt_hold_new_for(&hold, o->jobs->context->pacers, fd, entries, bytes);
	else if (r == -EOPNOTSUPP)
		r = 0; /* no device of ours, so nothing to write back */
	if (r > 0)
		r = settling_begin(o, hold, done, userdata);
	if (r < 0)
		failure_errno(&f, r, "what was deleted is left to the kernel to be written back");
	if (r <= 0)
		done(&f, userdata);
}

int operations_new(struct operations **ret, struct jobs *jobs, int (*reload)(void *userdata),
		   void *userdata)
{
	struct operations *o = malloc(sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct operations){ .jobs = jobs, .reload = reload, .userdata = userdata };
	*ret = o;
	return 0;
}

struct operations *operations_free(struct operations *o)
{
	struct settling *s = o ? LIST_FIRST(&o->settlings) : NULL, *next;
	struct failure f = { 0 };

	if (o)
		policy_works_end(o);
	for (; s; s = next) {
		next = LIST_NEXT(s, link);
		(void)operations_stopping(o, &f);
		settling_end(s, &f);
	}
	if (o)
		free(o->policy_lasts);
	free(o);
	return NULL;
}
