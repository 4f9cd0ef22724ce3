/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where files lie on the disk. ext4 mounted with discard trims all free blocks behind what it
 * frees, so files are to go in the order of their blocks. Inode numbers are a proxy for that, and a
 * poor one: which blocks a file gets is decided when it is written back. What is freed in the order
 * of blocks is also merged by the kernel into few runs, each of which is trimmed once, however many
 * commits it takes (Linux 6.12 merges what is freed in any order, 7.3 for sure only what is freed
 * in ascending order).
 *
 * A file is asked for its map, for which it has to be open. That is done only for a regular file
 * that the caller may read, by its pinned inode; whatever cannot be asked stays in the order of
 * inodes. The order is a help, never needed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dirlist;
struct slice;

/* Embedded by its users; all zero to begin with. What asking has cost so far. */
struct places {
	uint64_t asked, usec;
};

/* Whether asking is still worth what it costs. */
bool places_worth(const struct places *p);

/* Orders the first n entries of a list, which are in the order of their inodes, none of them a
 * directory: those without a known place as they are, then the others by where they begin. The
 * inode numbers in the list are lost. Ends early where the slice, the caller's and open if there is
 * a pace, is cancelled; the list is whole all the same. */
void places_order(struct places *p, int dirfd, struct dirlist *l, size_t n, struct slice *slice);
