/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "operations.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/account.h"
#include "caller.h"
#include "config/config.h"
#include "daemon/jobs/job-control.h"
#include "failure.h"
#include "grant.h"
#include "daemon/log.h"
#include "daemon/manager.h"
#include "daemon/jobs/remainder.h"
#include "daemon/jobs/job-run.h"
#include "daemon/jobs/schedule.h"
#include "daemon/jobs/job-submit.h"
#include "base/fd.h"

bool operation_may_see(const struct caller *c, const struct job_record *r)
{
	return r->uid == c->id.uid || c->id.uid == 0;
}

/* Whether the caller may do what concerns everybody. */
static bool authorize_everybody(const struct caller *c, struct failure *f, const char *what)
{
	if (c->id.uid == 0 || (c->grant && c->grant->everybody))
		return true;
	failure_set(f, ERROR_NOT_AUTHORIZED, "only root may %s", what);
	f->others = true;
	return false;
}

static bool stopping(const struct manager *m, struct failure *f)
{
	if (m->stopping)
		failure_set(f, ERROR_BUSY, "reclaimd is stopping: try again when it runs");
	return m->stopping;
}

/* ---- submit -----------------------------------------------------------------------------------
 */

static uint64_t jobs_of(const struct manager *m, uid_t account)
{
	const struct user *u;

	LIST_FOREACH(u, &m->users, link)
	if (u->account == account)
		return u->jobs;
	return 0;
}

void operation_submit(struct manager *m, const struct caller *c, const struct intake_group *groups,
		      size_t n, const struct submit_options *o, submit_done_t done, void *userdata)
{
	struct submitted none = { 0 };
	struct failure f = { 0 };
	uid_t account = account_of(c->id.uid);

	if (stopping(m, &f))
		;
	else if (n == 0)
		failure_set(&f, ERROR_INVALID_ARGUMENT, "nothing is named that is to be deleted");
	else if (jobs_of(m, account) >= m->config->jobs_per_user)
		failure_set(
			&f, ERROR_LIMIT_EXCEEDED,
			"uid %u has %" PRIu64 " unfinished jobs, which is the "
			"limit (`limits: {jobs-per-user: }`): wait for some to end, or submit many "
			"paths as one job",
			(unsigned)account, jobs_of(m, account));
	if (f.cause)
		done(&f, &none, userdata);
	else
		submit_begin(m, c, groups, n, o, done, userdata);
}

/* ---- several jobs at once ---------------------------------------------------------------------
 */

typedef void (*control_t)(struct job *j, control_done_t done, void *userdata);
typedef bool (*control_may_t)(const struct job *j, struct failure *f);

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

static struct job *find(struct manager *m, const struct caller *c, uint64_t id, struct failure *f)
{
	struct job *j = job_table_find(&m->jobs, id);

