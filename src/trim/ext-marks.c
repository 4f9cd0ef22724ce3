/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ext-marks.h"

#include <assert.h>
#include <string.h>

#include "base/macros.h"

bool ext_marks_trimmed(struct ext_marks *m, const struct ext_runs *r, uint64_t from, uint64_t at)
{
	const struct ext_group *g = &r->group;
	bool over = m->end > 0 && at >= m->end;

	if (over)
		return true;
	/* It ends within a group of which it had all that is before. */
	if (m->end == 0 && at > g->start && at < g->end && from <= g->start && !r->whole) {
		m->start = g->start;
		m->end = g->end;
		memcpy(m->bitmap, r->bitmap, sizeof(m->bitmap));
	}
	return false;
}

/* Reads the bitmap again. Returns false if it cannot be. */
static bool look_again(const struct ext_marks *m, struct ext_runs *r)
{
	uint64_t start, end;

	r->group = (struct ext_group){ 0 };
	return ext_runs_next(r, m->start, &start, &end) && r->group.start == m->start && !r->whole;
}

/* What is free now and was not. Returns false if there is none. */
static bool freed_since(const struct ext_marks *m, const struct ext_runs *r, uint64_t *ret_start,
			uint64_t *ret_end)
{
	uint64_t cluster = r->metadata.cluster, bits = (m->end - m->start + cluster - 1) / cluster;
	bool any = false;

	for (uint64_t bit = 0; bit < bits; bit++) {
		if (!(m->bitmap[bit / 8] & ~r->bitmap[bit / 8] & 1U << bit % 8))
			continue;
		if (!any)
			*ret_start = m->start + bit * cluster;
		*ret_end = MIN(m->start + (bit + 1) * cluster, m->end);
		any = true;
	}
	return any;
}

/* Bytes of the longest run, and of all. */
static uint64_t longest_run(const struct ext_marks *m, struct ext_runs *r, uint64_t *ret_all)
{
	uint64_t start, end, longest = 0;

	*ret_all = 0;
	for (uint64_t at = m->start;
	     at < m->end && ext_runs_next(r, at, &start, &end) && start < m->end; at = end) {
		longest = MAX(longest, end - start);
		*ret_all += end - start;
	}
	return longest;
}

bool ext_marks_begin(struct ext_marks *m, struct ext_runs *r, struct ext_marks_call *ret)
{
	uint64_t freed_start, freed_end, all, longest;

	assert(m->end > 0);
	if (look_again(m, r) && !freed_since(m, r, &freed_start, &freed_end)) {
		*ret = (struct ext_marks_call){ m->start, m->end - m->start, 0 };
		longest = longest_run(m, r, &all);
		ret->min_bytes = longest + r->metadata.cluster;
		/* Groups with less free than that are not looked at. */
		if (longest > 0 && all >= ret->min_bytes)
			return true;
	}
	m->start = m->end = 0;
	return false;
}

void ext_marks_end(struct ext_marks *m, struct ext_runs *r, uint64_t min_bytes,
		   struct ext_marks_call *ret)
{
	uint64_t start, end;

	/* The superblock, and the descriptors behind it. */
	*ret = (struct ext_marks_call){ r->metadata.first, 2 * (uint64_t)r->metadata.block,
					min_bytes };
	if (look_again(m, r) && freed_since(m, r, &start, &end)) {
		ret->start = start;
		ret->bytes = end - start;
	}
	m->start = m->end = 0;
}
