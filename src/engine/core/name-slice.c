/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-slice.h"

#include <assert.h>
#include <errno.h>

#include "base/macros.h"

uint32_t name_hash(const char *name)
{
	uint64_t h = 14695981039346656037ULL;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 1099511628211ULL;
	return (uint32_t)(h >> 32 ^ h);
}

static uint32_t slices_of(const struct name_slice *s)
{
	return MAX(s->slices, (uint16_t)1);
}

bool name_slice_has(const struct name_slice *s, const char *name)
{
	uint32_t h, part;

	if (s->slices <= 1 && s->parts == 0)
		return true;
	h = name_hash(name);
	if (h % slices_of(s) != s->slice)
		return false;
	part = s->parts > 0 ? h / slices_of(s) % s->parts : 0;
	return part == 0 || part > s->gone;
}

int name_slice_cut(struct name_slice *s, unsigned parts)
{
	/* With all of them gone, what is left is the first, and a slice by itself. */
	uint32_t before = s->gone > 0 ? s->parts : 1U;

	assert(parts > 1 && s->slice < slices_of(s));
	if (s->gone + 1U < before)
		return -EBUSY;
	if (parts > NAME_SLICES / slices_of(s) / before)
		return -E2BIG;
	*s = (struct name_slice){ .slice = s->slice,
				  .slices = (uint16_t)(slices_of(s) * before),
				  .parts = (uint16_t)parts };
	return 0;
}

struct name_slice name_slice_next(const struct name_slice *s)
{
	assert(s->gone + 1U < s->parts);
	return (struct name_slice){
		.slice = (uint16_t)(s->slice + (s->gone + 1U) * slices_of(s)),
		.slices = (uint16_t)(slices_of(s) * s->parts),
	};
}
