/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-control.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/context/failure.h"
#include "boost.h"
#include "daemon/context/log.h"
#include "job-finish.h"
#include "remainder.h"
#include "job-run.h"
#include "pacing-window.h"
#include "schedule.h"
#include "undo-deadline.h"
#include "withdrawal.h"
#include "base/fd.h"
#include "base/units.h"

struct control {
	struct job *j;
	enum job_state to, from;
	struct restore_target target;
	control_done_t done; /* NULL: no client waits for it */
	void *userdata;
};

static void answer(struct control *c, const struct failure *f)
{
	struct jobs *jobs = c->j->jobs;

	if (c->done)
		c->done(c->j, f, c->userdata);
	fd_closep(&c->target.fd);
	fd_closep(&c->target.view_fd);
	free((char *)c->target.name);
	free(c);
	context_flow_ends(jobs->context);
}

/* NULL: out of memory, and that has been answered; a job that no client waits for pauses. */
static struct control *control_new(struct job *j, enum job_state to, control_done_t done,
				   void *userdata)
{
	struct failure f = { 0 };
	struct control *c = calloc(1, sizeof(*c));

	if (!c && done) {
		failure_errno(&f, -ENOMEM, "job %" PRIu64, j->r.id);
		done(j, &f, userdata);
	} else if (!c) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r, "Out of memory: job %" PRIu64 " pauses",
			j->r.id);
		job_enter(j, PHASE_PAUSED);
		job_save(j, NULL, NULL);
	}
	if (!c)
		return NULL;
	*c = (struct control){ .j = j,
			       .to = to,
			       .from = j->r.state,
			       .target = { .fd = -1, .view_fd = -1 },
			       .done = done,
			       .userdata = userdata };
	context_flow_begins(j->jobs->context);
	return c;
}

/* What a change in the record is answered with. */
static void on_saved(int r, void *userdata)
{
	struct control *c = userdata;
	struct failure f = { 0 };

	if (r < 0)
		failure_errno(&f, r, "job %" PRIu64 ": it is done, but could not be recorded",
			      c->j->r.id);
	answer(c, &f);
}

/* ---- taking back ------------------------------------------------------------------------------
 */

static const char withdrawn_said[] = "withdrawn: its client disconnected before it could be "
				     "told the job's number; what had been moved is put back";

/* It goes back to before it was accepted. */
static bool is_withdrawn(const struct job *j)
{
	return j->r.resume_state == JOB_ACCEPTED;
}

/* Some names could not be put back. A job that was held stays held for as long as it would have
 * been. Any other job pauses, because what the user has just asked for must not be deleted. */
static void keep_stuck_names(struct control *c, const struct restore_result *back,
			     struct failure *f)
{
	struct job *j = c->j;
	bool held = c->from != JOB_PAUSED && !is_withdrawn(j) && j->r.started_usec == 0 &&
		    j->r.held_until_usec > deadline_clock(j->jobs);
	char names[COUNTED_SIZE];

	failure_set(f, error_from_errno(back->error, ERROR_AT_PATH),
		    "job %" PRIu64 ": %" PRIu64
		    " of its names could not be put back: %s; it %s%s%s%s",
		    j->r.id, back->stuck, back->text, held ? "is held as before" : "pauses",
		    back->elsewhere_helps ? ": `reclaimctl restore --to=` puts it elsewhere" : "",
		    back->lost > 0 ? "; lost: " : "", back->lost_text);
	job_say(j, "%s could not be put back (%s)%s%s%s%s",
		counted_format(names, sizeof(names), back->stuck, "name", "names"), back->text,
		back->elsewhere_helps ? ": `reclaimctl restore --to=` puts them elsewhere" : "",
		held ? "" : ", `reclaimctl resume` deletes them", back->lost > 0 ? "; lost: " : "",
		back->lost_text);
	j->r.resume_state = JOB_QUEUED;
	if (held)
		schedule_job(j);
	else
		job_enter(j, PHASE_PAUSED);
	job_save(j, NULL, NULL);
}

