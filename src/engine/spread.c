/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spread.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "util/macros.h"

/* A group is as large as one block's bits can tell. */
static uint64_t group_bytes(int fd)
{
	struct statvfs st;
	uint64_t block = fstatvfs(fd, &st) < 0 || st.f_bsize == 0 ? KiB(4) : st.f_bsize;

	return block * block * 8;
}

void spread_init(struct spread *s, int fd)
{
	*s = (struct spread){ .fd = fd, .group_bytes = group_bytes(fd) };
}

uint64_t spread_add(struct spread *s, uint64_t physical, uint64_t logical, uint64_t length)
{
	uint64_t added = 0;

	while (added < length && s->n < SPREAD_EXTENTS) {
		uint64_t at = physical + added;
		uint64_t part = MIN(length - added, s->group_bytes - at % s->group_bytes);

		s->v[s->n++] = (struct spread_extent){ .group = at / s->group_bytes,
						       .physical = at,
						       .logical = logical + added,
						       .length = part };
		added += part;
	}
	return added;
}

static int by_place(const void *a, const void *b)
{
	const struct spread_extent *x = a, *y = b;

	return (x->physical > y->physical) - (x->physical < y->physical);
}

/* Looks at the next part of the file. */
static int map(struct spread *s, uint64_t size)
{
	struct {
		struct fiemap head;
		struct fiemap_extent v[SPREAD_EXTENTS];
	} m = { .head = { .fm_start = s->mapped,
			  .fm_length = size - s->mapped,
			  .fm_extent_count = SPREAD_EXTENTS } };

	s->n = s->next = 0;
	if (ioctl(s->fd, FS_IOC_FIEMAP, &m.head) < 0) {
		if (errno != EOPNOTSUPP && errno != ENOTTY && errno != EBADR)
			return -errno;
		s->v[s->n++] =
			(struct spread_extent){ .logical = s->mapped, .length = size - s->mapped };
		s->mapped = size;
		return 0;
	}
	/* What is no data any more has been freed already, or never was there. */
	for (unsigned i = 0; i < m.head.fm_mapped_extents && s->n < SPREAD_EXTENTS; i++) {
		const struct fiemap_extent *e = &m.v[i];
		uint64_t start = MAX((uint64_t)e->fe_logical, s->mapped);
		uint64_t end = MIN((uint64_t)(e->fe_logical + e->fe_length), size);

		if (start < end)
			s->mapped = start + spread_add(s, e->fe_physical + start - e->fe_logical,
						       start, end - start);
	}
	if (m.head.fm_mapped_extents == 0)
		s->mapped = size;
	qsort(s->v, s->n, sizeof(s->v[0]), by_place);
	return 0;
}

/* The first of its group of which something is left. */
static bool is_head(const struct spread *s, size_t i)
{
	if (s->v[i].length == 0)
		return false;
	while (i > 0 && s->v[i - 1].group == s->v[i].group)
		if (s->v[--i].length > 0)
			return false;
	return true;
}

int spread_next(struct spread *s, uint64_t size, uint64_t most, uint64_t *ret_offset,
		uint64_t *ret_length)
{
	for (;;) {
		for (size_t tried = 0; tried < s->n; tried++) {
			size_t i = s->next;
			struct spread_extent *e = &s->v[i];

			s->next = (s->next + 1) % s->n;
			if (!is_head(s, i))
				continue;
			*ret_offset = e->logical;
			*ret_length = MIN(most, e->length);
			e->logical += *ret_length;
			e->physical += *ret_length;
			e->length -= *ret_length;
			return 1;
		}
		if (s->mapped >= size)
			return 0;
		int r = map(s, size);
		if (r < 0)
			return r;
	}
}
