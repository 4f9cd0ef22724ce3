/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the record to the answer (src/daemon/jobs/job-submit.c): what comes before what. */
#include <unistd.h>

#include "job-world.h"

static struct job_world w;

/* The store does its work, and is not heard. */
static void hear_store(bool hears)
{
	ck_assert_int_ge(
		sd_event_source_set_enabled(w.store_source, hears ? SD_EVENT_ON : SD_EVENT_OFF), 0);
}

static bool all_validated(void)
{
	const struct submitter *submitter;
	const struct intake *i;

	LIST_FOREACH(submitter, &w.submitters.list, link)
	LIST_FOREACH(i, &submitter->intakes, link)
	if (worker_busy(i->worker) > 0)
		return false;
	return true;
}

START_TEST(test_submit_moves_nothing_before_it_is_on_record)
{
	file_make(w.mount, "data/a", "old");
	hear_store(false);
	job_world_submit_begin(&w, "data/a", HOUR_USEC);
	job_world_until(&w, all_validated());
	ck_assert(!w.answered);
	ck_assert(job_world_has(&w, "data/a"));
	ck_assert(!job_world_has(&w, ".reclaim"));
	ck_assert_uint_eq(w.jobs.table.n, 0);
	hear_store(true);
	job_world_until(&w, w.answered);
	ck_assert(!job_world_has(&w, "data/a"));
	ck_assert_int_eq(access(job_world_staged(&w, w.id), F_OK), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_submit_moves_nothing_before_it_is_on_record,
	};

	return job_world_run("job-submit", &w, tests, ELEMENTSOF(tests));
}
