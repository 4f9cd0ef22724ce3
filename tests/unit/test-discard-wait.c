/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The wait for the discards of a piece: it ends when they have come, or none is coming. */
#include "pacing/sensors/discard-wait.h"
#include "support.h"
#include "base/macros.h"

#define MSEC USEC_PER_MSEC
#define NOW (1000 * MSEC)
#define LOOK 100
#define MEBIBYTE ((uint64_t)1 << 20)
/* Of earlier pieces. */
#define BASE (100 * MEBIBYTE)

/* A device that is handed one discard: nothing is said of it before it is done. */
struct device {
	uint64_t issued, done; /* usec after the sync; at 0 there is none */
	uint64_t bytes;
	uint64_t foreign; /* in flight, every other millisecond */
};

static uint64_t looks(struct discard_wait *w, const struct device *d, uint64_t freed)
{
	uint64_t now = NOW, since = 0;
	bool more = true;

	*w = (struct discard_wait){ .base_bytes = BASE };
	discard_wait_begin(w, now, freed);
	for (; more && since < 2 * USEC_PER_SEC; since += LOOK) {
		bool under_way = since >= d->issued && since < d->done;
		uint64_t foreign = since / MSEC % 2 ? d->foreign : 0;

		more = discard_wait_poll(w, now + since,
					 BASE + (d->done && since >= d->done ? d->bytes : 0),
					 under_way + foreign);
	}
	return since;
}

START_TEST(a_small_one_is_its_own_time)
{
	struct device d = { .issued = 300, .done = 1300, .bytes = 2 * MEBIBYTE };
	struct discard_wait w;

	ck_assert_uint_lt(looks(&w, &d, 2 * MEBIBYTE), 3 * MSEC);
	ck_assert_uint_eq(discard_wait_cost_usec(&w), 1300);
}
END_TEST

/* The larger it is, the longer nothing is heard of it. */
START_TEST(a_large_one_is_not_given_up)
{
	struct device d = { .issued = 300, .done = 32300, .bytes = 64 * MEBIBYTE };
	struct discard_wait w;

	(void)looks(&w, &d, 64 * MEBIBYTE);
	ck_assert_uint_eq(discard_wait_cost_usec(&w), 32300);
}
END_TEST

START_TEST(none_is_coming)
{
	struct device idle = { 0 }, busy = { .foreign = 3 };
	struct discard_wait w;

	ck_assert_uint_lt(looks(&w, &idle, MEBIBYTE), 5 * MSEC);
	ck_assert_uint_eq(discard_wait_cost_usec(&w), 0);
	ck_assert_uint_lt(looks(&w, &busy, MEBIBYTE), 6 * MSEC);
	ck_assert_uint_eq(discard_wait_cost_usec(&w), 0);
}
END_TEST

/* Who never lets the device rest does not stop us for good. */
START_TEST(it_ends)
{
	struct device d = { .issued = 0, .done = 10 * USEC_PER_SEC, .bytes = MEBIBYTE };
	struct discard_wait w;

	ck_assert_uint_lt(looks(&w, &d, MEBIBYTE), USEC_PER_SEC);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_small_one_is_its_own_time, a_large_one_is_not_given_up,
				 none_is_coming, it_ends };

	return run_case("discard-wait", tests, ELEMENTSOF(tests));
}
