/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"

/* Small enough that a walker of a flat tree costs one page or two, large enough that a deep one
 * writes its file in few calls. */
#define BLOCK KiB(16)

struct spill {
	char **blocks; /* NULL where the block is in the file only */
	size_t n_blocks, cap_blocks;
	size_t n_resident, max_resident;
	size_t lowest; /* no resident block below this index: where the search for a victim starts
			*/
	uint64_t top;
	int fd;
	bool no_file;
};

int spill_new(struct spill **ret, size_t resident_bytes)
{
	struct spill *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	s->max_resident = MAX(resident_bytes / BLOCK, (size_t)4);
	*ret = s;
	return 0;
}

struct spill *spill_free(struct spill *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_blocks; i++)
		free(s->blocks[i]);
	free(s->blocks);
	fd_closep(&s->fd);
	free(s);
	return NULL;
}

uint64_t spill_top(const struct spill *s)
{
	return s->top;
}

static int file_open(struct spill *s)
{
	const char *dirs[] = { secure_getenv("TMPDIR"), "/var/tmp", "/tmp", "/dev/shm" };

	if (s->fd >= 0)
		return 0;
	for (size_t i = 0; i < ELEMENTSOF(dirs) && s->fd < 0; i++)
		if (dirs[i])
			s->fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd < 0)
		s->no_file = true;
	return s->fd < 0 ? -errno : 0;
}

/* Writes one block out and frees it. A failure leaves everything as it was and turns the file off:
 * the stack then grows in memory. */
static void block_evict(struct spill *s, size_t i)
{
	ssize_t n;

	if (file_open(s) < 0)
		return;
	n = pwrite(s->fd, s->blocks[i], BLOCK, (off_t)(i * BLOCK));
	if (n != (ssize_t)BLOCK) {
		s->no_file = true;
		return;
	}
	free(s->blocks[i]);
	s->blocks[i] = NULL;
	s->n_resident--;
}

/* Makes room for one more resident block. The victim is the lowest: work goes on near the top. */
static void make_room(struct spill *s, size_t keep)
{
	if (s->n_resident < s->max_resident || s->no_file)
		return;
	for (; s->lowest < s->n_blocks; s->lowest++) {
		if (!s->blocks[s->lowest] || s->lowest == keep)
			continue;
		block_evict(s, s->lowest);
		return;
	}
}

/* Returns block i, read back from the file if it is not in memory, or NULL with errno. */
static char *block_get(struct spill *s, size_t i)
{
	char *b = s->blocks[i];
	ssize_t n;

	if (b)
		return b;
	make_room(s, i);
	b = malloc(BLOCK);
	if (!b)
		return NULL;
	n = pread(s->fd, b, BLOCK, (off_t)(i * BLOCK));
	if (n != (ssize_t)BLOCK) {
		free(b);
		errno = n < 0 ? errno : EIO;
		return NULL;
	}
	s->blocks[i] = b;
	s->n_resident++;
	s->lowest = MIN(s->lowest, i);
	return b;
}

static int block_add(struct spill *s)
{
	if (array_reserve(&s->blocks, &s->cap_blocks, s->n_blocks + 1, sizeof(char *)) < 0)
		return -ENOMEM;
	make_room(s, SIZE_MAX);
	/* Zeroed, because a block's unused tail is written to the file with it. */
	s->blocks[s->n_blocks] = calloc(1, BLOCK);
	if (!s->blocks[s->n_blocks])
		return -ENOMEM;
	s->n_blocks++;
	s->n_resident++;
	return 0;
}

/* Moves len bytes between data and the stack at off, block by block. */
static int transfer(struct spill *s, uint64_t off, char *data, size_t len, bool write)
{
	while (len > 0) {
		size_t at = off % BLOCK, n = MIN(len, BLOCK - at);
		char *b = block_get(s, off / BLOCK);

		if (!b)
			return -errno;
		if (write)
			memcpy(b + at, data, n);
		else
			memcpy(data, b + at, n);
		off += n;
		data += n;
		len -= n;
	}
	return 0;
}

int spill_push(struct spill *s, const void *data, size_t len)
{
	int r;

	while (s->n_blocks * BLOCK < s->top + len) {
		r = block_add(s);
		if (r < 0)
			return r;
	}
	r = transfer(s, s->top, (char *)data, len, true);
	if (r < 0)
		return r;
	s->top += len;
	return 0;
}

int spill_read(struct spill *s, uint64_t off, void *ret, size_t len)
{
	return transfer(s, off, ret, len, false);
}

int spill_write(struct spill *s, uint64_t off, const void *data, size_t len)
{
	return transfer(s, off, (char *)data, len, true);
}

void spill_cut(struct spill *s, uint64_t top)
{
	size_t keep = (top + BLOCK - 1) / BLOCK;

	s->top = top;
	/* One block above the top stays, so that a walk across a block's border does not
	 * allocate and free at every step. */
	while (s->n_blocks > keep + 1) {
		s->n_blocks--;
		if (!s->blocks[s->n_blocks])
			continue;
		free(s->blocks[s->n_blocks]);
		s->n_resident--;
	}
	s->lowest = MIN(s->lowest, s->n_blocks);
}
