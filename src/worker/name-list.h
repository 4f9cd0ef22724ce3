/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A list of names, read once from its beginning to its end: out of the message that it came with,
 * or out of a file, of which never more than a chunk is in memory. A file is another process's,
 * which may write to it or cut it off meanwhile: it is read, not mapped, and one whose size changes
 * is refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The longest that is looked for: what fits into a path, with what comes before it. */
#define NAME_LIST_CHUNK ((size_t)64 << 10)

struct name_list {
	char *at;    /* what is not read yet of ... */
	size_t left; /* ... the message or the chunk */
	int fd;      /* the file; -1: none. Not ours. */
	uint64_t offset, size;
	char *chunk;
};

/* Takes the names of a message, or with fd >= 0 those of a file. Returns 0, -EINVAL if that is not
 * a regular file, -E2BIG if it has more than `most` bytes, or another negative errno. */
int name_list_open(struct name_list *l, char *names, size_t len, int fd, uint64_t most);
void name_list_done(struct name_list *l);

/* The next one, ended by a NUL, with `head` bytes before it that may be anything; valid until the
 * next call, and the caller's to change. Returns 1; 0 at the end; -ENAMETOOLONG; -EBADMSG if the
 * list ends in the midst of one; -ESTALE if the file is not as long any more as it was, or is
 * longer; or what reading it says. */
int name_list_next(struct name_list *l, size_t head, char **ret);
