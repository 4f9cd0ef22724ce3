/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-list.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "wire/records.h"

_Static_assert(NAME_LIST_CHUNK > PATH_MAX + sizeof(struct record_header), "a record fits");

int name_list_open(struct name_list *l, char *names, size_t len, int fd, uint64_t most)
{
	struct stat st;

	*l = (struct name_list){ .at = names, .left = len, .fd = fd };
	if (fd < 0)
		return len > most ? -E2BIG : 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < 0)
		return -EINVAL;
	if ((uint64_t)st.st_size > most)
		return -E2BIG;
	l->size = (uint64_t)st.st_size;
	l->left = 0;
	l->chunk = malloc(NAME_LIST_CHUNK);
	return l->chunk ? 0 : -ENOMEM;
}

void name_list_done(struct name_list *l)
{
	free(l->chunk);
	*l = (struct name_list){ .fd = -1 };
}

/* Reads on behind what is left, which moves to the beginning of the chunk. Returns 1; or 0 if all
 * has been read. */
static int read_on(struct name_list *l)
{
	size_t room = NAME_LIST_CHUNK - l->left;
	ssize_t n;

	if (l->offset == l->size)
		return 0;
	if (room == 0)
		return -ENAMETOOLONG;
	if (l->left > 0)
		memmove(l->chunk, l->at, l->left);
	l->at = l->chunk;
	do
		n = pread(l->fd, l->chunk + l->left, MIN((uint64_t)room, l->size - l->offset),
			  (off_t)l->offset);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ESTALE;
	l->left += (size_t)n;
	assert(l->left <= NAME_LIST_CHUNK);
	l->offset += (uint64_t)n;
	return 1;
}

/* At the end: is it still as long as when it was opened? */
static int unchanged(const struct name_list *l)
{
	struct stat st;

	if (l->fd < 0)
		return 0;
	if (fstat(l->fd, &st) < 0)
		return -errno;
	return (uint64_t)st.st_size == l->size ? 0 : -ESTALE;
}

int name_list_next(struct name_list *l, size_t head, char **ret)
{
	size_t searched = head;
	int r = 1;

	for (;;) {
		char *end = l->left > searched ? memchr(l->at + searched, '\0', l->left - searched)
					       : NULL;

		if (end) {
			*ret = l->at;
			l->left -= (size_t)(end - l->at) + 1;
			l->at = end + 1;
			return 1;
		}
		searched = MAX(searched, l->left);
		r = l->fd >= 0 ? read_on(l) : 0;
		if (r < 0)
			return r;
		if (r == 0)
			break;
	}
	r = unchanged(l);
	return r < 0 ? r : l->left > 0 ? -EBADMSG : 0;
}
