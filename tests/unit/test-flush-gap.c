/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When the flushes at jobs' ends may be made, against an invented device (world.h). */
#include "support.h"
#include "world.h"

/* What a job's end has flushed, in a slice of its own. Returns when the next may be. */
static uint64_t flush(struct world *w, uint64_t cost_usec)
{
	controller_begin(&w->c);
	controller_synced(&w->c, w->now, cost_usec);
	return controller_flush_from(&w->c);
}

START_TEST(ends_of_jobs_leave_room_to_foreign_io)
{
	struct pacing_view before, after;
	struct world w;

	world_init(&w, &cautious, with_reads(solid, 90));
	world_pass(&w, 2 * USEC_PER_SEC);
	while (w.working || w.syncing)
		world_pass(&w, STEP);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	ck_assert_uint_le(controller_flush_from(&w.c), w.now);
	controller_view(&w.c, &before);
	ck_assert_uint_eq(flush(&w, 3 * MSEC), w.now + 300 * MSEC);
	/* All was made durable, but how large a piece may be is another matter. */
	ck_assert(controller_is_between(&w.c));
	controller_view(&w.c, &after);
	ck_assert_uint_eq(after.bytes, before.bytes);
	ck_assert_uint_eq(after.quantum_usec, before.quantum_usec);
	/* People wait. */
	ck_assert_uint_eq(flush(&w, 50 * MSEC), w.now + 1 * USEC_PER_SEC);
	/* Who deletes meanwhile does not. */
	ck_assert_uint_lt(w.c.not_before_usec, w.now + 100 * MSEC);
	controller_urgent(&w.c, true);
	ck_assert_uint_eq(controller_flush_from(&w.c), 0);
}
END_TEST

START_TEST(ends_of_jobs_without_foreign_io)
{
	struct controller_options blind = { .rate_min = MiB(8) };
	struct world w;

	world_init(&w, &automatic, solid);
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_eq(flush(&w, 50 * MSEC), 0);
	/* Whether there is foreign I/O cannot be seen. */
	world_init(&w, &blind, solid);
	ck_assert_uint_eq(flush(&w, 50 * MSEC), 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { ends_of_jobs_leave_room_to_foreign_io,
				 ends_of_jobs_without_foreign_io };

	return run_case("flush-gap", tests, sizeof(tests) / sizeof(tests[0]));
}
