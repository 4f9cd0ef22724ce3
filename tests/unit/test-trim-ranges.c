/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ranges of free space: on an invented filesystem, with kernels of both kinds. */
#include <string.h>

#include "base/macros.h"
#include "support.h"
#include "trim/trim-ranges.h"

#define MOST ((uint64_t)MiB(1))
#define UNIT ((uint64_t)MiB(128))
#define BLOCK 4096ULL
#define RUNS_MOST 64

/* What is free, and what became of it. */
static struct {
	struct trim_area runs[RUNS_MOST];
	size_t n;
	uint64_t trimmed[RUNS_MOST]; /* bytes of each run, what was trimmed again counted again */
	unsigned calls;
	uint64_t largest;
	bool to_the_end; /* a run that begins in the range is trimmed to its end */
	bool whole_runs; /* a run of which a part is in the range is trimmed as a whole */
} disk;

static void disk_make(const struct trim_area *runs, size_t n)
{
	memset(&disk, 0, sizeof(disk));
	memcpy(disk.runs, runs, n * sizeof(*runs));
	disk.n = n;
	disk.to_the_end = true;
}

static bool next_run(void *userdata, uint64_t from, uint64_t *ret_start, uint64_t *ret_end)
{
	(void)userdata;
	for (size_t i = 0; i < disk.n; i++)
		if (disk.runs[i].end > from) {
			*ret_start = MAX(disk.runs[i].start, from);
			*ret_end = disk.runs[i].end;
			return true;
		}
	return false;
}

/* FITRIM, as kernels have it. */
static uint64_t trim(const struct trim_range *range, uint64_t least)
{
	uint64_t end =
		range->bytes < UINT64_MAX - range->start ? range->start + range->bytes : UINT64_MAX;
	uint64_t sum = 0;

	disk.calls++;
	for (size_t i = 0; i < disk.n; i++) {
		struct trim_area part = { MAX(disk.runs[i].start, range->start),
					  MIN(disk.runs[i].end, end) };

		if (part.start >= part.end)
			continue;
		if (disk.to_the_end)
			part.end = disk.runs[i].end;
		if (disk.whole_runs)
			part = disk.runs[i];
		if (part.end - part.start < least)
			continue;
		disk.trimmed[i] += part.end - part.start;
		sum += part.end - part.start;
	}
	disk.largest = MAX(disk.largest, sum);
	return sum;
}

static void pass(struct trim_ranges *r, uint64_t most)
{
	struct trim_range range;

	while (trim_ranges_next(r, most, &range)) {
		ck_assert_uint_ge(range.start, r->at);
		ck_assert_uint_ge(range.bytes, BLOCK);
		trim_ranges_done(r, &range, range.free > 0 ? trim(&range, r->least) : 0);
		ck_assert_uint_lt(disk.calls, 100000);
	}
}

/* Once, and as a whole. */
static void each_once(void)
{
	for (size_t i = 0; i < disk.n; i++)
		ck_assert_msg(disk.trimmed[i] == disk.runs[i].end - disk.runs[i].start,
			      "run %zu: %zu bytes of %zu", i, (size_t)disk.trimmed[i],
			      (size_t)(disk.runs[i].end - disk.runs[i].start));
}

static struct trim_ranges by_runs(void)
{
	return (struct trim_ranges){
		.end = 4 * UNIT, .unit = UNIT, .next_run = next_run, .counts = true
	};
}

static struct trim_ranges exact(void)
{
	return (struct trim_ranges){ .end = 4 * UNIT, .unit = UNIT, .counts = true };
}

static const struct trim_area mixed[] = {
	{ MiB(1), MiB(1) + KiB(4) },
	{ MiB(2), MiB(2) + KiB(500) },
	{ MiB(3), MiB(3) + KiB(600) },
	{ MiB(10), MiB(60) },
	{ MiB(61), MiB(128) },
	{ MiB(128), MiB(256) },
	{ MiB(300), MiB(300) + KiB(1100) },
	{ MiB(511), MiB(512) },
};

START_TEST(each_run_is_trimmed_once_by_new_kernels)
{
	struct trim_ranges r = by_runs();

	disk_make(mixed, ELEMENTSOF(mixed));
	pass(&r, MOST);
	each_once();
	ck_assert_uint_le(disk.calls, 8);
}
END_TEST

/* Those keep to the range: nothing is lost by it, and a step is as small as it may be. */
START_TEST(each_run_is_trimmed_once_by_old_kernels)
{
	struct trim_ranges r = by_runs();

	disk_make(mixed, ELEMENTSOF(mixed));
	disk.to_the_end = false;
	pass(&r, MOST);
	each_once();
	ck_assert_uint_le(disk.largest, MOST + KiB(128));
}
END_TEST

