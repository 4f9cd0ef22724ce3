/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/context/failure.h"
#include "boost.h"
#include "daemon/context/log.h"
#include "job-restore.h"
#include "job-finish.h"
#include "remainder.h"
#include "job-run.h"
#include "schedule.h"
#include "base/fd.h"
#include "base/units.h"

struct control {
	struct job *j;
	enum job_state to, from;
	int to_fd, view_fd;
	char *to_name;
	bool withdrawn;
	control_done_t done;
	void *userdata;
};

static void answer(struct control *c, const struct failure *f)
{
	struct jobs *jobs = c->j->jobs;

	if (c->done)
		c->done(c->j, f, c->userdata);
	fd_closep(&c->to_fd);
	fd_closep(&c->view_fd);
	free(c->to_name);
	free(c);
	context_flow_ends(jobs->context);
}

static struct control *control_new(struct job *j, enum job_state to, control_done_t done,
				   void *userdata)
{
	struct failure f = { 0 };
	struct control *c = calloc(1, sizeof(*c));

	if (!c) {
		failure_errno(&f, -ENOMEM, "job %" PRIu64, j->r.id);
		done(j, &f, userdata);
		return NULL;
	}
	*c = (struct control){
		.j = j, .to = to, .to_fd = -1, .view_fd = -1, .done = done, .userdata = userdata
	};
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

static bool is_withdrawn(const struct job *j)
{
	return strcmp(j->r.message, withdrawn_said) == 0;
}

/* Not all could be put back. What was held stays so, for as long as it would have been; anything
 * else pauses: what was just asked for back must not be deleted. So does what is not in staging at
 * all, as it may be in its place. */
static void keep_stuck_names(struct control *c, const struct restore_result *back,
			     struct failure *f)
{
	struct job *j = c->j;
	bool held = c->from != JOB_PAUSED && !c->withdrawn && back->error != -ENOENT &&
		    j->r.started_usec == 0 && j->r.held_until_usec > schedule_clock(j->jobs);
	char names[COUNTED_SIZE];

	failure_set(f, error_from_errno(back->error, ERROR_AT_PATH),
		    "job %" PRIu64 ": %" PRIu64 " of its names could not be put back: %s; it %s: "
		    "`reclaimctl restore --to=` puts it elsewhere",
		    j->r.id, back->stuck, back->text, held ? "is held as before" : "pauses");
	job_say(j,
		"%s could not be put back (%s): `reclaimctl restore --to=` puts "
		"them elsewhere%s",
		counted_format(names, sizeof(names), back->stuck, "name", "names"), back->text,
		held ? "" : ", `reclaimctl resume` deletes them");
	j->r.resume_state = JOB_QUEUED;
	if (held)
		schedule_job(j);
	else
		job_event(j, EVENT_PAUSE);
	job_save(j, NULL, NULL);
}

static const char remainder_message[] =
	"; the rest of a large file without a name is still freed at its "
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
	job_finish(j, JOB_CANCELLED);
	if (c)
		answer(c, &f);
}

/* Frees it, or, while everything pauses, does not. */
static void begin_freeing(struct job *j)
{
	bool paused = j->jobs->paused;

	job_event(j, paused ? EVENT_FREE_WAIT : EVENT_FREE);
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
		job_event(j, EVENT_PAUSE);
		answer(c, &f);
		return;
	}
	if (back->stuck > 0) {
		keep_stuck_names(c, back, &f);
		answer(c, &f);
		return;
	}
	/* After a restart, what was said of names that were back by then still holds. */
	if (c->withdrawn || is_withdrawn(j))
		job_say(j, "%s", withdrawn_said);
	else if (j->r.started_usec == 0)
		job_set_text(&j->r.message, NULL);
	else if (!remove_remainder_message(j))
		job_say(j, "%s put back, as far as they were there still; %s had been deleted",
			counted_format(names, sizeof(names), back->back, "name was", "names were"),
			counted_format(gone, sizeof(gone), j->r.entries_done, "entry", "entries"));
	if (j->remainder)
		finish_after_remainder(j);
	else
		job_finish(j, c->to);
	answer(c, &f);
}

static void on_intent(int r, void *userdata)
{
	struct control *c = userdata;

	(void)r; /* without the record it is still better to put back what is asked for */
	restore_names(c->j, ENTRY_RESTORED, c->to_fd, c->to_name, c->view_fd, on_back, c);
}

