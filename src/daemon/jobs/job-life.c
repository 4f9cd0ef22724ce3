/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-life.h"

#include <assert.h>

#define ON_RECORD "the record and all names; which of them are in staging, staging itself tells"
#define AS_BEFORE "as in the phase before"

#define ACCEPTED (IN_PHASE(UNKNOWN) | IN_PHASE(MOVING) | IN_PHASE(LISTING))
/* Of what cannot all be put back: what was held stays so. */
#define TO_WAIT (ACCEPTED | PHASES_AT_REST | IN_PHASE(LEAVING) | IN_PHASE(RETURNING))

const struct job_phase_row job_phases[PHASES] = {
	[PHASE_UNKNOWN] = { "unknown", JOB_ACCEPTED, IN_PHASE(MOVING) | IN_PHASE(LISTING),
			    START_LIST, ON_RECORD,
			    "staging is listed: what is there is deleted there, the rest where it "
			    "is" },
	[PHASE_MOVING] = { "moving", JOB_ACCEPTED, IN_PHASE(UNKNOWN), START_LIST, ON_RECORD,
			   "the same, because the caller may have been answered" },
	[PHASE_LISTING] = { "listing", JOB_ACCEPTED, IN_PHASE(UNKNOWN), START_LIST, ON_RECORD,
			    "the same" },
	[PHASE_HELD] = { "held", JOB_HELD, TO_WAIT, START_QUEUE,
			 "the same, and until when it can be restored; the renames a moment later",
			 "it is held for as long as it would have been" },
	[PHASE_QUEUED] = { "queued", JOB_QUEUED, TO_WAIT, START_QUEUE,
			   "the same; of a job that has run, what is gone",
			   "it waits for its turn" },
	[PHASE_RUNNING] = { "running", JOB_RUNNING, IN_PHASE(QUEUED), START_QUEUE,
			    "that its undo window is over, before the first name goes; what is "
			    "gone, once its directories are synced",
			    "it is queued; what is gone already is found missing, which is no "
			    "error" },
	[PHASE_LEAVING] = { "leaving", JOB_RUNNING, IN_PHASE(RUNNING) | IN_PHASE(CLEARING),
			    START_QUEUE, AS_BEFORE, "it is queued" },
	[PHASE_CLEARING] = { "clearing", JOB_RUNNING, IN_PHASE(LEAVING), START_QUEUE, AS_BEFORE,
			     "it is queued, and tries these names once more" },
	/* Out of memory, a submit that is withdrawn pauses, and the next start takes it back. */
	[PHASE_PAUSED] = { "paused", JOB_PAUSED,
			   PHASES_AT_REST | IN_PHASE(MOVING) | IN_PHASE(LEAVING) |
				   IN_PHASE(RETURNING),
			   START_NOTHING, "that it pauses, and what is gone", "it stays paused" },
	[PHASE_RETURNING] = { "returning", JOB_PAUSED,
			      PHASES_AT_REST | IN_PHASE(UNKNOWN) | IN_PHASE(MOVING) |
				      IN_PHASE(LEAVING),
			      START_NOTHING,
			      "that it is taken back, before the first name goes back",
			      "names go on going back" },
	[PHASE_FREEING] = { "freeing", JOB_RUNNING, IN_PHASE(RETURNING) | PHASES_FREEING,
			    START_QUEUE, "that its names are back",
			    "the kernel has freed the remainder; it is cancelled" },
	[PHASE_FREE_WAITS] = { "freeing-waits", JOB_QUEUED, IN_PHASE(RETURNING) | PHASES_FREEING,
			       START_QUEUE, AS_BEFORE, "the same" },
	[PHASE_FREE_PAUSED] = { "freeing-paused", JOB_PAUSED, PHASES_FREEING, START_NOTHING,
				AS_BEFORE, "the same" },
	[PHASE_DONE] = { "done", JOB_DONE, IN_PHASE(LEAVING), START_NOTHING,
			 "that it has ended; in memory until that is on disk", "nothing" },
	[PHASE_PARTIAL] = { "partial", JOB_PARTIAL, IN_PHASE(LEAVING), START_NOTHING,
			    "the same, and its problems", "nothing" },
	/* From moving if it is refused; from returning if names are lost. */
	[PHASE_FAILED] = { "failed", JOB_FAILED,
			   IN_PHASE(LEAVING) | IN_PHASE(MOVING) | IN_PHASE(RETURNING) |
				   PHASES_FREEING,
			   START_NOTHING, "the same", "nothing" },
	[PHASE_CANCELLED] = { "cancelled", JOB_CANCELLED, IN_PHASE(RETURNING) | PHASES_FREEING,
			      START_NOTHING, "that it has ended, and which names are back",
			      "nothing" },
	[PHASE_RESTORED] = { "restored", JOB_RESTORED, IN_PHASE(RETURNING), START_NOTHING,
			     "the same", "nothing" },
};

enum job_phase job_life_loaded(enum job_state state)
{
	enum job_phase p = PHASE_UNKNOWN;

	assert(state < JOB_STATES);
	while (job_phases[p].state != state)
		p++;
	/* Its run has ended with the daemon. */
	return p == PHASE_RUNNING ? PHASE_LEAVING : p;
}

enum job_start job_life_start(enum job_phase phase, enum job_state resume)
{
	/* Accepted: it was withdrawn. Failed: names were found to be lost. Any other ended state is
	 * never written, so the store is damaged, and the job is queued. */
	bool back = resume == JOB_ACCEPTED || resume == JOB_CANCELLED || resume == JOB_RESTORED ||
		    resume == JOB_FAILED;

	if (back && !job_phase_is(phase, PHASES_ENDED | IN_PHASE(UNKNOWN)))
		return START_TAKE_BACK;
	return job_phases[phase].start;
}