/* Says which names are lost. Their job can only fail: nothing else would bring them back. */
static void say_lost(struct job *j, const struct restore_result *back, struct failure *f)
{
	char names[COUNTED_SIZE], rest[COUNTED_SIZE + 32] = "";

	if (back->back > 0)
		(void)snprintf(
			rest, sizeof(rest), "; %s put back",
			counted_format(names, sizeof(names), back->back, "name was", "names were"));
	job_say(j, "%" PRIu64 " of %s lost, because another process removed %s from %s/%u/%s: %s%s",
		back->lost,
		counted_format(names, sizeof(names), j->r.names, "name is", "names are"),
		back->lost == 1 ? "it" : "them", j->area->dir, (unsigned)j->r.uid, j->r.staging,
		back->lost_text, rest);
	failure_set(f, ERROR_NO_SUCH_PATH, "job %" PRIu64 ": %s", j->r.id, j->r.message);
}

static const char remainder_message[] =
	"; the remainder of a large file without a name is still freed at its "
	"pace: once more cancelled, it is freed at once";

/* True if that was said: what stands before it is what has become of the job. */
static bool remove_remainder_message(struct job *j)
{
	const char *said = strstr(j->r.message, remainder_message);

	if (said)
		job_say(j, "%.*s", (int)(said - j->r.message), j->r.message);
	return said;
}

/* userdata: the request that waits for it, or NULL. */
static void on_remainder_gone(struct job *j, void *userdata)
{
	struct control *c = userdata;
	struct failure f = { 0 };

	(void)remove_remainder_message(j);
	job_finish(j, j->r.resume_state == JOB_FAILED ? JOB_FAILED : JOB_CANCELLED);
	if (c)
		answer(c, &f);
}

/* Frees it, or, while everything pauses, does not. */
static void begin_freeing(struct job *j)
{
	bool paused = j->jobs->paused || pacing_window_rests(j->jobs, j->area);

	job_enter(j, paused ? PHASE_FREE_WAITS : PHASE_FREEING);
	if (paused) {
		remainder_hold(j->remainder);
	} else {
		boost_begin(j->jobs);
		remainder_free_paced(j->remainder);
	}
}

/* What has no name cannot be put back: it is freed as it would have been, and the job is cancelled
 * when that is done. By the record it is being taken back still. */
static void finish_after_remainder(struct job *j)
{
	job_say(j, "%s%s", j->r.message, remainder_message);
	remainder_watch(j->remainder, on_remainder_gone, NULL);
	begin_freeing(j);
	job_save(j, NULL, NULL);
}

void control_remainders_update(struct jobs *jobs)
{
	struct remainder *r, *next;

	for (r = LIST_FIRST(&jobs->remainders); r; r = next) {
		next = LIST_NEXT(r, link);
		if (r->job &&
		    job_phase_is(r->job->phase, IN_PHASE(FREEING) | IN_PHASE(FREE_WAITS)) &&
		    !r->released)
			begin_freeing(r->job);
	}
}

static void on_back(struct job *j, const struct restore_result *back, void *userdata)
{
	struct control *c = userdata;
	char names[COUNTED_SIZE], gone[COUNTED_SIZE];
	struct failure f = { 0 };

	if (back->interrupted) { /* by the record it goes on at the next start */
		failure_set(&f, ERROR_BUSY,
			    "job %" PRIu64 ": reclaimd stops before all was put back: look again "
			    "when it runs",
			    j->r.id);
		job_enter(j, PHASE_PAUSED);
		answer(c, &f);
		return;
	}
	if (back->stuck > 0) {
		keep_stuck_names(c, back, &f);
		answer(c, &f);
		return;
	}
	if (back->lost > 0) {
		say_lost(j, back, &f);
		j->r.resume_state = c->to = JOB_FAILED;
	} else if (is_withdrawn(j)) {
		job_say(j, "%s", withdrawn_said);
	} else if (j->r.started_usec == 0) {
		job_set_text(&j->r.message, NULL);
	} else if (!remove_remainder_message(j)) {
		job_say(j, "%s put back, as far as they were there still; %s had been deleted",
			counted_format(names, sizeof(names), back->back, "name was", "names were"),
			counted_format(gone, sizeof(gone), j->r.entries_done, "entry", "entries"));
	}
	if (remainder_of(j))
		finish_after_remainder(j);
	else
		job_finish(j, c->to);
	answer(c, &f);
}

static void on_intent(int r, void *userdata)
{
	struct control *c = userdata;

	(void)r; /* without the record it is still better to put back what is asked for */
	restore_names(c->j, ENTRY_RESTORED, &c->target, on_back, c);
}

