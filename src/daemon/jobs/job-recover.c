/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "retry.h"
#include "job-control.h"
#include "daemon/log.h"
#include "daemon/manager.h"
#include "outcome.h"
#include "schedule.h"
#include "base/units.h"

/* Until it is looked again, where a worker has died or something is short. */
#define AGAIN_USEC (1 * USEC_PER_SEC)

/* ---- what is in staging -----------------------------------------------------------------------
 */

struct staged_look {
	struct job *j;
	struct manager *m;
	struct outcome *outcome;
	uint64_t found, strange;
	void (*done)(struct job *j, bool known, void *userdata);
	void *userdata;
};

static void look_end(struct staged_look *l)
{
	struct job *j = l->j;
	char names[COUNTED_SIZE];

	if (l->outcome)
		outcome_record(l->outcome, l->m->store, job_marked, j);
	if (l->strange > 0)
		log_job(LOG_WARNING, MESSAGE_STAGING_ORPHAN, &j->r,
			"%s in %s/.reclaim/%u/%s, not of job %" PRIu64 ": kept",
			counted_format(names, sizeof(names), l->strange, "name", "names"),
			j->place->mount, (unsigned)j->r.uid, j->uuid_text, j->r.id);
	if (l->found < j->r.names && !*j->r.inplace && !job_state_finished(j->r.resume_state))
		job_set_text(&j->r.inplace,
			     "reclaimd was interrupted while moving names into staging");
	place_rest(j->place);
	l->done(j, /* known= */ true, l->userdata);
	free(l);
}

static void on_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct staged_look *l = userdata;
	const char *number = strrchr(name, '/');
	uint64_t seq;
	char end;

	(void)id; /* compared when it is deleted */
	number = number ? number + 1 : name;
	if (sscanf(number, "%" SCNu64 "%c", &seq, &end) != 1 || seq == 0 || seq > l->j->r.names) {
		l->strange++;
		return;
	}
	l->found++;
	(void)outcome_mark(l->outcome, seq, seq, ENTRY_STAGED);
}

static void look(struct staged_look *l);

static int on_look_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	recover_look_again(userdata);
	return 0;
}

/* It cannot be looked at now: names may be there, so nothing else is done with the job. */
static void look_later(struct staged_look *l, int error)
{
	struct job *j = l->j;
	bool in_use = error == -EINPROGRESS, changed;

	/* The timer is the loop's. */
	if ((again_helps(error) || in_use) && !l->m->ended &&
	    sd_event_add_time_relative(l->m->event, NULL, CLOCK_MONOTONIC, AGAIN_USEC, 0,
				       on_look_again, l->m) < 0)
		log_job(LOG_ERR, SD_ID128_NULL, &j->r,
			"Out of memory: job %" PRIu64 " waits for the next start", j->r.id);

	if (in_use)
		changed = job_say(
			j,
			"waits: a worker of reclaimd that has been given up still waits for the "
			"filesystem of %s, and may move a name into staging: thaw it, or end what "
			"it waits for",
			j->place->mount);
	else
		changed = job_say(j, "waits: the staging directory on %s cannot be looked at (%s)",
				  j->place->mount, strerror(-error));
	if (changed)
		log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
			j->r.message);
	if (j->unmarked)
		j->unmarked = error;
	j->doing = DOING_NOTHING;
	place_rest(j->place);
	l->done(j, /* known= */ false, l->userdata);
	outcome_free(l->outcome);
	free(l);
}

static void on_listed(int r, void *userdata)
{
	struct staged_look *l = userdata;

	if (r == 0 || r == -ENOENT)
		look_end(l);
	else
		look_later(l, r);
}

static void on_staging(int r, int fd, void *userdata)
{
	struct staged_look *l = userdata;
	struct worker *intake;

	/* The end came before there was one. */
	if (r == -ENOENT) {
		look_end(l);
		return;
	}
	if (r >= 0)
		r = owner_intake(l->j->owner, place_filesystem(l->j->place), &intake);
	if (r >= 0)
		r = worker_list_staging(intake, fd, l->j->uuid_text, on_name, on_listed, l);
	if (r < 0)
		look_later(l, r);
}

static void look(struct staged_look *l)
{
	outcome_free(l->outcome);
	l->found = l->strange = 0;
	l->outcome = outcome_new(l->j->r.id);
	if (!l->outcome)
		look_later(l, -ENOMEM);
	else
		place_staging(l->j->place, /* make= */ false, on_staging, l);
}

