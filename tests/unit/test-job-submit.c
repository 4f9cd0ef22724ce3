/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the record to the answer (src/daemon/jobs/job-submit.c): what comes before what, and many at
 * the same time. */
#include <stdio.h>
#include <unistd.h>

#include "job-world.h"

/* More than there is room for when the first of them is recorded. */
#define MANY 300

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

START_TEST(test_submit_of_many_at_once)
{
	char name[32];

	hear_store(false);
	for (unsigned i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "data/%u", i);
		file_make(w.mount, name, "old");
		job_world_submit_begin(&w, name, HOUR_USEC);
	}
	job_world_until(&w, all_validated());
	hear_store(true);
	job_world_until(&w, w.submitted == MANY);
	ck_assert_uint_eq(w.jobs.counts[JOB_HELD], MANY);
	ck_assert_uint_eq(w.jobs.waiting.n, MANY);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_submit_moves_nothing_before_it_is_on_record,
		test_submit_of_many_at_once,
	};

	return job_world_run("job-submit", &w, tests, ELEMENTSOF(tests));
}