static void take_back(struct control *c)
{
	struct job *j = c->j;

	schedule_remove(j);
	c->from = j->r.state;
	/* Where else it was to go is not on record: after a crash, that is asked for again. What is
	 * withdrawn has been marked as that. */
	if (c->done) {
		j->r.resume_state = c->target.fd >= 0 ? JOB_QUEUED : c->to;
		job_say(j, "is being put back");
	}
	job_enter(j, PHASE_RETURNING);
	job_save(j, on_intent, c);
}

void control_withdraw(struct job *j)
{
	struct control *c;

	j->r.resume_state = JOB_ACCEPTED;
	job_say(j, "%s", withdrawn_said);
	c = control_new(j, JOB_CANCELLED, NULL, NULL); /* else the next start puts it back */
	if (c)
		take_back(c);
}

static void pause_at_rest(struct control *c)
{
	struct job *j = c->j;

	schedule_remove(j);
	j->r.resume_state = JOB_QUEUED; /* schedule_job holds it if its time is not over */
	job_enter(j, PHASE_PAUSED);
	/* Also one that has not run since the daemon was started. */
	withdrawal_begin(j);
	job_save(j, on_saved, c);
}

static void on_stopped(struct job *j, void *userdata)
{
	struct control *c = userdata;
	struct failure f = { 0 };

	if (!job_state_finished(j->r.state)) {
		if (c->to == JOB_PAUSED)
			pause_at_rest(c);
		else
			take_back(c);
		return;
	}
	if (c->to != JOB_PAUSED)
		failure_set(&f, ERROR_WRONG_STATE, "job %" PRIu64 " has just finished: it is %s",
			    j->r.id, job_state_name(j->r.state));
	answer(c, &f);
}

/* What works for the job hands it over as soon as it can. */
static void stop(struct control *c)
{
	struct job *j = c->j;
	struct failure f = { 0 };

	if (j->phase == PHASE_MOVING && !j->stopped) {
		j->stopped = on_stopped;
		j->stopped_userdata = c;
		return;
	}
	if (j->phase == PHASE_RUNNING && run_stop(j, on_stopped, c) >= 0)
		return;
	failure_set(&f, ERROR_WRONG_STATE, "job %" PRIu64 " is being stopped already", j->r.id);
	answer(c, &f);
}

#define STOPPABLE (PHASES_AT_REST | IN_PHASE(RUNNING) | PHASES_FREEING)

static const struct {
	const char *done;
	unsigned phases;   /* in which it can be asked for */
	enum job_state to; /* what the job becomes */
} verbs[] = {
	/* Unknown: accepted before a restart, and its directory in staging could not be listed
	 * since. */
	[CONTROL_CANCEL] = { "cancelled", STOPPABLE | IN_PHASE(UNKNOWN) | IN_PHASE(MOVING),
			     JOB_CANCELLED },
	[CONTROL_RESTORE] = { "restored", PHASES_AT_REST, JOB_RESTORED },
	[CONTROL_PAUSE] = { "paused", STOPPABLE, JOB_PAUSED },
	[CONTROL_RESUME] = { "resumed", STOPPABLE, JOB_QUEUED },
	[CONTROL_CHANGE] = { "changed", STOPPABLE | IN_PHASE(UNKNOWN), JOB_STATES },
};

bool control_may(enum control_verb verb, const struct job *j, struct failure *f)
{
	if (verb == CONTROL_RESTORE && j->r.started_usec > 0 && !job_state_finished(j->r.state)) {
		failure_set(f, ERROR_WRONG_STATE,
			    "job %" PRIu64 " has begun to delete: `reclaimctl cancel "
			    "%" PRIu64 "` puts back what is left",
			    j->r.id, j->r.id);
		return false;
	}
	if (job_phase_is(j->phase, verbs[verb].phases))
		return true;
	failure_set(f, ERROR_WRONG_STATE, "job %" PRIu64 " cannot be %s: it is %s%s", j->r.id,
		    verbs[verb].done, job_state_name(j->r.state),
		    job_phase_is(j->phase, IN_PHASE(RETURNING) | IN_PHASE(CLEARING))
			    ? " and is being put back"
		    : j->phase == PHASE_MOVING ? " and its names are being moved out of the way"
					       : "");
	return false;
}

