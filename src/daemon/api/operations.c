/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "operations-state.h"
#include "operations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/context/account.h"
#include "caller.h"
#include "config/config.h"
#include "daemon/jobs/job-control.h"
#include "daemon/jobs/pacing-window.h"
#include "daemon/context/failure.h"
#include "polkit-grant.h"
#include "daemon/context/log.h"
#include "daemon/jobs/remainder.h"
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

static uint64_t jobs_of(const struct operations *o, uid_t account)
{
	const struct user *u;

	LIST_FOREACH(u, &o->jobs->submitters->users, link)
		if (u->account == account)
			return u->jobs;
	return 0;
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
	else if (jobs_of(o, account) >= o->jobs->context->config->jobs_per_user)
		failure_set(
			&f, ERROR_LIMIT_EXCEEDED,
			"uid %u has %" PRIu64 " unfinished jobs, which is the "
			"limit (`limits: {jobs-per-user: }`): wait for some to end, or submit many "
			"paths as one job",
			(unsigned)account, jobs_of(o, account));
	else
		(void)view_open(c, &view_fd, &f, "nothing was accepted");
	if (f.cause)
		done(&f, &none, userdata);
	else
		submit_begin(o->jobs, &c->id, view_fd, groups, n, how, done, userdata);
}

/* ---- several jobs at once ---------------------------------------------------------------------
 */

struct several {
	size_t open;
	struct failure failure; /* the first */
	operation_done_t done;
	void *userdata;
	uint64_t ids[]; /* in order */
};

static void one_done(struct job *j, const struct failure *f, void *userdata)
{
	struct several *s = userdata;

	(void)j;
	if (f && f->cause && !s->failure.cause)
		s->failure = *f;
	if (--s->open > 0)
		return;
	s->done(&s->failure, s->userdata);
	free(s);
}

static struct job *find(struct operations *o, const struct caller *c, uint64_t id,
			struct failure *f)
{
	struct job *j = job_table_find(&o->jobs->table, id);

	if (j && (caller_may_see(c, &j->r) || grant_covers(c->grant, &j->r)))
		return j;
	failure_set(f, ERROR_NO_SUCH_JOB, "there is no unfinished job %" PRIu64, id);
	f->others = true;
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* All or none: a job that is not there, or cannot, refuses the rest too. to: for CONTROL_CHANGE. */
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
		const struct job *j = find(o, c, ids[i], &f);

		s->ids[i] = ids[i];
		if (j && to)
			(void)control_may(CONTROL_CHANGE, j, &f);
		else if (j)
			(void)control_may(verb, j, &f);
	}
	if (f.cause || n == 0) {
		free(s);
		done(&f, userdata);
		return;
	}
	qsort(s->ids, n, sizeof(*ids), compare_ids);
	s->open = 1;
	s->done = done;
	s->userdata = userdata;
	for (size_t i = 0; i < n; i++) {
		struct job *j = job_table_find(&o->jobs->table, s->ids[i]);

		if (i > 0 && s->ids[i] == s->ids[i - 1])
			continue;
		s->open++;
		if (to)
			control_change(j, to, one_done, s);
		else
			control_begin(verb, j, NULL, one_done, s);
	}
	one_done(NULL, NULL, s);
}

void operation_change(struct operations *o, const struct caller *c, const struct job_change *to,
		      const uint64_t *ids, size_t n, operation_done_t done, void *userdata)
{
	act_on_jobs(o, c, CONTROL_CHANGE, to, ids, n, done, userdata);
}

void operation_restore(struct operations *o, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata)
{
	struct several *s = calloc(1, sizeof(*s));
	struct caller by = *c;
	struct failure f = { 0 };
	struct job *j = NULL;
	_cleanup_close_ int view_fd = -1;
	char what[32];

	if (to_fd >= 0)
		by.grant = NULL;
	if (!s)
		failure_errno(&f, -ENOMEM, "nothing was done");
	else if (!operations_stopping(o, &f))
		j = find(o, &by, id, &f);
	if (to_fd >= 0)
		f.others = false;
	if (j && to_name && j->r.names > 1)
		failure_set(&f, ERROR_INVALID_ARGUMENT,
			    "job %" PRIu64 " has %" PRIu64 " names: they can go "
			    "into another directory, but not all become %s",
			    id, j->r.names, "one name");
	(void)snprintf(what, sizeof(what), "job %" PRIu64, id);
	if (j && !f.cause)
		(void)view_open(c, &view_fd, &f, what);
	if (f.cause || !s || !j) {
		free(s);
		done(&f, userdata);
		return;
	}
	*s = (struct several){ .open = 1, .done = done, .userdata = userdata };
	control_begin(CONTROL_RESTORE, j, &(struct restore_target){ to_fd, to_name, view_fd },
		      one_done, s);
}

/* ---- all at once ------------------------------------------------------------------------------
 */

static void on_paused(int r, void *userdata)
{
	struct several *s = userdata;

	if (r < 0)
		failure_errno(&s->failure, r, "it is done, but will not last over a restart");
	one_done(NULL, NULL, s);
}

static void act_on_all(struct operations *o, const struct caller *c, enum act act,
		       operation_done_t done, void *userdata)
{
	bool reload = act == ACT_RELOAD;
	struct failure f = { 0 };
	struct several *s;

	if (authorize_everybody(
		    c, &f, reload ? "reload the configuration" : "pause the jobs of all users") &&
	    !reload) {
		s = calloc(1, sizeof(*s));
		if (s) {
			*s = (struct several){ .open = 1, .done = done, .userdata = userdata };
			if (jobs_pause_all(o->jobs, act == ACT_PAUSE_ALL, on_paused, s) >= 0)
				return;
			free(s);
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

void operations_set_fleet(struct operations *o, struct fleet *const *fleet)
{
	o->fleet = fleet;
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
