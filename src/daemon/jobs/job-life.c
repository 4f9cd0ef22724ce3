/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-life.h"

#include <assert.h>

#define ON_RECORD "the record and all names; which of them are in staging, staging itself tells"
#define AS_BEFORE "as in the phase before"

const struct job_phase_row job_phases[PHASES] = {
	[PHASE_UNKNOWN] = { "unknown", JOB_ACCEPTED, START_LIST, ON_RECORD,
			    "staging is listed: what is there is deleted there, the rest where it "
			    "is" },
	[PHASE_MOVING] = { "moving", JOB_ACCEPTED, START_LIST, ON_RECORD,
			   "the same, because the caller may have been answered" },
	[PHASE_LISTING] = { "listing", JOB_ACCEPTED, START_LIST, ON_RECORD, "the same" },
	[PHASE_HELD] = { "held", JOB_HELD, START_QUEUE,
			 "the same, and until when it can be restored; the renames a moment later",
			 "it is held for as long as it would have been" },
	[PHASE_QUEUED] = { "queued", JOB_QUEUED, START_QUEUE,
			   "the same; of a job that has run, what is gone",
			   "it waits for its turn" },
	[PHASE_RUNNING] = { "running", JOB_RUNNING, START_QUEUE,
			    "that its time of undo is over, before the first name goes; what is "
			    "gone, once its directories are synced",
			    "it is queued; what is gone already is found missing, which is no "
			    "error" },
	[PHASE_LEAVING] = { "leaving", JOB_RUNNING, START_QUEUE, AS_BEFORE, "it is queued" },
	[PHASE_CLEARING] = { "clearing", JOB_RUNNING, START_QUEUE, AS_BEFORE,
			     "it is queued, and tries these names once more" },
	[PHASE_PAUSED] = { "paused", JOB_PAUSED, START_NOTHING, "that it pauses, and what is gone",
			   "it stays paused" },
	[PHASE_RETURNING] = { "returning", JOB_PAUSED, START_NOTHING,
			      "that it is taken back, before the first name goes back",
			      "names go on going back" },
	[PHASE_FREEING] = { "freeing", JOB_RUNNING, START_QUEUE, "that its names are back",
			    "the kernel has freed the remainder; it is cancelled" },
	[PHASE_FREE_WAITS] = { "freeing-waits", JOB_QUEUED, START_QUEUE, AS_BEFORE, "the same" },
	[PHASE_FREE_PAUSED] = { "freeing-paused", JOB_PAUSED, START_NOTHING, AS_BEFORE,
				"the same" },
	[PHASE_DONE] = { "done", JOB_DONE, START_NOTHING,
			 "that it has ended; in memory until that is on disk", "nothing" },
	[PHASE_PARTIAL] = { "partial", JOB_PARTIAL, START_NOTHING, "the same, and its problems",
			    "nothing" },
	[PHASE_FAILED] = { "failed", JOB_FAILED, START_NOTHING, "the same", "nothing" },
	[PHASE_CANCELLED] = { "cancelled", JOB_CANCELLED, START_NOTHING,
			      "that it has ended, and which names are back", "nothing" },
	[PHASE_RESTORED] = { "restored", JOB_RESTORED, START_NOTHING, "the same", "nothing" },
};

const char *const job_event_names[EVENTS] = {
	[EVENT_SUBMITTED] = "submitted", [EVENT_LIST] = "list",
	[EVENT_LISTLESS] = "listless",   [EVENT_HOLD] = "hold",
	[EVENT_QUEUE] = "queue",         [EVENT_BEGIN] = "begin",
	[EVENT_LEAVE] = "leave",         [EVENT_CLEAR] = "clear",
	[EVENT_CLEARED] = "cleared",     [EVENT_PAUSE] = "pause",
	[EVENT_TAKE_BACK] = "take-back", [EVENT_FREE] = "free",
	[EVENT_FREE_WAIT] = "free-wait", [EVENT_FREE_PAUSE] = "free-pause",
	[EVENT_DONE] = "done",           [EVENT_PARTIAL] = "partial",
	[EVENT_FAILED] = "failed",       [EVENT_CANCELLED] = "cancelled",
	[EVENT_RESTORED] = "restored",
};

#define WAITING (IN_PHASE(HELD) | IN_PHASE(QUEUED) | IN_PHASE(PAUSED))
#define ACCEPTED (IN_PHASE(UNKNOWN) | IN_PHASE(MOVING) | IN_PHASE(LISTING))