START_TEST(small_runs_share_a_range)
{
	struct trim_area runs[RUNS_MOST];
	struct trim_ranges r = by_runs();

	for (size_t i = 0; i < RUNS_MOST; i++)
		runs[i] = (struct trim_area){ MiB(i), MiB(i) + KiB(100) };
	disk_make(runs, RUNS_MOST);
	pass(&r, MOST);
	each_once();
	ck_assert_uint_le(disk.largest, MOST);
	ck_assert_uint_le(disk.calls, 8);
}
END_TEST

/* A range that has all runs of a group has the group: only then does the kernel know it to be
 * trimmed. */
START_TEST(ranges_leave_nothing_between_them)
{
	static const struct trim_area one[] = { { MiB(10), MiB(60) }, { MiB(140), MiB(150) } };
	struct trim_ranges r = by_runs();
	struct trim_range range;

	disk_make(one, ELEMENTSOF(one));
	ck_assert(trim_ranges_next(&r, MiB(55), &range));
	ck_assert_uint_eq(range.start, 0);
	ck_assert_uint_eq(range.bytes, UNIT);
	ck_assert_uint_eq(range.free, MiB(50));
	trim_ranges_done(&r, &range, MiB(50));
	ck_assert(trim_ranges_next(&r, MiB(55), &range));
	ck_assert_uint_eq(range.start + range.bytes, r.end);
	trim_ranges_done(&r, &range, MiB(10));
	ck_assert(!trim_ranges_next(&r, MiB(55), &range));
}
END_TEST

START_TEST(full_filesystem_needs_no_call)
{
	struct trim_ranges r = by_runs();

	disk_make(mixed, 0);
	pass(&r, MOST);
	ck_assert_uint_eq(disk.calls, 0);
}
END_TEST

/* Pieces of a run that are below the least size would be left out. */
START_TEST(runs_are_not_cut_below_the_least_size)
{
	static const struct trim_area runs[] = { { 0, MiB(9) }, { MiB(20), MiB(23) } };
	struct trim_ranges r = by_runs();

	disk_make(runs, ELEMENTSOF(runs));
	disk.to_the_end = false;
	r.least = MiB(4);
	pass(&r, MOST);
	ck_assert_uint_eq(disk.trimmed[0], MiB(9));
	ck_assert_uint_eq(disk.trimmed[1], 0);
}
END_TEST

START_TEST(exact_ranges_are_as_small_as_asked)
{
	struct trim_ranges r = exact();

	disk_make(mixed, ELEMENTSOF(mixed));
	disk.to_the_end = false;
	pass(&r, MOST);
	each_once();
	ck_assert_uint_le(disk.largest, MOST);
}
END_TEST

/* XFS before Linux 6.11 trims a run as a whole that is in part in the range, and says so; later it
 * keeps to the range, and says its length whatever was free. */
START_TEST(each_run_is_trimmed_once_by_xfs)
{
	struct trim_ranges r = by_runs();
	struct trim_range range;
	uint64_t sum = 0, free = 0;

	disk_make(mixed, ELEMENTSOF(mixed));
	disk.to_the_end = false;
	disk.whole_runs = true;
	r.counts = false;
	r.unit = 0;
	pass(&r, MOST);
	each_once();
	ck_assert(r.whole_runs);

	disk.whole_runs = false;
	r = by_runs();
	r.counts = false;
	r.unit = 0;
	memset(disk.trimmed, 0, sizeof(disk.trimmed));
	while (trim_ranges_next(&r, MOST, &range)) {
		(void)(range.free > 0 ? trim(&range, 0) : 0);
		sum += trim_ranges_done(&r, &range, range.free > 0 ? range.bytes : 0);
	}
	each_once();
	ck_assert(!r.whole_runs);
	for (size_t i = 0; i < disk.n; i++)
		free += disk.runs[i].end - disk.runs[i].start;
	ck_assert_uint_eq(sum, free);
}
END_TEST

/* What is free in the next group is left for a range of its own, if it has no room here. */
START_TEST(ranges_end_with_groups)
{
	static const struct trim_area runs[] = { { MiB(10), MiB(11) },
						 { MiB(140), MiB(141) },
						 { MiB(150), MiB(153) } };
	struct trim_ranges r = by_runs();
	struct trim_range range;

	disk_make(runs, ELEMENTSOF(runs));
	ck_assert(trim_ranges_next(&r, MiB(4), &range));
	ck_assert_uint_eq(range.bytes, UNIT);
	ck_assert_uint_eq(range.free, MiB(1));
	trim_ranges_done(&r, &range, MiB(1));
	ck_assert(trim_ranges_next(&r, MiB(4), &range));
	ck_assert_uint_eq(range.start, UNIT);
	ck_assert_uint_eq(range.free, MiB(4));
	ck_assert_uint_eq(range.start + range.bytes, r.end);
}
END_TEST

