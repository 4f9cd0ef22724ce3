/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that trim free space: when they may begin, and how large they become. */
#include "pacing/control/controller-state.h"
#include "support.h"
#include "world.h"

#define NOW (1000 * MSEC)

/* A device, and how finely the filesystem on it divides what is free. */
struct trimmed {
	double mib_usec;    /* what a MiB takes */
	uint64_t call_usec; /* and a call */
	uint64_t run_bytes; /* trimmed as a whole whatever was asked for; 0: exactly what was */
	uint64_t busy_usec; /* all steps */
	uint64_t longest_usec;
	uint64_t bytes, now;
};

/* Foreign I/O, and syncs that take 2 ms without us: a step may take 1. */
static struct controller paced(void)
{
	struct controller_options o = { .observed = true, .presumed_busy = true, .discards = true };
	struct controller c;

	controller_init(&c, &o, NOW);
	c.mode = PACING_PACED;
	c.gap = false;
	window_add(&c.canaries, PACING_CANARIES, 2 * MSEC);
	return c;
}

static struct controller fast(void)
{
	struct controller c = paced();

	c.mode = PACING_FAST;
	return c;
}

static uint64_t step(struct controller *c, struct trimmed *t)
{
	struct pacing_grant g = controller_trim_next(c, t->now);
	uint64_t bytes = MAX(g.bytes, t->run_bytes);
	uint64_t cost = t->call_usec + (uint64_t)(t->mib_usec * (double)bytes / (double)MiB(1));

	ck_assert_uint_ne(g.not_before_usec, PACING_UNLIMITED);
	t->now = g.not_before_usec + cost;
	t->busy_usec += cost;
	t->longest_usec = cost;
	t->bytes += bytes;
	controller_begin(c);
	controller_trim_spent(c, t->now, bytes, cost);
	return bytes;
}

static struct trimmed steps(struct controller *c, unsigned n, struct trimmed t)
{
	t.now = NOW;
	for (unsigned i = 0; i < n; i++)
		(void)step(c, &t);
	return t;
}

START_TEST(first_step_is_small_beside_foreign_io)
{
	struct controller c = paced();

	ck_assert_uint_eq(controller_trim_next(&c, NOW).bytes, MiB(1));
	ck_assert_uint_eq(controller_trim_next(&c, NOW).not_before_usec, NOW);
}
END_TEST

START_TEST(steps_rest_in_proportion)
{
	struct controller c = paced();
	struct trimmed t = steps(&c, 100, (struct trimmed){ .mib_usec = 500 });

	ck_assert_uint_le(t.busy_usec * 4, t.now - NOW);
	ck_assert_uint_ge(t.busy_usec * 8, t.now - NOW);
	ck_assert_uint_eq(c.outstanding, 0);
}
END_TEST

/* More than reads in gaps take: it is us. */
START_TEST(steps_rest_longer_where_reads_suffer)
{
	struct controller c = paced();
	struct trimmed t;

	c.share = 0.1;
	t = steps(&c, 100, (struct trimmed){ .mib_usec = 500 });
	ck_assert_uint_le(t.busy_usec * 9, t.now - NOW);
}
END_TEST

START_TEST(size_is_found_on_a_slow_device)
{
	struct controller c = paced();
	struct trimmed t = steps(&c, 100, (struct trimmed){ .mib_usec = 5000 });

	/* What it costs is what a foreign request may wait. */
	ck_assert_uint_le(t.longest_usec, 1 * MSEC);
	ck_assert_uint_lt(controller_trim_next(&c, t.now).bytes, MiB(1));
}
END_TEST

START_TEST(size_is_found_on_a_fast_device)
{
	struct controller c = paced();
	struct trimmed t = steps(&c, 200, (struct trimmed){ .mib_usec = 2 });

	ck_assert_uint_gt(controller_trim_next(&c, t.now).bytes, MiB(64));
	ck_assert_uint_le(t.longest_usec, 1 * MSEC);
}
END_TEST

/* ext4: 128 MiB are trimmed at once, 64 ms. A request at any time meets that once in a hundred
 * times, however many of them it waits behind. */
START_TEST(what_cannot_be_divided_is_rare)
{
	struct controller c = paced();
	struct trimmed t =
		steps(&c, 100, (struct trimmed){ .mib_usec = 500, .run_bytes = MiB(128) });

	ck_assert_uint_le(t.busy_usec * 100, t.now - NOW);
	/* But not for ever. */
	ck_assert_uint_ge(t.busy_usec * 200, t.now - NOW);
}
END_TEST

/* Where the device discards that in no time, nothing is lost. */
START_TEST(what_cannot_be_divided_is_cheap_there)
{
	struct controller c = paced();
	struct trimmed t = steps(&c, 100, (struct trimmed){ .mib_usec = 5, .run_bytes = MiB(128) });

	ck_assert_uint_ge(t.busy_usec * 8, t.now - NOW);
}
END_TEST