const struct job_move job_moves[] = {
	{ EVENT_SUBMITTED, IN_PHASE(UNKNOWN), PHASE_MOVING },
	{ EVENT_LIST, IN_PHASE(UNKNOWN), PHASE_LISTING },
	{ EVENT_LISTLESS, IN_PHASE(MOVING) | IN_PHASE(LISTING), PHASE_UNKNOWN },
	/* Of what cannot all be put back: what was held stays so. */
	{ EVENT_HOLD, ACCEPTED | WAITING | IN_PHASE(LEAVING) | IN_PHASE(RETURNING), PHASE_HELD },
	{ EVENT_QUEUE, ACCEPTED | WAITING | IN_PHASE(LEAVING) | IN_PHASE(RETURNING), PHASE_QUEUED },
	{ EVENT_BEGIN, IN_PHASE(QUEUED), PHASE_RUNNING },
	{ EVENT_LEAVE, IN_PHASE(RUNNING), PHASE_LEAVING },
	{ EVENT_CLEAR, IN_PHASE(LEAVING), PHASE_CLEARING },
	{ EVENT_CLEARED, IN_PHASE(CLEARING), PHASE_LEAVING },
	/* Out of memory, a submit that is withdrawn pauses, and the next start takes it back.
	 */
	{ EVENT_PAUSE, WAITING | IN_PHASE(MOVING) | IN_PHASE(LEAVING) | IN_PHASE(RETURNING),
	  PHASE_PAUSED },
	{ EVENT_TAKE_BACK, WAITING | IN_PHASE(UNKNOWN) | IN_PHASE(MOVING) | IN_PHASE(LEAVING),
	  PHASE_RETURNING },
	{ EVENT_FREE, IN_PHASE(RETURNING) | PHASES_FREEING, PHASE_FREEING },
	{ EVENT_FREE_WAIT, IN_PHASE(RETURNING) | PHASES_FREEING, PHASE_FREE_WAITS },
	{ EVENT_FREE_PAUSE, PHASES_FREEING, PHASE_FREE_PAUSED },
	{ EVENT_DONE, IN_PHASE(LEAVING), PHASE_DONE },
	{ EVENT_PARTIAL, IN_PHASE(LEAVING), PHASE_PARTIAL },
	/* From moving: refused. */
	{ EVENT_FAILED, IN_PHASE(LEAVING) | IN_PHASE(MOVING), PHASE_FAILED },
	{ EVENT_CANCELLED, IN_PHASE(RETURNING) | PHASES_FREEING, PHASE_CANCELLED },
	{ EVENT_RESTORED, IN_PHASE(RETURNING), PHASE_RESTORED },
	{ EVENTS, 0, PHASES },
};

enum job_phase job_life_next(enum job_phase from, enum job_event event)
{
	for (const struct job_move *m = job_moves; m->from; m++)
		if (m->event == event)
			return job_phase_is(from, m->from) ? m->to : PHASES;
	return PHASES;
}

enum job_phase job_life_loaded(enum job_state state)
{
	static const enum job_phase loaded[JOB_STATES] = {
		[JOB_ACCEPTED] = PHASE_UNKNOWN,    [JOB_HELD] = PHASE_HELD,
		[JOB_QUEUED] = PHASE_QUEUED,       [JOB_RUNNING] = PHASE_LEAVING,
		[JOB_PAUSED] = PHASE_PAUSED,       [JOB_DONE] = PHASE_DONE,
		[JOB_PARTIAL] = PHASE_PARTIAL,     [JOB_FAILED] = PHASE_FAILED,
		[JOB_CANCELLED] = PHASE_CANCELLED, [JOB_RESTORED] = PHASE_RESTORED,
	};

	assert(state < JOB_STATES);
	return loaded[state];
}

enum job_start job_life_start(enum job_phase phase, enum job_state resume)
{
	/* Of other ended states none is ever written: the store is damaged, and the job is queued.
	 */
	bool back = resume == JOB_CANCELLED || resume == JOB_RESTORED;

	if (back && !job_phase_is(phase, PHASES_ENDED | IN_PHASE(UNKNOWN)))
		return START_TAKE_BACK;
	return job_phases[phase].start;
}

enum job_event job_life_end(enum job_state state)
{
	assert(state >= JOB_DONE && state < JOB_STATES);
	return EVENT_DONE + (state - JOB_DONE);
}
