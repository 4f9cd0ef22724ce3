/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Is an open directory still inside the tree that is being deleted?
 *
 * A descriptor follows its directory wherever it is moved. A process that moves a subdirectory
 * out of a tree wants to keep it; a deleter that goes on through its descriptor would empty it all
 * the same. Where the kernel has Landlock it refuses that; this look-up does where it has not, and
 * where another host of a cluster filesystem has moved the tree, of which this kernel knows nothing
 * until it looks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the lanes of a run behind a server know of a tree together: each look for its name may be a
 * round trip there, and all of them want to know the same. One tree at a time; for another one,
 * each lane looks by itself. Thread-safe. */
struct tree_look;

/* NULL if memory is out: then each lane looks by itself, too. Takes NULL. */
struct tree_look *tree_look_new(void);
struct tree_look *tree_look_free(struct tree_look *l);

/* Is there a `name` in dirfd, as far as looks tell that are not older than 5 ms, or ten times what
 * the last one took, but a second at most? While another lane looks, that may be exceeded by a
 * second. now_usec is now_usec(). */
bool tree_look_has(struct tree_look *l, uint64_t now_usec, int dirfd, const char *name);

/* l: what the run's lanes know together; NULL: this one looks by itself. Returns 1 if fd lies at or
 * beneath `name` in dirfd, or is gone, 0 if it does not, a negative errno if that cannot be told
 * (-ENAMETOOLONG: deeper than PATH_MAX). */
int still_inside(struct tree_look *l, int dirfd, const char *name, int fd);
