/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which levels of a walk keep their directory open.
 *
 * A tree may be a million levels deep while a process may have 64 descriptors, and ".." is never
 * used (I2). So some levels on the way down stay open, and on the way up a level that was closed is
 * opened again by walking down from the nearest open one. Where the anchors stand decides the cost:
 * on the way down they are spaced evenly (the spacing doubles when they run out, as the depth is
 * not known); on the way up each gap is bridged with the placement that Griewank and Walther proved
 * best for reversing a computation with few checkpoints (ACM TOMS 26, 2000, algorithm 799,
 * "revolve"): with s free descriptors and r visits to each level, gaps of C(s+r, s) levels can be
 * climbed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct anchor {
	uint64_t level;
	uint64_t frame; /* the level's frame in the walker's stack */
	int fd;
	bool borrowed; /* not closed here */
};

/* Ordered by level, the deepest last. All zero is empty, but needs anchors_init. */
struct anchors {
	struct anchor *v;
	size_t n, max;
	uint64_t spacing;
};

int anchors_init(struct anchors *a, size_t max);
void anchors_done(struct anchors *a);

/* Opens up room for one more; `drop` is called for each anchor that is to go, before its descriptor
 * is closed, and returns false if it has to stay. If all have to, there is no room. */
void anchors_thin(struct anchors *a, bool (*drop)(void *userdata, const struct anchor *v),
		  void *userdata);

/* Adds one in its place. There must be room (n < max). Takes over fd unless borrowed. */
void anchors_push(struct anchors *a, uint64_t level, uint64_t frame, int fd, bool borrowed);

/* Closes and removes the deepest. */
void anchors_pop(struct anchors *a);

/* The descriptor of a level, or -1 if it is not open. */
int anchors_fd(const struct anchors *a, uint64_t level);

/* Pure: how far above an open level the next anchor goes if `gap` levels are to be climbed with
 * `slots` free ones (the last of which is for the gap's end itself). At least 1, at most gap. */
uint64_t anchors_stride(uint64_t gap, size_t slots);