/* It says what a small step would take. */
START_TEST(large_run_teaches_the_size)
{
	struct controller c = paced();
	struct trimmed t =
		steps(&c, 100, (struct trimmed){ .mib_usec = 5000, .run_bytes = MiB(128) });

	ck_assert_uint_lt(controller_trim_next(&c, t.now).bytes, MiB(1));
	c = paced();
	t = steps(&c, 100, (struct trimmed){ .mib_usec = 5, .run_bytes = MiB(128) });
	ck_assert_uint_gt(controller_trim_next(&c, t.now).bytes, MiB(16));
}
END_TEST

/* A step that met a foreign commit is not what it takes. */
START_TEST(single_slow_step_is_no_reason)
{
	struct controller c = paced();
	uint64_t before;

	(void)steps(&c, 50, (struct trimmed){ .mib_usec = 500 });
	before = controller_trim_next(&c, NOW).bytes;
	controller_begin(&c);
	controller_trim_spent(&c, NOW, before, 40 * MSEC);
	ck_assert_uint_eq(controller_trim_next(&c, NOW).bytes, before);
	ck_assert_uint_le(controller_trim_next(&c, NOW).not_before_usec, NOW + USEC_PER_SEC);
}
END_TEST

START_TEST(nothing_free_needs_no_rest)
{
	struct controller c = paced();

	controller_begin(&c);
	controller_trim_spent(&c, NOW, 0, 20);
	ck_assert_uint_eq(controller_trim_next(&c, NOW).not_before_usec, NOW);
	/* Searching long is work. */
	controller_begin(&c);
	controller_trim_spent(&c, NOW, 0, 5 * MSEC);
	ck_assert_uint_ge(controller_trim_next(&c, NOW).not_before_usec, NOW + 20 * MSEC);
	ck_assert_uint_eq(controller_trim_next(&c, NOW).bytes, MiB(1));
}
END_TEST

START_TEST(none_in_a_gap_or_a_check)
{
	struct controller c = paced();

	c.gap = true;
	ck_assert_uint_eq(controller_trim_next(&c, NOW).not_before_usec, PACING_UNLIMITED);
	c.gap = false;
	c.mode = PACING_CHECK;
	ck_assert_uint_eq(controller_trim_next(&c, NOW).not_before_usec, PACING_UNLIMITED);
}
END_TEST

START_TEST(without_foreign_io_they_do_not_rest)
{
	struct controller c = fast();
	struct trimmed t = steps(&c, 50, (struct trimmed){ .mib_usec = 500 });

	ck_assert_uint_eq(t.busy_usec, t.now - NOW);
	c = paced();
	c.urgent = true;
	t = steps(&c, 50, (struct trimmed){ .mib_usec = 500 });
	ck_assert_uint_eq(t.busy_usec, t.now - NOW);
}
END_TEST

/* A program that begins its I/O waits for one of them. */
START_TEST(without_foreign_io_they_take_a_quarter_second)
{
	static const double speeds[] = { 5, 500, 5000, 100000 };

	for (size_t i = 0; i < ELEMENTSOF(speeds); i++) {
		struct controller c = fast();
		struct trimmed t = steps(&c, 50, (struct trimmed){ .mib_usec = speeds[i] });

		ck_assert_uint_le(t.longest_usec, 260 * MSEC);
		ck_assert_uint_ge(t.longest_usec, 75 * MSEC);
	}
}
END_TEST

/* What was free in the range says nothing of what would be in a larger one. */
START_TEST(little_that_is_free_does_not_make_them_larger)
{
	struct controller c = fast();

	for (unsigned i = 0; i < 50; i++) {
		controller_begin(&c);
		controller_trim_spent(&c, NOW, MiB(1), 1 * MSEC);
	}
	ck_assert_uint_eq(controller_trim_next(&c, NOW).bytes, MiB(256));
	c = paced();
	for (unsigned i = 0; i < 50; i++) {
		controller_begin(&c);
		controller_trim_spent(&c, NOW, KiB(64), 10);
	}
	ck_assert_uint_eq(controller_trim_next(&c, NOW).bytes, MiB(1));
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		first_step_is_small_beside_foreign_io,
		steps_rest_in_proportion,
		steps_rest_longer_where_reads_suffer,
		size_is_found_on_a_slow_device,
		size_is_found_on_a_fast_device,
		what_cannot_be_divided_is_rare,
		what_cannot_be_divided_is_cheap_there,
		large_run_teaches_the_size,
		single_slow_step_is_no_reason,
		nothing_free_needs_no_rest,
		none_in_a_gap_or_a_check,
		without_foreign_io_they_do_not_rest,
		without_foreign_io_they_take_a_quarter_second,
		little_that_is_free_does_not_make_them_larger,
	};

	return run_case("trim-steps", tests, ELEMENTSOF(tests));
}
