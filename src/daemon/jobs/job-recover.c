/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job-control.h"
#include "job-rest.h"
#include "daemon/context/log.h"
#include "schedule.h"
#include "staged-names.h"
#include "withdrawal.h"
#include "base/array.h"

/* ---- jobs -------------------------------------------------------------------------------------
 */

static void on_staged_known(struct job *j, bool known, void *userdata)
{
	(void)userdata;
	if (known)
		schedule_job(j);
	else
		job_enter(j, PHASE_UNKNOWN);
	job_save(j, NULL, NULL);
}

void recover_take_up(struct job *j)
{
	switch (job_life_start(j->phase, j->r.resume_state)) {
	case START_LIST:
		job_enter(j, PHASE_LISTING);
		if (*j->r.staging && *j->area->mount)
			staged_names_find(j, on_staged_known, NULL);
		else
			on_staged_known(j, /* known= */ true, NULL);
		break;
	case START_QUEUE:
		if (j->jobs->paused)
			withdrawal_begin(j);
		schedule_job(j);
		break;
	case START_TAKE_BACK:
		control_resume_restore(j);
		break;
	case START_NOTHING:
		/* It may be shared since before it paused. */
		withdrawal_begin(j);
		break;
	}
}

void recover_retry(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		if (j->phase == PHASE_UNKNOWN)
			recover_take_up(j);
}

/* Jobs that rest were loaded at rest; what they need from memory is in their stubs. */
static void take_up_stub(struct job_stub *s)
{
	if (s->takes_back)
		job_turn_wait(s);
	else if (s->phase != PHASE_PAUSED)
		schedule_stub(s);
}

void recover_begin(struct jobs *jobs)
{
	struct job_stub *s;

	/* Whatever goes on ends in another turn of the event loop. */
	TAILQ_FOREACH(s, &jobs->table.in_order, in_order)
		if (s->job)
			recover_take_up(s->job);
		else
			take_up_stub(s);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct loading {
	struct jobs *jobs;
	uint64_t *incomplete;
	size_t n_incomplete;
};

static int load_job(const struct job_record *r, void *userdata)
{
	struct loading *l = userdata;
	struct jobs *jobs = l->jobs;
	const struct mounts *mounts = context_mounts(jobs->context);
	const struct mount *mount = mounts && *r->mount ? mounts_by_path(mounts, r->mount) : NULL;
	struct credentials id = {
		.uid = r->uid, .gid = r->gid, .groups = (gid_t *)r->groups, .n_groups = r->n_groups
	};
	_cleanup_(submitter_unrefp) struct submitter *submitter = NULL;
	_cleanup_(staging_area_unrefp) struct staging_area *area = NULL;
	struct job *j;
	uint64_t *incomplete;
	int e;

	if (r->state == JOB_ACCEPTED && r->names == 0) {
		incomplete = array_add(&l->incomplete, &l->n_incomplete, sizeof(*incomplete));
		if (!incomplete)
			return -ENOMEM;
		*incomplete = r->id;
		return 0;
	}
	e = submitter_get(&submitter, jobs->submitters, &id);
	if (e >= 0)
		e = staging_area_get(&area, jobs->submitters, submitter, r->mount, r->host,
				     mount ? mount->dev : 0);
	if (e >= 0)
		e = jobs_reserve(jobs, jobs->table.n + 1);
	if (e >= 0)
		e = job_new(&j, jobs, r, submitter, area);
	if (e < 0)
		return e;
	j->told = true;
	/* Names may be gone that are not on record as gone: job_knows_staged(). */
	if (r->state == JOB_RUNNING)
		j->r.attempts = MAX(j->r.attempts, 1U);
	/* Other hosts may have a part of it. Its mark tells. */
	j->shared = *r->host && *r->staging && r->kind == JOB_DELETE && r->started_usec > 0;
	/* Which names were moved could not be recorded, though what came after it could. */
	if (r->state != JOB_ACCEPTED && *r->staging && r->staging_id.ino == 0)
		j->unmarked = -EAGAIN;
	job_table_add(&jobs->table, j);
	jobs->counts[j->r.state]++;
	submitter->user->jobs++;
	job_rest_loaded(j);
	return 0;
}

int recover_load(struct jobs *jobs, struct store *s)
{
	struct job_filter unfinished = { .states = (1U << JOB_DONE) - 1 };
	struct loading l = { .jobs = jobs };
	char *paused = NULL;
	int r = store_jobs_each(s, &unfinished, load_job, &l);

	for (size_t i = 0; i < l.n_incomplete && r >= 0; i++)
		r = store_job_remove(s, l.incomplete[i]);
	/* They belong to no job, and the next start finds them again. */
	if (r == -ENOSPC)
		r = 0;
	free(l.incomplete);
	if (r >= 0)
		r = store_history_last(s, &jobs->finished_last);
	if (r >= 0 && store_meta_get(s, "paused", &paused) >= 0)
		jobs->paused = strcmp(paused, "yes") == 0;
	free(paused);
	return r;
}