	if (j && (operation_may_see(c, &j->r) || grant_covers(c->grant, &j->r)))
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

/* All or none: a job that is not there, or cannot, refuses the rest too. */
static void for_all(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		    control_may_t may, control_t control, operation_done_t done, void *userdata)
{
	struct several *s = calloc(1, sizeof(*s) + n * sizeof(*ids));
	struct failure f = { 0 };

	if (!s) {
		failure_errno(&f, -ENOMEM, "nothing was done");
		done(&f, userdata);
		return;
	}
	for (size_t i = 0; i < n; i++)
		s->ids[i] = ids[i];
	(void)stopping(m, &f);
	for (size_t i = 0; i < n && !f.cause; i++) {
		const struct job *j = find(m, c, ids[i], &f);

		if (j)
			(void)may(j, &f);
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
		if (i > 0 && s->ids[i] == s->ids[i - 1])
			continue;
		s->open++;
		control(job_table_find(&m->jobs, s->ids[i]), one_done, s);
	}
	one_done(NULL, NULL, s);
}

void operation_cancel(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		      operation_done_t done, void *userdata)
{
	for_all(m, c, ids, n, control_may_cancel, control_cancel, done, userdata);
}

void operation_pause(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		     operation_done_t done, void *userdata)
{
	for_all(m, c, ids, n, control_may_pause, control_pause, done, userdata);
}

void operation_resume(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		      operation_done_t done, void *userdata)
{
	for_all(m, c, ids, n, control_may_resume, control_resume, done, userdata);
}

void operation_restore(struct manager *m, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata)
{
	struct several *s = calloc(1, sizeof(*s));
	struct caller by = *c;
	struct failure f = { 0 };
	struct job *j = NULL;
	_cleanup_close_ int view_fd = -1;
	int r;

	if (to_fd >= 0)
		by.grant = NULL;
	if (!s)
		failure_errno(&f, -ENOMEM, "nothing was done");
	else if (!stopping(m, &f))
		j = find(m, &by, id, &f);
	if (to_fd >= 0)
		f.others = false;
	if (j && to_name && j->r.names > 1)
		failure_set(&f, ERROR_INVALID_ARGUMENT,
			    "job %" PRIu64 " has %" PRIu64 " names: they can go "
			    "into another directory, but not all become %s",
			    id, j->r.names, "one name");
	r = caller_view(c, &view_fd);
	if (j && !f.cause && r < 0)
		failure_set(&f, ERROR_NOT_AUTHORIZED,
			    "job %" PRIu64 ": which mounts the process that asks has cannot be "
			    "seen (%s): it must be there until it is answered, and not in a "
			    "process namespace around reclaimd's",
			    id, strerror(-r));
	if (f.cause || !s || !j) {
		free(s);
		done(&f, userdata);
		return;
	}
	*s = (struct several){ .open = 1, .done = done, .userdata = userdata };
	control_restore(j, to_fd, to_name, view_fd, one_done, s);
}

/* ---- all at once ------------------------------------------------------------------------------
 */

struct pausing {
	struct manager *m;
	bool pause;
	size_t open;
	int error;
	operation_done_t done;
	void *userdata;
};

static int pausing_work(struct store *store, void *userdata)
{
	const struct pausing *p = userdata;

	return store_meta_set(store, "paused", p->pause ? "yes" : "no");
}

static void pausing_step(struct pausing *p)
{
	struct failure f = { 0 };

	if (--p->open > 0)
		return;
	if (p->error < 0)
		failure_errno(&f, p->error, "it is done, but will not last over a restart");
	p->done(&f, p->userdata);
	free(p);
}

static void pausing_saved(int r, void *userdata)
{
	struct pausing *p = userdata;

	manager_store_says(p->m, r);
	p->error = r;
	pausing_step(p);
}

static void back_in_queue(struct job *j, void *userdata)
{
	if (!job_state_finished(j->r.state)) {
		schedule_job(j);
		job_save(j, NULL, NULL);
	}
	pausing_step(userdata);
}

void operation_pause_all(struct manager *m, const struct caller *c, bool pause,
			 operation_done_t done, void *userdata)
{
	struct pausing *p = calloc(1, sizeof(*p));
	struct failure f = { 0 };
	struct job *j, *next;

	if (authorize_everybody(c, &f, "let everybody's jobs pause") && !p)
		failure_errno(&f, -ENOMEM, "nothing was done");
	if (f.cause || !p) {
		free(p);
		done(&f, userdata);
		return;
	}
	*p = (struct pausing){
		.m = m, .pause = pause, .open = 1, .done = done, .userdata = userdata
	};
	m->paused = pause;
	manager_tell(m, "Paused");
	p->error = store_queue_post(m->store, pausing_work, pausing_saved, p);
	if (p->error >= 0)
		p->open++;
	else
		manager_store_says(m, p->error);
	for (j = TAILQ_FIRST(&m->jobs.in_order); j && pause; j = next) {
		next = TAILQ_NEXT(j, in_order);
		if (j->doing != DOING_RUN)
			continue;
		p->open++;
		if (run_stop(j, /* keep= */ true, back_in_queue, p) < 0)
			p->open--;
	}
	control_rests_again(m);
	if (!pause)
		schedule_kick(m);
	pausing_step(p);
}

void operation_reload(struct manager *m, const struct caller *c, operation_done_t done,
		      void *userdata)
{
	struct failure f = { 0 };

	if (authorize_everybody(c, &f, "reload the configuration") && manager_reload(m) < 0)
		failure_set(&f, ERROR_INVALID_ARGUMENT, "the configuration stays as it was: %s",
			    m->configuration_error ? m->configuration_error : "out of memory");
	done(&f, userdata);
}

/* ---- the daemon itself ------------------------------------------------------------------------
 */

void manager_listen(struct manager *m, const struct manager_events *e)
{
	m->events = *e;
}

/* What running jobs have done is counted as they say it, and as they have proved it in the end,
 * which may be a little less: who watches a counter must not see it go back. */
static void freed_look(struct manager *m, struct manager_view *ret)
{
	uint64_t entries = m->entries_freed, bytes = m->bytes_freed;
	struct run_progress now;
	const struct place *p;
	const struct rest *rest;

	LIST_FOREACH(rest, &m->rests, link)
	bytes += remainder_bytes(rest);
	LIST_FOREACH(p, &m->places, link)
	{
		if (!p->running || !p->running->run)
			continue;
		run_progress(p->running->run, &now);
		entries += now.entries;
		bytes += now.bytes;
	}
	m->entries_told = MAX(m->entries_told, entries);
	m->bytes_told = MAX(m->bytes_told, bytes);
	ret->entries_freed = m->entries_told;
	ret->bytes_freed = m->bytes_told;
}

void manager_look(struct manager *m, struct manager_view *ret)
{
	*ret = (struct manager_view){
		.paused = m->paused,
		.configuration_error = m->configuration_error ? m->configuration_error : "",
		.store_error = m->store_error ? m->store_error : "",
		.interruptions = m->interruptions,
		.orphans = m->orphans,
	};
	freed_look(m, ret);
	memcpy(ret->finished, m->finished, sizeof(m->finished));
	memcpy(ret->errors, m->errors, sizeof(m->errors));
	memcpy(ret->jobs, m->counts, sizeof(m->counts));
	for (int s = JOB_DONE; s < JOB_STATES; s++)
		ret->jobs[s] = 0;
}

struct pacers *manager_pacers(struct manager *m)
{
	return m->pacers;
}
