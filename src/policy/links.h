/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files with several names. Deleting a name frees nothing until the last name of the file is
 * deleted, so the space that a deletion frees depends on the whole set of names that it deletes.
 *
 * A table has one file for each inode, found by device and inode number. Its user counts the names
 * that it has met, or that are in the set. The policies keep such a table for their entries
 * (entries.h), and `reclaimctl plan` keeps one for a tree. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_file {
	uint64_t ino, bytes;
	uint32_t dev;   /* as link_dev packs it */
	uint32_t nlink; /* number of names that the file has anywhere */
	uint32_t names; /* number of names that the user of the table has counted */
};

/* All zero is an empty table. */
struct links {
	struct link_file *v;
	size_t n;
	uint32_t *slots; /* a hash table of indexes into v, plus 1; 0 for a free slot */
	size_t n_slots;  /* a power of two, or 0 */
};

/* Packs a device number as the kernel does, with 12 bits of the major number and 20 of the minor.
 */
uint32_t link_dev(uint32_t major, uint32_t minor);

/* Finds the file of `f`, or adds it without any name. nlink and bytes become the larger of those
 * known and those of `f`. Returns NULL if out of memory, or if the table already has `most` files.
 * The result is valid until the next call. */
struct link_file *links_file(struct links *l, const struct link_file *f, size_t most);

/* Returns true if all names of the file have been counted, so that the file is freed. */
static inline bool link_is_freed(const struct link_file *f)
{
	return f->names >= f->nlink;
}

/* Forgets all files, and keeps the memory for the next ones unless it is large. */
void links_clear(struct links *l);
void links_done(struct links *l);
