/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files with several names: deleting one of them frees nothing until its last name goes, so it
 * matters whether all of them lie inside what is to be deleted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Embedded by its users; all zero is an empty one. */
struct links {
	void *index; /* tsearch(3) */
	size_t n;
};

/* Takes note of one more name of a file. Returns how many of its names were seen by now; 0 if that
 * is not known any more, because there are too many such files or memory is out. */
uint32_t links_add(struct links *l, uint64_t dev, uint64_t ino);
void links_done(struct links *l);
