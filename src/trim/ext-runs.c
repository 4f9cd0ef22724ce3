/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ext-runs.h"

#include <assert.h>
#include <unistd.h>

#include "base/macros.h"

/* So many bitmaps are read before the caller is asked whether to go on. */
#define GROUPS_MOST 64

int ext_runs_open(struct ext_runs *r, int fd, uint64_t size)
{
	r->group = (struct ext_group){ 0 };
	return ext_metadata_open(&r->metadata, fd, size);
}

static bool is_used(const struct ext_runs *r, uint64_t bit)
{
	return r->bitmap[bit / 8] >> bit % 8 & 1;
}

/* The first bit from there on that is so, or `end`. */
static uint64_t seek(const struct ext_runs *r, uint64_t bit, uint64_t end, bool used)
{
	uint8_t none = used ? 0x00 : 0xff;

	while (bit < end && is_used(r, bit) != used)
		bit += bit % 8 == 0 && r->bitmap[bit / 8] == none ? 8 : 1;
	return MIN(bit, end);
}

/* Reads what is free in a group. */
static void load(struct ext_runs *r, uint64_t number)
{
	struct ext_metadata *m = &r->metadata;
	uint64_t bits;

	r->whole = ext_metadata_group(m, number, &r->group) < 0;
	if (r->whole) {
		r->group = (struct ext_group){ .start = m->first + number * m->group_bytes,
					       .free = 1 };
		r->group.end = MIN(r->group.start + m->group_bytes, m->end);
	}
	bits = (r->group.end - r->group.start + m->cluster - 1) / m->cluster;
	/* Its metadata is at most some blocks at its beginning, of which the kernel knows. */
	r->whole = r->whole || r->group.unused || bits > 8 * (uint64_t)m->block ||
		   (r->group.free > 0 &&
		    pread(m->fd, r->bitmap, m->block, (off_t)r->group.bitmap) != (ssize_t)m->block);
}

/* In the group that was read. */
static bool run_in_group(const struct ext_runs *r, uint64_t from, uint64_t *ret_start,
			 uint64_t *ret_end)
{
	const struct ext_group *g = &r->group;
	uint64_t cluster = r->metadata.cluster, bits, start, end;

	assert(from >= g->start && from < g->end);
	if (g->free == 0)
		return false;
	if (r->whole) {
		*ret_start = from;
		*ret_end = g->end;
		return true;
	}
	bits = (g->end - g->start + cluster - 1) / cluster;
	start = seek(r, (from - g->start) / cluster, bits, false);
	if (start == bits)
		return false;
	end = seek(r, start, bits, true);
	*ret_start = MAX(from, g->start + start * cluster);
	*ret_end = MIN(g->start + end * cluster, g->end);
	return true;
}

bool ext_runs_next(void *runs, uint64_t from, uint64_t *ret_start, uint64_t *ret_end)
{
	struct ext_runs *r = runs;
	const struct ext_metadata *m = &r->metadata;

	from = MAX(from, m->first);
	for (unsigned n = 0; from < m->end; from = r->group.end) {
		if (from < r->group.start || from >= r->group.end) {
			if (n++ == GROUPS_MOST) {
				*ret_start = *ret_end = from;
				return true;
			}
			load(r, (from - m->first) / m->group_bytes);
		}
		if (run_in_group(r, from, ret_start, ret_end))
			return true;
	}
	return false;
}
