/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Is an open directory still inside the tree that is being deleted?
 *
 * A descriptor follows its directory wherever it is moved. A process that moves a subdirectory
 * out of a tree wants to keep it; a deleter that goes on through its descriptor would empty it all
 * the same. Where the kernel has Landlock it refuses that; this look-up does where it has not, and
 * where another host of a cluster filesystem has moved the tree, of which this kernel knows nothing
 * until it looks. */
#pragma once

/* Returns 1 if fd lies at or beneath `name` in dirfd, or is gone, 0 if it does not, a negative
 * errno if that cannot be told (-ENAMETOOLONG: deeper than PATH_MAX). */
int still_inside(int dirfd, const char *name, int fd);