void recover_staged(struct job *j, void (*done)(struct job *j, bool known, void *userdata),
		    void *userdata)
{
	struct staged_look *l = calloc(1, sizeof(*l));

	if (!l) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r,
			"Out of memory: job %" PRIu64 " waits for the next start", j->r.id);
		j->doing = DOING_NOTHING;
		done(j, /* known= */ false, userdata);
		return;
	}
	*l = (struct staged_look){ .j = j, .m = j->manager, .done = done, .userdata = userdata };
	place_use(j->place);
	look(l);
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

static void on_looked(struct job *j, bool known, void *userdata)
{
	(void)userdata;
	if (known)
		schedule_job(j);
	job_save(j, NULL, NULL);
}

static void take_up(struct job *j)
{
	switch (j->r.state) {
	case JOB_ACCEPTED:
		j->doing = DOING_RECOVERY;
		if (*j->r.staging && *j->place->mount)
			recover_staged(j, on_looked, NULL);
		else
			on_looked(j, /* known= */ true, NULL);
		break;
	case JOB_HELD:
	case JOB_QUEUED:
	case JOB_RUNNING:
		/* What was left of a large file has gone with whoever held it. */
		if (job_state_finished(j->r.resume_state))
			control_go_on(j);
		else
			schedule_job(j);
		break;
	case JOB_PAUSED:
		if (job_state_finished(j->r.resume_state))
			control_go_on(j);
		break;
	case JOB_DONE:
	case JOB_PARTIAL:
	case JOB_FAILED:
	case JOB_CANCELLED:
	case JOB_RESTORED:
	case JOB_STATES:
		break;
	}
}

void recover_look_again(struct manager *m)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&m->jobs.in_order); j; j = next) {
		next = TAILQ_NEXT(j, in_order);
		if (j->r.state == JOB_ACCEPTED && j->doing == DOING_NOTHING)
			take_up(j);
	}
}

void recover_begin(struct manager *m)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&m->jobs.in_order); j; j = next) {
		next = TAILQ_NEXT(j, in_order);
		take_up(j);
	}
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct loading {
	struct manager *m;
	uint64_t *incomplete;
	size_t n_incomplete;
};

static int load_incomplete(struct loading *l, uint64_t id)
{
	uint64_t *v = reallocarray(l->incomplete, l->n_incomplete + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->incomplete = v;
	v[l->n_incomplete++] = id;
	return 0;
}

static int load_job(const struct job_record *r, void *userdata)
{
	struct loading *l = userdata;
	struct manager *m = l->m;
	const struct mounts *mounts = manager_mounts(m);
	const struct mount *mount = mounts && *r->mount ? mounts_by_path(mounts, r->mount) : NULL;
	struct submitter id = {
		.uid = r->uid, .gid = r->gid, .groups = (gid_t *)r->groups, .n_groups = r->n_groups
	};
	_cleanup_(owner_unrefp) struct owner *owner = NULL;
	_cleanup_(place_unrefp) struct place *place = NULL;
	struct job *j;
	int e;

	if (r->state == JOB_ACCEPTED && r->names == 0)
		return load_incomplete(l, r->id);
	e = owner_get(&owner, m, &id);
	if (e >= 0)
		e = place_get(&place, m, owner, r->mount, mount ? mount->dev : 0);
	if (e >= 0)
		e = job_table_reserve(&m->jobs, m->jobs.n + 1);
	if (e >= 0)
		e = due_reserve(&m->due, m->jobs.n + 1);
	if (e >= 0)
		e = job_new(&j, m, r, owner, place);
	if (e < 0)
		return e;
	j->told = true;
	/* Which names were moved could not be recorded, though what came after it could. */
	if (r->state != JOB_ACCEPTED && *r->staging && r->staging_id.ino == 0)
		j->unmarked = -EAGAIN;
	job_table_add(&m->jobs, j);
	m->counts[j->r.state]++;
	owner->user->jobs++;
	return 0;
}

int recover_load(struct manager *m, struct store *s)
{
	struct job_filter unfinished = { .states = (1U << JOB_DONE) - 1 };
	struct loading l = { .m = m };
	char *paused = NULL;
	int r = store_jobs_each(s, &unfinished, load_job, &l);

	for (size_t i = 0; i < l.n_incomplete && r >= 0; i++)
		r = store_job_remove(s, l.incomplete[i]);
	/* They are nobody's, and the next start finds them again. */
	if (r == -ENOSPC)
		r = 0;
	free(l.incomplete);
	if (r >= 0)
		r = store_history_last(s, &m->finished_last);
	if (r >= 0 && store_meta_get(s, "paused", &paused) >= 0)
		m->paused = strcmp(paused, "yes") == 0;
	free(paused);
	return r;
}
