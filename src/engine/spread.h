/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* In which order the parts of a large file are freed where each of them is discarded by itself.
 *
 * ext4 merges what is freed side by side in one commit into one discard, and a device may let
 * nobody else in while it works on one. Parts that lie apart are discarded one after the other,
 * with room for others in between. A discard goes on into whatever is free behind the part, but not
 * beyond its block group. So parts are taken from the heads of many groups in turn, ascending in
 * each: small discards, of which none repeats another. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* So many extents are known at a time: 8 GiB of a file that is in one piece. */
#define SPREAD_EXTENTS 64

struct spread_extent {
	uint64_t group;
	uint64_t physical, logical, length; /* bytes; what is left of it */
};

/* Embedded by its user, all its own. */
struct spread {
	int fd;
	uint64_t group_bytes;
	uint64_t mapped; /* up to here the file has been looked at */
	size_t n, next;
	struct spread_extent v[SPREAD_EXTENTS]; /* by place on the device */
};

/* fd is the file's, and remains the caller's. */
void spread_init(struct spread *s, int fd);

/* Takes the next part, of at most `most` bytes, of what there is up to `size`. Returns 1, 0 when
 * there is no more, or a negative errno. Where the filesystem does not say where things are, it is
 * all one extent. */
int spread_next(struct spread *s, uint64_t size, uint64_t most, uint64_t *ret_offset,
		uint64_t *ret_length);

/* Adds an extent, cut where groups end. Returns how much of it found room. For spread_next, and for
 * tests. */
uint64_t spread_add(struct spread *s, uint64_t physical, uint64_t logical, uint64_t length);
