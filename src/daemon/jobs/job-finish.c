/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-finish.h"

#include <assert.h>
#include <inttypes.h>

#include "base/units.h"
#include "daemon/context/log.h"
#include "remainder.h"
#include "schedule.h"
#include "withdrawal.h"

static void log_finished(const struct job *j)
{
	static const sd_id128_t ids[JOB_STATES] = {
		[JOB_DONE] = MESSAGE_JOB_DONE,           [JOB_PARTIAL] = MESSAGE_JOB_INCOMPLETE,
		[JOB_FAILED] = MESSAGE_JOB_INCOMPLETE,   [JOB_CANCELLED] = MESSAGE_JOB_TAKEN_BACK,
		[JOB_RESTORED] = MESSAGE_JOB_TAKEN_BACK,
	};
	bool bad = j->r.state == JOB_PARTIAL || j->r.state == JOB_FAILED;
	char entries[COUNTED_SIZE], freed[16];

	log_job(bad ? LOG_WARNING : LOG_INFO, ids[j->r.state], &j->r,
		"Job %" PRIu64 " is %s: %s deleted, %s freed%s%s", j->r.id,
		job_state_name(j->r.state),
		counted_format(entries, sizeof(entries), j->r.entries_done, "entry", "entries"),
		size_format(freed, sizeof(freed), j->r.bytes_freed), *j->r.message ? "; " : "",
		j->r.message);
}

void job_finish(struct job *j, enum job_state s)
{
	schedule_remove(j);
	remainder_abandon(j);
	withdrawal_finish(j);
	j->r.finished_usec = context_clock();
	j->jobs->finished_last = MAX(j->jobs->finished_last, j->r.id);
	assert(job_state_finished(s));
	job_enter(j, PHASE_DONE + (s - JOB_DONE));
	log_finished(j);
	job_save(j, NULL, NULL);
}