static void take_back(struct control *c)
{
	struct job *j = c->j;

	schedule_remove(j);
	c->from = j->r.state;
	/* Where else it was to go is not on record: after a crash, that is asked for again. */
	j->r.resume_state = c->to_fd >= 0 ? JOB_QUEUED : c->to;
	job_say(j, "%s", c->withdrawn ? withdrawn_said : "is being put back");
	job_event(j, EVENT_TAKE_BACK);
	job_save(j, on_intent, c);
}

void control_withdraw(struct job *j)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c) { /* the next start puts it back */
		log_line(LOG_ERR, "Out of memory: job %" PRIu64 " pauses", j->r.id);
		j->r.resume_state = JOB_CANCELLED;
		job_say(j, "%s", withdrawn_said);
		job_event(j, EVENT_PAUSE);
		job_save(j, NULL, NULL);
		return;
	}
	*c = (struct control){
		.j = j, .to = JOB_CANCELLED, .to_fd = -1, .view_fd = -1, .withdrawn = true
	};
	context_flow_begins(j->jobs->context);
	take_back(c);
}

static void on_stopped(struct job *j, void *userdata)
{
	struct control *c = userdata;
	struct failure f = { 0 };

	if (!job_state_finished(j->r.state)) {
		take_back(c);
		return;
	}
	failure_set(&f, ERROR_WRONG_STATE, "job %" PRIu64 " has just finished: it is %s", j->r.id,
		    job_state_name(j->r.state));
	answer(c, &f);
}

static bool wrong_state(const struct job *j, struct failure *f, const char *what)
{
	failure_set(f, ERROR_WRONG_STATE, "job %" PRIu64 " cannot be %s: it is %s%s", j->r.id, what,
		    job_state_name(j->r.state),
		    job_phase_is(j->phase, IN_PHASE(RETURNING) | IN_PHASE(CLEARING))
			    ? " and is being put back"
		    : j->phase == PHASE_MOVING ? " and its names are being moved out of the way"
					       : "");
	return false;
}

static bool at_rest(const struct job *j)
{
	return job_phase_is(j->phase, PHASES_AT_REST);
}

static bool may_stop(const struct job *j)
{
	return job_phase_is(j->phase, PHASES_AT_REST | IN_PHASE(RUNNING) | PHASES_FREEING);
}

/* Accepted before a restart, and its directory in staging could not be listed since. */
static bool is_unknown(const struct job *j)
{
	return j->phase == PHASE_UNKNOWN;
}

bool control_may_cancel(const struct job *j, struct failure *f)
{
	return may_stop(j) || is_unknown(j) || j->phase == PHASE_MOVING ||
	       wrong_state(j, f, "cancelled");
}

static void is_stopping(const struct job *j, struct failure *f)
{
	failure_set(f, ERROR_WRONG_STATE, "job %" PRIu64 " is being stopped already", j->r.id);
}

/* Its names are still being moved: it is handed over when they have been. */
static int stop_submit(struct job *j, struct control *c)
{
	if (j->stopped)
		return -EBUSY;
	j->stopped = on_stopped;
	j->stopped_userdata = c;
	return 0;
}

void control_cancel(struct job *j, control_done_t done, void *userdata)
{
	struct control *c = control_new(j, JOB_CANCELLED, done, userdata);
	struct failure f = { 0 };

	if (!c)
		return;
	if (j->phase == PHASE_RUNNING || j->phase == PHASE_MOVING) {
		if ((j->phase == PHASE_RUNNING ? run_stop(j, /* keep= */ true, on_stopped, c)
					       : stop_submit(j, c)) >= 0)
			return;
		is_stopping(j, &f);
		answer(c, &f);
	} else if (is_unknown(j)) {
		j->unmarked = *j->r.staging ? -EAGAIN : 0;
		take_back(c);
	} else if (job_phase_is(j->phase, PHASES_FREEING) && !j->remainder->released) {
		remainder_watch(j->remainder, on_remainder_gone, c);
		remainder_release(j->remainder);
	} else if (!job_phase_is(j->phase, PHASES_FREEING) && control_may_cancel(j, &f)) {
		take_back(c);
	} else {
		answer(c, &f);
	}
}

bool control_may_restore(const struct job *j, struct failure *f)
{
	if (j->r.started_usec > 0 && !job_state_finished(j->r.state)) {
		failure_set(f, ERROR_WRONG_STATE,
			    "job %" PRIu64 " has begun to delete: `reclaimctl cancel "
			    "%" PRIu64 "` puts back what is left",
			    j->r.id, j->r.id);
		return false;
	}
	return at_rest(j) || wrong_state(j, f, "restored");
}

