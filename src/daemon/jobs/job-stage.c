/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "job-control.h"
#include "daemon/api/failure.h"
#include "daemon/log.h"
#include "job-restore.h"
#include "job-recover.h"
#include "schedule.h"
#include "job-submit-state.h"
#include "job-submit.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/units.h"

/* The job is the table's from here on; the record of what is staged goes to the store in the order
 * it is posted in. */
static void record(struct submit *s)
{
	if (s->outcome && !s->job->unmarked)
		outcome_record(s->outcome, s->m->store, job_marked, s->job);
	else
		outcome_free(s->outcome);
	s->outcome = NULL;
}

static void tell_new(struct job *j)
{
	const struct manager_events *e = &j->manager->events;
	struct job_record r;

	j->told = true;
	if (!e->job_new)
		return;
	job_look(j, &r);
	e->job_new(&r, e->userdata);
}

/* It was cancelled, or cannot be answered: what has been moved goes back. */
static void take_back(struct submit *s, bool known)
{
	struct job *j = s->job;

	if (!known)
		j->unmarked = -EAGAIN;
	tell_new(j);
	s->error = -ECANCELED;
	failure_set(&s->failure, ERROR_WRONG_STATE,
		    "job %" PRIu64
		    " was cancelled while its names were being moved out of the way: "
		    "they are being put back",
		    j->r.id);
	j->doing = DOING_NOTHING;
	if (s->stopped)
		s->stopped(j, s->stopped_userdata);
	else
		control_withdraw(j);
	submit_end(s);
}

static bool is_to_be_taken_back(const struct submit *s)
{
	return s->stopped || (submit_is_unanswerable(s) && !(s->keep_moved && s->staged > 0));
}

static void go_on(struct submit *s, bool known)
{
	struct job *j = s->job;
	char names[COUNTED_SIZE];

	record(s);
	j->submit = NULL;
	if (s->staged == 0) {
		if (j->r.staging_id.ino != 0)
			staging_tidy(j->place, j->owner, j->uuid_text);
		j->r.staging = "";
	}
	if (is_to_be_taken_back(s)) {
		take_back(s, known);
		return;
	}
	if (known)
		schedule_job(j);
	job_save(j, NULL, NULL);
	tell_new(j);
	debug_log("job %" PRIu64 ": %" PRIu64 " of %" PRIu64 " names moved to staging%s%s", j->r.id,
		  s->staged, j->r.names, *j->r.inplace ? "; the rest is deleted in place: " : "",
		  j->r.inplace);

	log_job(LOG_INFO, MESSAGE_JOB_ACCEPTED, &j->r, "Job %" PRIu64 " accepted: %s%s%s", j->r.id,
		counted_format(names, sizeof(names), j->r.names, "name", "names"),
		*j->r.inplace ? "; in place: " : "", j->r.inplace);
	s->result.id = j->r.id;
	submit_end(s);
}

/* ---- refused --------------------------------------------------------------------------------- */

static int remove_work(struct store *store, void *userdata)
{
	struct submit *s = userdata;

	return store_job_remove(store, s->id);
}

/* Who cancels it meanwhile learns that there is nothing left to cancel. */
static void tell_stopper(struct submit *s)
{
	void (*stopped)(struct job * j, void *userdata) = s->stopped;

	s->stopped = NULL;
	if (stopped)
		stopped(s->job, s->stopped_userdata);
}

static void take_out(struct job *j)
{
	j->manager->counts[j->r.state]--;
	j->owner->user->jobs--;
	job_table_remove(&j->manager->jobs, j);
	j->refused = true;
	if (j->saving == 0)
		job_free(j);
}

/* Nobody is told that there is no such job before that is on disk. While it cannot be recorded, the
 * job stays here, as one that has failed, which job_save_again records. */
static void keep_refused(struct submit *s, int error)
{
	struct job *j = s->job;
	struct safe_text said = s->failure.text;

	failure_set(&s->failure, s->failure.cause,
		    "%s. But job %" PRIu64 " is on record, and the job store in %s cannot be "
		    "written (%s): reclaimd tries again. If it ends before that succeeds, its next "
		    "start takes the job for accepted and deletes these names",
		    said.line, j->r.id, s->m->o.state_dir, strerror(-error));
	job_say(j,
		"refused (%s), but that could not be recorded yet (%s): a start before it is "
		"would take the job for accepted",
		said.line, strerror(-error));
	manager_store_says(s->m, error);
	tell_new(j);
	job_finish(j, JOB_FAILED);
}

static void remove_done(int r, void *userdata)
{
	struct submit *s = userdata;
	struct job *j = s->job;

	j->submit = NULL;
	if (r < 0 && r != -ENOENT) {
		keep_refused(s, r);
		tell_stopper(s);
	} else {
		job_set_state(j, JOB_FAILED);
		tell_stopper(s);
		take_out(j);
	}
	s->job = NULL;
	submit_end(s);
}

/* Of a record that is complete: as long as it is there, a start would go on with the job. Until it
 * is known what has become of it, the job is one that is being submitted. */
static void unrecord(struct submit *s)
{
	int r;

	if (!s->failure.cause)
		failure_errno(&s->failure, s->error, "nothing was accepted");
	r = store_queue_post(s->m->store, remove_work, remove_done, s);
	if (r < 0)
		remove_done(r, s);
}

