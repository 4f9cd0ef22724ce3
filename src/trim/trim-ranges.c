/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-ranges.h"

#include <assert.h>

#include "base/macros.h"

/* Goes on to the area that the next range begins in. Returns its end, or 0 if there is none. */
static uint64_t area_enter(struct trim_ranges *r)
{
	size_t i = 0;

	if (!r->areas)
		return r->at < r->end ? r->end : 0;
	while (i < r->n_areas && r->areas[i].end <= r->at)
		i++;
	r->areas += i;
	r->n_areas -= i;
	if (r->n_areas == 0)
		return 0;
	r->at = MAX(r->at, r->areas->start);
	return r->areas->end;
}

static uint64_t unit_end(const struct trim_ranges *r, uint64_t at)
{
	uint64_t n;

	if (r->unit == 0)
		return UINT64_MAX;
	n = at < r->base ? 0 : (at - r->base) / r->unit;
	return n >= (UINT64_MAX - r->base) / r->unit ? UINT64_MAX : r->base + (n + 1) * r->unit;
}

static bool next_exact(struct trim_ranges *r, uint64_t most, struct trim_range *ret)
{
	uint64_t end = area_enter(r), left;

	if (end == 0)
		return false;
	end = MIN(end, unit_end(r, r->at));
	left = end - r->at;
	/* A rest that is smaller than a range is not worth a call of its own, nor allowed. */
	if (!r->whole_units && left > most && left - most >= TRIM_RANGE_LEAST)
		left = most;
	*ret = (struct trim_range){ .start = r->at, .bytes = left, .free = left };
	if (r->open && r->at + left >= r->end)
		ret->bytes = UINT64_MAX - r->at;
	return true;
}

/* A run that is longer than a range may be. Kernels that keep to the range would leave out a rest
 * that is below the least size. Returns whether the range has the run as a whole. */
static bool take_part(const struct trim_ranges *r, uint64_t start, uint64_t run_end, uint64_t most,
		      struct trim_range *ret)
{
	uint64_t part = MAX(most, r->least), all = run_end - start;

	ret->free = all;
	if (!r->whole_runs && all > part &&
	    all - part >= MAX(r->least, (uint64_t)TRIM_RANGE_LEAST)) {
		ret->free = part;
		ret->run_end = run_end;
	}
	ret->bytes = start + ret->free - ret->start;
	return ret->run_end == 0;
}

/* A range ends where the run begins that it has no room for. But one that has all runs of a block
 * group is to have the whole group, and no part of the next: only then does ext4 know the group to
 * be trimmed, so that the next trim leaves it out. */
static bool next_by_runs(struct trim_ranges *r, uint64_t most, struct trim_range *ret)
{
	uint64_t start, end, bytes, at = r->at, room = most, free_before = 0, unit_start = r->at;

	if (r->at >= r->end)
		return false;
	*ret = (struct trim_range){ .start = r->at };
	for (; r->next_run(r->userdata, at, &start, &end); at = end) {
		assert(start >= at && end >= start && end <= r->end);
		bytes = end - start;
		if (bytes > 0 && bytes < r->least)
			continue;
		if (start >= unit_end(r, unit_start)) {
			free_before = ret->free;
			unit_start = unit_end(r, start) - r->unit;
		}
		if (ret->free == 0 && bytes > 0 && !r->counts)
			ret->start = start;
		if (ret->free == 0 && bytes > most) {
			if (!take_part(r, start, end, most, ret))
				return true;
			room = 0;
			continue;
		}
		if (bytes == 0 || bytes > room) {
			ret->bytes = start - ret->start;
			if (free_before > 0 && bytes > 0) {
				ret->free = free_before;
				ret->bytes = unit_start - ret->start;
			}
			return true;
		}
		room -= bytes;
		ret->free += bytes;
	}
	ret->bytes = r->end - ret->start;
	return true;
}

bool trim_ranges_next(struct trim_ranges *r, uint64_t most_bytes, struct trim_range *ret)
{
	uint64_t most = MAX(most_bytes / TRIM_RANGE_LEAST, 1ULL) * TRIM_RANGE_LEAST;
	bool any = r->next_run ? next_by_runs(r, most, ret) : next_exact(r, most, ret);

	assert(!any || ret->bytes > 0);
	return any;
}

uint64_t trim_ranges_done(struct trim_ranges *r, const struct trim_range *range, uint64_t said)
{
	uint64_t end =
		range->bytes < UINT64_MAX - range->start ? range->start + range->bytes : UINT64_MAX;

	assert(range->start >= r->at && end > r->at);
	r->at = end;
	if (range->run_end == 0 || said <= (r->counts ? range->free : range->bytes))
		return r->counts ? said : MIN(said, range->free);
	/* This kernel went on to the end of the run; or of what it takes for the run, which ends
	 * where it has blocks in reserve. */
	r->whole_runs = true;
	r->at = MIN(end - range->free + said, range->run_end);
	return said;
}
