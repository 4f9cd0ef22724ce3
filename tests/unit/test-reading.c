/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A scan asks before it reads, with a pace that counts. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "pace.h"
#include "policy/scan/reading.h"
#include "policy/scan/scan.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

struct counting {
	struct pace pace;
	bool limited, open;
	unsigned begun, ended;
	uint64_t cost_usec, foreign_after; /* foreign I/O begins with that look */
};

static bool begin(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct counting *c = userdata;

	ck_assert(!*cancelled);
	ck_assert(!c->open);
	c->open = true;
	c->begun++;
	*ret = (struct pace_budget){ UINT64_MAX, UINT64_MAX };
	return true;
}

static bool spent(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	struct counting *c = userdata;

	ck_assert(c->open);
	ck_assert_uint_eq(entries + bytes, 0);
	c->open = false;
	c->ended++;
	c->cost_usec += cost_usec;
	return false;
}

static uint64_t step(void *userdata)
{
	struct counting *c = userdata;

	if (c->foreign_after > 0 && --c->foreign_after == 0)
		c->limited = true;
	return c->limited ? MiB(1) : UINT64_MAX;
}

static void counting_init(struct counting *c)
{
	*c = (struct counting){ .pace = { begin, spent, NULL, step, NULL, c } };
}

START_TEST(without_a_pace_nothing_is_asked)
{
	struct scan_reading r = { 0 };

	reading_go_on(&r);
	reading_end(&r);
	ck_assert(!r.open);
}
END_TEST

START_TEST(alone_it_asks_once)
{
	struct counting c;
	struct scan_reading r = { .pace = &c.pace };

	counting_init(&c);
	for (int i = 0; i < 1000; i++)
		reading_go_on(&r);
	ck_assert_uint_eq(c.begun, 1);
	c.limited = true;
	reading_go_on(&r);
	ck_assert_uint_eq(c.begun, 2);
	reading_end(&r);
	reading_end(&r);
	ck_assert_uint_eq(c.ended, 2);
}
END_TEST

static uint64_t cpu_usec(void)
{
	struct timespec ts;

	ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

static void work(uint64_t usec)
{
	for (uint64_t timespec_at = now_usec() + usec; now_usec() < timespec_at;)
		;
}

START_TEST(it_is_over_after_a_millisecond)
{
	struct counting c;
	struct scan_reading r = { .pace = &c.pace };
	uint64_t began = now_usec(), ran = cpu_usec();

	counting_init(&c);
	c.limited = true;
	for (int i = 0; i < 20; i++) {
		reading_go_on(&r);
		work(500);
	}
	reading_end(&r);
	/* On a busy machine each may take longer than that; none is shorter. */
	ck_assert_uint_ge(c.begun, 7);
	ck_assert_uint_le(c.begun, (now_usec() - began) / USEC_PER_MSEC + 1);
	ck_assert_uint_eq(c.begun, c.ended);
	/* While the processor was at work no device can have been. */
	ran = cpu_usec() - ran;
	ck_assert_uint_le(c.cost_usec + ran, now_usec() - began + 2 * USEC_PER_MSEC);
}
END_TEST

START_TEST(waiting_is_what_it_costs)
{
	struct counting c;
	struct scan_reading r = { .pace = &c.pace };

	counting_init(&c);
	reading_go_on(&r);
	(void)usleep(20000); /* a disk */
	reading_end(&r);
	ck_assert_uint_ge(c.cost_usec, 19 * USEC_PER_MSEC);
}
END_TEST

/* How many entries were found; foreign I/O begins with the foreign_after-th look. */
static size_t scan(struct counting *c, uint64_t foreign_after, enum policy_kind kind,
		   const char *pattern)
{
	char dir[64], match[16];
	char *matches[] = { match, NULL };
	struct policy p = { .path = dir, .match = matches, .kind = kind };
	const struct scan_by by = { .pace = &c->pace };
	struct scan s = SCAN_NONE;
	const char *where, *why;
	size_t n;
	int base;

	counting_init(c);
	c->foreign_after = foreign_after;
	(void)snprintf(match, sizeof(match), "%s", pattern);
	scratch_make(dir, sizeof(dir));
	tree_make(dir, "t/ t/u/ t/u/a t/u/b t/u/c t/u/d t/u/e t/u/f x y z");
	base = scan_base(dir);
	ck_assert_int_eq(scan_policy(&s, &p, base, &by, &where, &why), 0);
	(void)close(base);
	n = s.entries.n;
	scan_done(&s);
	scratch_remove(dir);
	ck_assert(!c->open);
	ck_assert_uint_eq(c->begun, c->ended);
	return n;
}

START_TEST(a_scan_asks)
{
	struct counting c;

	ck_assert_uint_eq(scan(&c, 0, POLICY_FILES, "*"), 3);
	ck_assert_uint_eq(c.begun, 1);
	/* Foreign I/O begins while it is at the files of a tree. */
	ck_assert_uint_eq(scan(&c, 8, POLICY_TREES, "t"), 1);
	ck_assert_uint_ge(c.begun, 2);
	ck_assert_uint_eq(scan(&c, 8, POLICY_FILES, "**"), 9);
	ck_assert_uint_ge(c.begun, 2);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { without_a_pace_nothing_is_asked, alone_it_asks_once,
				 it_is_over_after_a_millisecond, waiting_is_what_it_costs,
				 a_scan_asks };

	return run_case("reading", tests, ELEMENTSOF(tests));
}
