/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the record to the answer (src/daemon/jobs/job-submit.c): what comes before what. */
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/jobs/job-submit.h"
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

static void on_submitted(const struct failure *f, const struct submitted *s, void *userdata)
{
	(void)userdata;
	w.answered = true;
	w.failure = *f;
	w.id = s->id;
}

/* A list of a policy names trees; of those in the first directory, none is there any more. */
START_TEST(test_submit_is_listed_by_a_path_that_is_there)
{
	struct credentials root = { 0 };
	static char name[] = "a";
	struct intake_group groups[2] = {
		{ .dirfd = -1, .names_fd = -1, .list = true, .names = { name, sizeof(name) } },
		{ .dirfd = -1, .names_fd = -1, .list = true, .names = { name, sizeof(name) } },
	};
	struct submit_options o = { .has_undo = true,
				    .undo_usec = HOUR_USEC,
				    .priority = PRIORITY_NORMAL };

	ck_assert_int_eq(mkdir(job_world_path(&w, "data/one"), 0755), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, "data/two"), 0755), 0);
	file_make(w.mount, "data/two/a", "old");
	groups[0].dir_path = groups[0].display = job_world_path(&w, "data/one");
	groups[1].dir_path = groups[1].display = job_world_path(&w, "data/two");
	submit_begin(&w.jobs, &root, -1, groups, 2, &o, on_submitted, &w);
	job_world_until(&w, w.answered);
	ck_assert_msg(!w.failure.cause, "%s", w.failure.text.line);
	ck_assert_str_eq(job_world_job(&w, w.id)->r.path, job_world_path(&w, "data/two/a"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_submit_moves_nothing_before_it_is_on_record,
		test_submit_is_listed_by_a_path_that_is_there,
	};

	return job_world_run("job-submit", &w, tests, ELEMENTSOF(tests));
}