/* The worker has put back what it had moved, but for what it told of. */
static void refuse(struct submit *s, int error, const struct intake_failure *f)
{
	struct job *j = s->job;

	s->error = error;
	failure_from_intake(&s->failure, error, f);
	if (s->staged > 0) {
		j->submit = NULL;
		record(s);
		job_say(j,
			"refused while names were being moved out of the way; %" PRIu64
			" of them could not be moved back and are kept in %s/.reclaim/%u/%s",
			s->staged, s->mount, (unsigned)j->r.uid, j->r.staging);
		tell_new(j);
		job_finish(j, JOB_FAILED);
		tell_stopper(s);
		submit_end(s);
		return;
	}
	unrecord(s);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void stays(struct submit *s, const char *why)
{
	if (!*s->job->r.inplace)
		job_set_text(&s->job->r.inplace, why);
}

/* Why names are deleted where they are. */
static const char *unmovable(int error)
{
	switch (error) {
	case -EXDEV:
		return "a rename into staging would cross a filesystem's border";
	case -EINVAL:
		/* FUSE without RENAME_NOREPLACE, as MooseFS. What is put back must never replace
		 * what somebody has made in its place, so nothing is moved there. */
		return "its filesystem cannot rename without replacing (RENAME_NOREPLACE)";
	case -ENOSPC:
		return "there is no room for it on its filesystem";
	case -EDQUOT:
		return "a quota leaves no room for it";
	default:
		return strerror(-error);
	}
}

static void on_range(uint64_t from, uint64_t to, int error, void *userdata)
{
	struct submit *s = userdata;

	if (error == -ENOENT)
		return; /* gone already, as the run will find */
	if (error < 0) {
		stays(s, unmovable(error));
		return;
	}
	s->staged += to - from + 1;
	if (!s->outcome)
		s->outcome = outcome_new(s->id);
	/* Without all the marks, staging is looked into before anything is done. */
	if (!s->outcome || outcome_mark(s->outcome, from, to, ENTRY_STAGED) < 0)
		s->job->unmarked = -ENOMEM;
}

static void on_recovered(struct job *j, bool known, void *userdata)
{
	struct submit *s = userdata;

	(void)j;
	place_rest(s->place);
	go_on(s, known);
}

static void on_staged(int r, const struct lasting_identity *staging_id,
		      const struct intake_failure *f, void *userdata)
{
	struct submit *s = userdata;

	if (r == -EPIPE || r == -ECANCELED) {
		/* Where it had got to is seen where names are. */
		s->outcome = outcome_free(s->outcome);
		s->staged = 1;
		recover_staged(s->job, on_recovered, s);
		return;
	}
	place_rest(s->place);
	if (r < 0) {
		refuse(s, r, f);
		return;
	}
	if (staging_id)
		s->job->r.staging_id = *staging_id;
	if (staging_id && s->outcome)
		outcome_staging(s->outcome, staging_id);
	go_on(s, /* known= */ true);
}

static void on_staging(int r, int fd, void *userdata)
{
	static const struct staged_callbacks callbacks = { .range = on_range, .staged = on_staged };
	struct submit *s = userdata;
	struct worker *intake = intake_worker(s->intake);
	char why[160];

	if (r >= 0 && intake)
		r = worker_stage(intake, s->session, fd, s->staging, &callbacks, s);
	else if (r >= 0)
		r = -EPIPE;
	if (r >= 0)
		return;
	place_rest(s->place);
	if (r == -EPIPE) {
		refuse(s, r, NULL);
		return;
	}
	(void)snprintf(why, sizeof(why), "no staging directory on this mount: %s",
		       r == -EBUSY ? "another reclaimd has it (see its log)" : unmovable(r));
	stays(s, why);
	go_on(s, /* known= */ true);
}

int submit_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata)
{
	struct submit *s = j->submit;

	if (s->stopped)
		return -EBUSY;
	s->stopped = stopped;
	s->stopped_userdata = userdata;
	return 0;
}

void stage_begin(struct submit *s)
{
	int r;

	s->record.id = s->id;
	(void)schedule_clock(s->m);
	s->record.held_until_usec =
		schedule_moved(s->record.held_until_usec, s->m->clock_offset - s->clock_offset);
	r = job_new(&s->job, s->m, &s->record, s->owner, s->place);
	if (r < 0) { /* it is on record: the next start takes it up */
		s->error = r;
		failure_set(&s->failure, ERROR_FAILED,
			    "out of memory; the job is on record, nothing was "
			    "moved");
		submit_end(s);
		return;
	}
	job_table_add(&s->m->jobs, s->job);
	s->m->counts[JOB_ACCEPTED]++;
	s->counts = false;
	s->job->doing = DOING_SUBMIT;
	s->job->submit = s;
	if (s->error == 0 && submit_is_unanswerable(s))
		s->error = -ECANCELED;
	if (s->error < 0) {
		unrecord(s);
		return;
	}
	if (!s->m->config->staging) {
		stays(s, "`staging: off` in the configuration");
		go_on(s, /* known= */ true);
		return;
	}
	if (!*s->mount) {
		stays(s, "its mount is not in reclaimd's mount namespace");
		go_on(s, /* known= */ true);
		return;
	}
	place_use(s->place);
	place_staging(s->place, /* make= */ true, on_staging, s);
}
