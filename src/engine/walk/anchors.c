/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "anchors.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/fd.h"

/* The deepest anchors that thinning leaves alone: a walk moves up and down there all the time. */
#define RECENT 4

int anchors_init(struct anchors *a, size_t max)
{
	a->max = MAX(max, (size_t)(RECENT * 2));
	a->v = calloc(a->max, sizeof(*a->v));
	a->spacing = 1;
	return a->v ? 0 : -ENOMEM;
}

void anchors_done(struct anchors *a)
{
	while (a->n > 0)
		anchors_pop(a);
	free(a->v);
	a->v = NULL;
}

/* Removes what does not stand on a multiple of the spacing. */
static void keep_multiples(struct anchors *a, bool (*drop)(void *userdata, const struct anchor *v),
			   void *userdata)
{
	size_t n = 0, settled = a->n > RECENT ? a->n - RECENT : 0;

	for (size_t i = 0; i < a->n; i++) {
		struct anchor *v = &a->v[i];

		if (i < settled && !v->borrowed && v->level % a->spacing != 0 &&
		    drop(userdata, v)) {
			fd_closep(&v->fd);
			continue;
		}
		a->v[n++] = *v;
	}
	a->n = n;
}

void anchors_thin(struct anchors *a, bool (*drop)(void *userdata, const struct anchor *v),
		  void *userdata)
{
	/* Down to a third, so that two thirds are there for the way up and that thinning is rare.
	 */
	keep_multiples(a, drop, userdata);
	while (a->n > MAX(a->max / 3, (size_t)(RECENT + 2)) && a->spacing < UINT64_MAX / 2) {
		a->spacing *= 2;
		keep_multiples(a, drop, userdata);
	}
}

void anchors_push(struct anchors *a, uint64_t level, uint64_t frame, int fd, bool borrowed)
{
	size_t i = a->n++;

	assert(a->n <= a->max);
	for (; i > 0 && a->v[i - 1].level > level; i--)
		a->v[i] = a->v[i - 1];
	a->v[i] = (struct anchor){ .level = level, .frame = frame, .fd = fd, .borrowed = borrowed };
}

void anchors_pop(struct anchors *a)
{
	struct anchor *v = &a->v[--a->n];

	assert(a->n < a->max);
	if (!v->borrowed)
		fd_closep(&v->fd);
	if (a->n <= 1)
		a->spacing = 1;
}

int anchors_fd(const struct anchors *a, uint64_t level)
{
	for (size_t i = a->n; i > 0 && a->v[i - 1].level >= level; i--)
		if (a->v[i - 1].level == level)
			return a->v[i - 1].fd;
	return -1;
}

/* C(s + r, s), saturating. */
static uint64_t reach(size_t s, size_t r)
{
	uint64_t c = 1;

	for (size_t i = 1; i <= r; i++) {
		if (c > UINT64_MAX / (s + i))
			return UINT64_MAX;
		c = c * (s + i) / i;
	}
	return c;
}

uint64_t anchors_stride(uint64_t gap, size_t slots)
{
	size_t r = 1;

	if (gap <= 1 || slots <= 1)
		return gap;
	while (reach(slots, r) < gap)
		r++;
	return CLAMP(reach(slots, r - 1), 1, gap - 1);
}