void control_restore(struct job *j, int to_fd, const char *to_name, int view_fd,
		     control_done_t done, void *userdata)
{
	struct control *c = control_new(j, JOB_RESTORED, done, userdata);
	struct failure f = { 0 };

	if (!c)
		return;
	if (!control_may_restore(j, &f)) {
		answer(c, &f);
		return;
	}
	if (to_fd >= 0)
		c->to_fd = fcntl(to_fd, F_DUPFD_CLOEXEC, 3);
	if (to_name)
		c->to_name = strdup(to_name);
	if (view_fd >= 0)
		c->view_fd = fcntl(view_fd, F_DUPFD_CLOEXEC, 3);
	if ((to_fd >= 0 && c->to_fd < 0) || (view_fd >= 0 && c->view_fd < 0) ||
	    (to_name && !c->to_name)) {
		failure_errno(&f, -ENOMEM, "job %" PRIu64, j->r.id);
		answer(c, &f);
		return;
	}
	take_back(c);
}

void control_resume_restore(struct job *j)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r, "Out of memory: job %" PRIu64 " pauses",
			j->r.id);
		job_event(j, EVENT_PAUSE);
		return;
	}
	/* As it was asked for before, and is on record as pausing for it. */
	*c = (struct control){
		.j = j, .to = j->r.resume_state, .from = JOB_PAUSED, .to_fd = -1, .view_fd = -1
	};
	context_flow_begins(j->jobs->context);
	job_event(j, EVENT_TAKE_BACK);
	/* That it is to be taken back may have been on record before all that was moved. */
	if (*j->r.staging && *j->area->mount)
		j->unmarked = -EAGAIN;
	restore_names(j, ENTRY_RESTORED, -1, NULL, -1, on_back, c);
}

/* ---- pausing ----------------------------------------------------------------------------------
 */

static void pause_at_rest(struct control *c)
{
	struct job *j = c->j;

	schedule_remove(j);
	j->r.resume_state = JOB_QUEUED; /* schedule_job holds it if its time is not over */
	job_event(j, EVENT_PAUSE);
	job_save(j, on_saved, c);
}

static void on_stopped_pause(struct job *j, void *userdata)
{
	struct control *c = userdata;
	struct failure f = { 0 };

	if (!job_state_finished(j->r.state))
		pause_at_rest(c);
	else
		answer(c, &f);
}

bool control_may_pause(const struct job *j, struct failure *f)
{
	return may_stop(j) || wrong_state(j, f, "paused");
}

void control_pause(struct job *j, control_done_t done, void *userdata)
{
	struct control *c = control_new(j, JOB_PAUSED, done, userdata);
	struct failure f = { 0 };

	if (!c)
		return;
	if (j->phase == PHASE_RUNNING) {
		if (run_stop(j, /* keep= */ true, on_stopped_pause, c) >= 0)
			return;
		is_stopping(j, &f);
		answer(c, &f);
	} else if (j->r.state == JOB_PAUSED || !control_may_pause(j, &f)) {
		answer(c, &f);
	} else if (job_phase_is(j->phase, PHASES_FREEING)) {
		/* Where memory is out, nothing may be left to hold, and the job ends in this call.
		 */
		job_event(j, EVENT_FREE_PAUSE);
		remainder_hold(j->remainder);
		job_save(j, on_saved, c);
	} else {
		pause_at_rest(c);
	}
}

bool control_may_resume(const struct job *j, struct failure *f)
{
	return may_stop(j) || wrong_state(j, f, "resumed");
}

void control_resume(struct job *j, control_done_t done, void *userdata)
{
	struct control *c = control_new(j, JOB_QUEUED, done, userdata);
	struct failure f = { 0 };

	if (!c)
		return;
	if ((j->r.state != JOB_PAUSED && j->retry_usec == 0) || !control_may_resume(j, &f)) {
		(void)control_may_resume(j, &f);
		answer(c, &f);
		return;
	}
	if (job_phase_is(j->phase, PHASES_FREEING)) {
		begin_freeing(j);
		job_save(j, on_saved, c);
		return;
	}
	job_set_text(&j->r.message, NULL);
	j->retry_usec = 0;
	schedule_job(j);
	job_save(j, on_saved, c);
}
