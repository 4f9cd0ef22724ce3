/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The controller on what the sensors of real runs said (tests/unit/traces, written with run
 * --trace): it decides again what it decided then, and that was right. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pacing/trace.h"
#include "support.h"
#include "base/macros.h"

struct replay {
	struct controller c;
	uint64_t began_usec, last_usec;
	unsigned work, same;       /* slices; in the mode in which they were then */
	unsigned fast, paced;      /* of them */
	uint64_t paced_after_usec; /* first paced slice, since the beginning */
	uint64_t fast_after_usec;  /* first slice at full speed */
	unsigned syncs, same_size; /* after which pieces became as large as they did then */

	/* Steps that pay the debt: paced ones, those before whose beginning the one before had not
	 * rested, and those after which steps became as large as they did then. */
	unsigned steps, hasty, same_step;
	uint64_t steps_cost_usec, steps_least, steps_most; /* of all of them; bytes of one */
};

/* It had been granted when it began. */
static void replay_step(struct replay *r, const struct trace_line *l)
{
	uint64_t began_usec = l->usec - l->cost_usec;
	struct pacing_grant g = controller_debt_next(&r->c, began_usec);
	bool counts = l->bytes > 0 && r->c.mode == PACING_PACED;

	controller_begin(&r->c);
	controller_debt_spent(&r->c, l->usec, l->bytes, l->cost_usec);
	if (!counts)
		return;
	r->steps_least = r->steps++ == 0 ? l->entries : MIN(r->steps_least, l->entries);
	r->steps_most = MAX(r->steps_most, l->entries);
	r->hasty += g.not_before_usec > began_usec || l->bytes > g.bytes;
	r->same_step += r->c.debt.limit == l->entries;
	r->steps_cost_usec += l->cost_usec;
}

static void replay_line(struct replay *r, const struct trace_line *l)
{
	switch (l->kind) {
	case 'o':
		controller_init(&r->c, &l->options, l->usec);
		r->began_usec = l->usec;
		return;
	case 's':
		(void)controller_sample(&r->c, &l->sample);
		(void)controller_wants_canary(&r->c);
		r->last_usec = l->sample.now_usec;
		return;
	case 'd':
		replay_step(r, l);
		return;
	case 'y':
		controller_synced(&r->c, l->usec, l->cost_usec);
		r->syncs++;
		r->same_size += r->c.bytes.limit == l->bytes && r->c.entries.limit == l->entries;
		return;
	default:
		controller_begin(&r->c);
		(void)controller_spent(&r->c, l->usec, l->entries, l->bytes, l->cost_usec);
		r->work++;
		r->same += r->c.mode == l->mode;
		if (r->c.mode == PACING_PACED && r->paced++ == 0)
			r->paced_after_usec = l->usec - r->began_usec;
		if (r->c.mode == PACING_FAST && r->fast++ == 0)
			r->fast_after_usec = l->usec - r->began_usec;
	}
}

static struct replay replay(const char *name)
{
	struct replay r = { 0 };
	struct trace_line l;
	char path[512], line[512];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", TRACES, name);
	f = fopen(path, "re");
	ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		ck_assert_msg(trace_parse(line, &l) == 0, "%s: %s", name, line);
		replay_line(&r, &l);
	}
	(void)fclose(f);
	return r;
}

/* Traces are of a simulated solid disk (tests/bench/interference), ext4 mounted with discard, a
 * file of 2 GiB; the foreground program reads 30 times and syncs 10 times a second. */

static void decides_again(const struct replay *r)
{
	ck_assert_uint_gt(r->work, 5);
	/* The mode may have changed between two lines. */
	ck_assert_uint_ge(r->same + 2, r->work);
	ck_assert_uint_ge(r->same_size * 10, r->syncs * 9);
}

START_TEST(with_foreign_io)
{
	struct replay r = replay("ssd-ext4-discard-busy.trace");

	decides_again(&r);
	ck_assert_uint_eq(r.fast, 0);
	ck_assert_uint_ge(r.syncs, 80);
	ck_assert_uint_le(r.c.bytes.limit, MiB(6));
	ck_assert_uint_ge(r.c.bytes.limit, MiB(1));
}
END_TEST

START_TEST(without_foreign_io)
{
	struct replay r = replay("ssd-ext4-discard-alone.trace");

	decides_again(&r);
	ck_assert_uint_eq(r.paced, 0);
	ck_assert_uint_le(r.fast_after_usec, 100 * USEC_PER_MSEC);
}
END_TEST

START_TEST(foreign_io_begins)
{
	struct replay r = replay("ssd-ext4-discard-comes.trace");

	decides_again(&r);
	ck_assert_uint_gt(r.fast, 0);
	ck_assert_int_eq(r.c.mode, PACING_PACED);
}
END_TEST

START_TEST(foreign_io_ends)
{
	struct replay r = replay("ssd-ext4-discard-leaves.trace");

	decides_again(&r);
	ck_assert_uint_gt(r.paced, 0);
	ck_assert_uint_gt(r.fast_after_usec, r.paced_after_usec);
	ck_assert_int_eq(r.c.mode, PACING_FAST);
}
END_TEST

/* One head, XFS, small files, the same foreground program. */
START_TEST(foreign_requests_go_first)
{
	struct replay r = replay("hdd-xfs-busy.trace");
	struct pacing_view view;

	decides_again(&r);
	controller_view(&r.c, &view);
	ck_assert(controller_yields(&r.c));
	ck_assert_uint_ge(view.quiet_sync_usec, 6 * USEC_PER_MSEC);
	ck_assert_uint_le(view.quiet_sync_usec, 9 * USEC_PER_MSEC);
}
END_TEST

/* One head, ext4, 30,000 small files, the same foreground program: what they leave dirty is written
 * back in steps, during the deletion and after it. */
START_TEST(debt_is_paid_in_steps)
{
	struct replay r = replay("hdd-ext4-debt.trace");

	decides_again(&r);
	ck_assert_uint_ge(r.steps, 50);
	/* Between two lines the mode may change, and with it what is granted. */
	ck_assert_uint_le(r.hasty * 20, r.steps);
	ck_assert_uint_ge(r.same_step * 10, r.steps * 9);
	/* As large as the disk bears: found out on the way. */
	ck_assert_uint_lt(r.steps_least, r.steps_most);
	ck_assert_uint_le(r.steps_cost_usec, r.steps * 8 * USEC_PER_MSEC);
}
END_TEST

START_TEST(nonsense_is_no_line)
{
	static const char *const lines[] = {
		"", "x", "s", "s 1 2 3", "w 1 2 3 4", "w 1 2 3 4 slow", "w a b c d fast", "o 1 2 3",
	};
	struct trace_line l;

	for (size_t i = 0; i < ELEMENTSOF(lines); i++)
		ck_assert_int_eq(trace_parse(lines[i], &l), -EBADMSG);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { with_foreign_io,           without_foreign_io,
				 foreign_io_begins,         foreign_io_ends,
				 foreign_requests_go_first, debt_is_paid_in_steps,
				 nonsense_is_no_line };

	return run_case("trace", tests, ELEMENTSOF(tests));
}
