/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of a job's life: nothing in it leads nowhere, a start of the daemon knows what to do in
 * each phase, and docs/architecture.md shows it as it is ("test-job-life --table" prints it). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "daemon/jobs/job-life.h"
#include "support.h"

static bool is_ended(enum job_phase phase)
{
	return job_phase_is(phase, PHASES_ENDED);
}

/* All phases that can follow, sooner or later. */
static unsigned reachable(enum job_phase from)
{
	unsigned all = 1U << from, before = 0;

	while (all != before) {
		before = all;
		for (unsigned p = 0; p < PHASES; p++)
			if (job_phases[p].from & all)
				all |= 1U << p;
	}
	return all;
}

static bool follows(enum job_phase from, enum job_phase to)
{
	return job_phase_is(from, job_phases[to].from);
}

START_TEST(each_phase_is_described_and_reached)
{
	unsigned all = reachable(PHASE_UNKNOWN);

	for (unsigned p = 0; p < PHASES; p++) {
		ck_assert_ptr_nonnull(job_phases[p].name);
		ck_assert_ptr_nonnull(job_phases[p].durable);
		ck_assert_ptr_nonnull(job_phases[p].then);
		ck_assert_msg(all >> p & 1, "%s is never reached", job_phases[p].name);
	}
}
END_TEST

START_TEST(each_phase_leads_to_an_end)
{
	for (unsigned p = 0; p < PHASES; p++)
		ck_assert_msg(reachable(p) & PHASES_ENDED, "%s", job_phases[p].name);
}
END_TEST

START_TEST(nothing_comes_after_the_end)
{
	for (unsigned p = 0; p < PHASES; p++)
		ck_assert_uint_eq(job_phases[p].from & PHASES_ENDED, 0);
	for (unsigned s = JOB_DONE; s < JOB_STATES; s++)
		ck_assert_uint_eq(job_phases[PHASE_DONE + (s - JOB_DONE)].state, s);
}
END_TEST

/* The machine stops in a phase: only its state is on record. What the start does must be possible
 * then, and lead to an end; names that were asked back must not be deleted. */
START_TEST(a_start_goes_on_from_each_phase)
{
	static const enum job_state resumes[] = { JOB_QUEUED, JOB_ACCEPTED, JOB_CANCELLED,
						  JOB_RESTORED };

	for (unsigned p = 0; p < PHASES; p++) {
		enum job_phase loaded = job_life_loaded(job_phases[p].state);

		ck_assert_uint_eq(job_phases[loaded].state, job_phases[p].state);
		for (size_t i = 0; i < ELEMENTSOF(resumes); i++) {
			enum job_start start = job_life_start(loaded, resumes[i]);

			switch (start) {
			case START_LIST:
				ck_assert(follows(loaded, PHASE_LISTING));
				break;
			case START_QUEUE:
				ck_assert_uint_eq(resumes[i], JOB_QUEUED);
				ck_assert(follows(loaded, PHASE_HELD));
				ck_assert(follows(loaded, PHASE_QUEUED));
				break;
			case START_TAKE_BACK:
				ck_assert(follows(loaded, PHASE_RETURNING));
				break;
			case START_NOTHING:
				ck_assert(loaded == PHASE_PAUSED || is_ended(loaded));
				break;
			}
		}
	}
}
END_TEST

/* Once deleting has begun, nothing leads back to where all could still be restored but a run that
 * was interrupted, and that is queued. */
START_TEST(what_is_taken_back_is_not_deleted_before_it_was_asked_for)
{
	ck_assert_uint_eq(job_phases[PHASE_RUNNING].from, IN_PHASE(QUEUED));
}
END_TEST

static void print_table(FILE *to)
{
	static const char *const states[JOB_STATES] = { "accepted", "held",   "queued",
							"running",  "paused", "done",
							"partial",  "failed", "cancelled",
							"restored" };

	(void)fprintf(to, "| phase | state | may become | on disk at the latest | the machine "
			  "stops here: the next start |\n|---|---|---|---|---|\n");
	for (unsigned p = 0; p < PHASES; p++) {
		bool first = true;

		(void)fprintf(to, "| %s | %s | ", job_phases[p].name, states[job_phases[p].state]);
		for (unsigned to_phase = 0; to_phase < PHASES; to_phase++) {
			if (!follows(p, to_phase))
				continue;
			(void)fprintf(to, "%s%s", first ? "" : ", ", job_phases[to_phase].name);
			first = false;
		}
		(void)fprintf(to, " | %s | %s |\n", job_phases[p].durable, job_phases[p].then);
	}
}

START_TEST(the_page_shows_this_table)
{
	char *table = NULL, *page = NULL;
	size_t len = 0, room = 0;
	FILE *to = open_memstream(&table, &len), *from = fopen(DOCS "/architecture.md", "re");

	ck_assert(to && from);
	print_table(to);
	(void)fclose(to);
	ck_assert_int_gt(getdelim(&page, &room, '\0', from), 0);
	(void)fclose(from);
	ck_assert_msg(strstr(page, table),
		      "docs/architecture.md does not show what test-job-life --table prints");
	free(page);
	free(table);
}
END_TEST

static int run(void)
{
	Suite *s = suite_create("job-life");
	TCase *tc = tcase_create("job-life");
	const TTest *const tests[] = {
		each_phase_is_described_and_reached,
		each_phase_leads_to_an_end,
		nothing_comes_after_the_end,
		a_start_goes_on_from_each_phase,
		what_is_taken_back_is_not_deleted_before_it_was_asked_for,
		the_page_shows_this_table,
	};

	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}

int main(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "--table") != 0)
		return run();
	print_table(stdout);
	return EXIT_SUCCESS;
}
