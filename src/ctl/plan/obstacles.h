/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What in a tree cannot be deleted by the caller, and why: counted, with a few examples. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define OBSTACLES_SHOWN 10

/* What the kernel will ask about whoever deletes. */
struct caller {
	uid_t euid;
	bool fowner; /* has CAP_FOWNER: sticky directories do not hold it back */
};

struct obstacle {
	char *path;
	char reason[96];
};

/* Embedded by its users; all zero is an empty one. */
struct obstacles {
	struct obstacle v[OBSTACLES_SHOWN];
	size_t n;
};

void caller_find(struct caller *ret);

/* Why nothing can be deleted in the directory open as fd (O_PATH will do), whose attributes are
 * sx: NULL if something can. */
const char *obstacle_in_directory(int fd, const struct statx *sx);

/* Why the entry with these attributes cannot be deleted itself; NULL if it can. sticky and
 * owner are its directory's. */
const char *obstacle_of_entry(const struct caller *c, const struct statx *sx, bool sticky,
			      uid_t owner);

/* Keeps an example, if there is room and memory for it; the words of a negative error follow the
 * reason. */
void obstacles_add(struct obstacles *o, const char *path, const char *reason, int error);
void obstacles_done(struct obstacles *o);