static void cancel(struct control *c)
{
	struct failure f = { 0 };
	struct job *j = c->j;

	if (j->phase == PHASE_RUNNING || j->phase == PHASE_MOVING) {
		stop(c);
	} else if (!job_phase_is(j->phase, PHASES_FREEING)) {
		if (j->phase == PHASE_UNKNOWN)
			j->unmarked = *j->r.staging ? -EAGAIN : 0;
		take_back(c);
	} else if (j->remainder->released) {
		answer(c, &f);
	} else {
		remainder_watch(j->remainder, on_remainder_gone, c);
		remainder_release(j->remainder);
	}
}

static int duplicate(int fd)
{
	int own = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;

	return fd >= 0 && own < 0 ? -errno : own;
}

static void restore(struct control *c, const struct restore_target *to)
{
	struct failure f = { 0 };

	c->target.fd = duplicate(to->fd);
	c->target.view_fd = duplicate(to->view_fd);
	c->target.name = to->name ? strdup(to->name) : NULL;
	if (c->target.fd < -1 || c->target.view_fd < -1 || (to->name && !c->target.name)) {
		failure_errno(&f, -ENOMEM, "job %" PRIu64, c->j->r.id);
		answer(c, &f);
	} else {
		take_back(c);
	}
}

void control_resume_restore(struct job *j)
{
	/* As it was asked for before, and is on record as pausing for it. */
	struct control *c =
		control_new(j, is_withdrawn(j) ? JOB_CANCELLED : j->r.resume_state, NULL, NULL);

	if (!c)
		return;
	c->from = JOB_PAUSED;
	job_enter(j, PHASE_RETURNING);
	/* That it is to be taken back may have been on record before all that was moved. */
	if (*j->r.staging && *j->area->mount)
		j->unmarked = -EAGAIN;
	restore_names(j, ENTRY_RESTORED, NULL, on_back, c);
}

/* ---- pausing and going on ---------------------------------------------------------------------
 */

static void pause_job(struct control *c)
{
	struct failure f = { 0 };
	struct job *j = c->j;

	if (j->phase == PHASE_RUNNING) {
		stop(c);
	} else if (j->r.state == JOB_PAUSED) {
		answer(c, &f);
	} else if (job_phase_is(j->phase, PHASES_FREEING)) {
		/* Where memory is out, nothing may be left to hold, and the job ends in this call.
		 */
		job_enter(j, PHASE_FREE_PAUSED);
		remainder_hold(j->remainder);
		job_save(j, on_saved, c);
	} else {
		pause_at_rest(c);
	}
}

static void resume(struct control *c)
{
	struct failure f = { 0 };
	struct job *j = c->j;

	if (j->r.state != JOB_PAUSED && j->retry_usec == 0) {
		answer(c, &f);
		return;
	}
	if (job_phase_is(j->phase, PHASES_FREEING)) {
		begin_freeing(j);
	} else {
		job_set_text(&j->r.message, NULL);
		j->r.resume_state = JOB_QUEUED;
		j->retry_usec = 0;
		schedule_job(j);
	}
	job_save(j, on_saved, c);
}

/* ---- what is asked for ------------------------------------------------------------------------
 */

void control_begin(enum control_verb verb, struct job *j, const struct restore_target *to,
		   control_done_t done, void *userdata)
{
	struct control *c = control_new(j, verbs[verb].to, done, userdata);
	struct failure f = { 0 };

	if (!c)
		return;
	if (!control_may(verb, j, &f)) {
		answer(c, &f);
		return;
	}
	switch (verb) {
	case CONTROL_CANCEL:
		cancel(c);
		break;
	case CONTROL_RESTORE:
		restore(c, to);
		break;
	case CONTROL_PAUSE:
		pause_job(c);
		break;
	case CONTROL_RESUME:
		resume(c);
		break;
	case CONTROL_CHANGE:
		assert(false);
	}
}

void control_change(struct job *j, const struct job_change *to, control_done_t done, void *userdata)
{
	struct control *c = control_new(j, j->r.state, done, userdata);

	if (!c)
		return;
	if (to->has_priority)
		schedule_priority(j, to->priority);
	if (to->has_deadline) {
		j->r.by_usec = to->deadline_usec;
		boost_again(j);
	}
	job_tell(j);
	job_save(j, on_saved, c);
}