/* A group that is one run is asked for as a whole once it is known that it is trimmed so. */
START_TEST(whole_runs_have_whole_groups)
{
	static const struct trim_area runs[] = { { MiB(1), MiB(127) }, { MiB(129), MiB(255) } };
	struct trim_ranges r = by_runs();
	struct trim_range range;

	disk_make(runs, ELEMENTSOF(runs));
	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.bytes, MiB(2));
	trim_ranges_done(&r, &range, trim(&range, 0));
	ck_assert_uint_eq(r.at, MiB(127));
	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.start + range.bytes, r.end);
	ck_assert_uint_eq(range.free, MiB(126));
}
END_TEST

/* Chunks of btrfs: as a whole, whatever is said of what was trimmed in them. */
START_TEST(areas_alone_are_asked_for)
{
	static const struct trim_area chunks[] = { { MiB(16), MiB(24) },
						   { MiB(24), MiB(32) },
						   { MiB(4096), MiB(4100) } };
	struct trim_ranges r = {
		.end = MiB(4100), .areas = chunks, .n_areas = 3, .whole_units = true, .counts = true
	};
	struct trim_range range;

	for (size_t i = 0; i < 3; i++) {
		ck_assert(trim_ranges_next(&r, MOST, &range));
		ck_assert_uint_eq(range.start, chunks[i].start);
		ck_assert_uint_eq(range.start + range.bytes, chunks[i].end);
		ck_assert_uint_eq(trim_ranges_done(&r, &range, MiB(100)), MiB(100));
	}
	ck_assert(!trim_ranges_next(&r, MOST, &range));
}
END_TEST

START_TEST(whole_units_are_not_divided)
{
	struct trim_ranges r = {
		.end = UINT64_MAX, .base = 1024, .unit = MiB(8), .whole_units = true
	};
	struct trim_range range;

	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.bytes, MiB(8) + 1024);
	trim_ranges_done(&r, &range, 0);
	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.start, MiB(8) + 1024);
	ck_assert_uint_eq(range.bytes, MiB(8));
}
END_TEST

START_TEST(what_cannot_be_divided_is_one_range)
{
	struct trim_ranges r = { .end = UINT64_MAX, .whole_units = true };
	struct trim_range range;

	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.start, 0);
	ck_assert_uint_eq(range.bytes, UINT64_MAX);
	trim_ranges_done(&r, &range, 12345);
	ck_assert(!trim_ranges_next(&r, MOST, &range));
}
END_TEST

/* What statfs(2) says of the size is less than there are addresses. */
START_TEST(last_range_is_open)
{
	struct trim_ranges r = { .end = MiB(2), .open = true };
	struct trim_range range;

	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.bytes, MiB(1));
	trim_ranges_done(&r, &range, 0);
	ck_assert(trim_ranges_next(&r, MOST, &range));
	ck_assert_uint_eq(range.bytes, UINT64_MAX - MiB(1));
	trim_ranges_done(&r, &range, 0);
	ck_assert(!trim_ranges_next(&r, MOST, &range));
}
END_TEST

/* What the kernel takes for a run ends where blocks are in reserve for a file that grows. */
START_TEST(reserve_in_a_run_has_little_trimmed_twice)
{
	static const struct trim_area kernels[] = { { 0, MiB(50) }, { MiB(51), MiB(100) } };
	static const struct trim_area one[] = { { 0, MiB(100) } };
	struct trim_ranges r = by_runs();
	struct trim_range range;

	disk_make(kernels, ELEMENTSOF(kernels));
	while (r.next_run = next_run, r.at < r.end) {
		/* The bitmap has one run, the kernel two. */
		memcpy(disk.runs, one, sizeof(one));
		disk.n = 1;
		if (!trim_ranges_next(&r, MOST, &range))
			break;
		memcpy(disk.runs, kernels, sizeof(kernels));
		disk.n = 2;
		trim_ranges_done(&r, &range, range.free > 0 ? trim(&range, 0) : 0);
	}
	ck_assert_uint_ge(disk.trimmed[0], MiB(50));
	ck_assert_uint_ge(disk.trimmed[1], MiB(49));
	ck_assert_uint_le(disk.trimmed[0] + disk.trimmed[1], MiB(100));
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		each_run_is_trimmed_once_by_new_kernels,
		each_run_is_trimmed_once_by_old_kernels,
		small_runs_share_a_range,
		ranges_leave_nothing_between_them,
		full_filesystem_needs_no_call,
		runs_are_not_cut_below_the_least_size,
		exact_ranges_are_as_small_as_asked,
		each_run_is_trimmed_once_by_xfs,
		ranges_end_with_groups,
		whole_runs_have_whole_groups,
		areas_alone_are_asked_for,
		whole_units_are_not_divided,
		what_cannot_be_divided_is_one_range,
		last_range_is_open,
		reserve_in_a_run_has_little_trimmed_twice,
	};

	return run_case("trim-ranges", tests, ELEMENTSOF(tests));
}
