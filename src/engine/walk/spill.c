/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"

/* How much spill_read takes from the file at once; spill_cut takes more. */
#define BLOCK KiB(16)

struct spill {
	char *buf; /* the stack from base to top; what is below is in the file */
	size_t cap, resident;
	uint64_t base, top;
	char *block; /* a copy of so much of the file */
	uint64_t block_off, block_len;
	int fd;
	bool no_file;
};

int spill_new(struct spill **ret, size_t resident_bytes)
{
	struct spill *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	s->resident = MAX(resident_bytes, 4 * BLOCK);
	*ret = s;
	return 0;
}

struct spill *spill_free(struct spill *s)
{
	if (!s)
		return NULL;
	free(s->buf);
	free(s->block);
	fd_closep(&s->fd);
	free(s);
	return NULL;
}

uint64_t spill_top(const struct spill *s)
{
	return s->top;
}

static void file_open(struct spill *s)
{
	const char *dirs[] = { secure_getenv("TMPDIR"), "/var/tmp", "/tmp", "/dev/shm" };

	for (size_t i = 0; i < ELEMENTSOF(dirs) && s->fd < 0; i++)
		if (dirs[i])
			s->fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* Writes all out but what half the memory has room for: work goes on near the top. A failure leaves
 * everything as it was and turns the file off: the stack then grows in memory. */
static void evict(struct spill *s)
{
	size_t have = s->top - s->base, out = have - MIN(have, s->resident / 2);

	if (s->fd < 0 && !s->no_file)
		file_open(s);
	if (s->no_file || s->fd < 0 || pwrite(s->fd, s->buf, out, (off_t)s->base) != (ssize_t)out) {
		s->no_file = true;
		return;
	}
	memmove(s->buf, s->buf + out, have - out);
	s->base += out;
	s->block_len = 0;
}

int spill_push(struct spill *s, const void *data, size_t len)
{
	if (s->top - s->base + len > s->resident)
		evict(s);
	if (array_reserve(&s->buf, &s->cap, MAX(s->top - s->base + len, BLOCK), 1) < 0)
		return -ENOMEM;
	memcpy(s->buf + (s->top - s->base), data, len);
	s->top += len;
	return 0;
}

/* Makes sure that the block has `off`, which is in the file. */
static int block_read(struct spill *s, uint64_t off)
{
	size_t len = MIN(s->base - off, BLOCK);
	ssize_t n;

	if (off >= s->block_off && off < s->block_off + s->block_len)
		return 0;
	if (!s->block)
		s->block = malloc(BLOCK);
	if (!s->block)
		return -ENOMEM;
	s->block_off = off;
	s->block_len = 0;
	n = pread(s->fd, s->block, len, (off_t)off);
	if (n != (ssize_t)len)
		return n < 0 ? -errno : -EIO;
	s->block_len = len;
	return 0;
}

int spill_read(struct spill *s, uint64_t off, void *ret, size_t len)
{
	char *to = ret;

	assert(off + len <= s->top);
	while (off < s->base && len > 0) {
		int r = block_read(s, off);
		size_t n;

		if (r < 0)
			return r;
		n = MIN(MIN(len, s->base - off), s->block_off + s->block_len - off);
		memcpy(to, s->block + (off - s->block_off), n);
		off += n;
		to += n;
		len -= n;
	}
	if (len > 0)
		memcpy(to, s->buf + (off - s->base), len);
	return 0;
}

/* Takes back into memory all from `off` on, which cannot be changed in the file any more. */
static int take_back(struct spill *s, uint64_t off)
{
	size_t back = s->base - off, have = s->top - s->base;
	ssize_t n;

	if (array_reserve(&s->buf, &s->cap, back + have, 1) < 0)
		return -ENOMEM;
	memmove(s->buf + back, s->buf, have);
	n = pread(s->fd, s->buf, back, (off_t)off);
	if (n != (ssize_t)back) {
		memmove(s->buf, s->buf + back, have);
		return n < 0 ? -errno : -EIO;
	}
	s->base = off;
	s->no_file = true;
	return 0;
}

int spill_write(struct spill *s, uint64_t off, const void *data, size_t len)
{
	size_t below = off < s->base ? MIN(len, s->base - off) : 0;

	assert(off + len <= s->top);
	s->block_len = below > 0 ? 0 : s->block_len;
	if (below > 0 && pwrite(s->fd, data, below, (off_t)off) != (ssize_t)below) {
		int r = take_back(s, off);

		if (r < 0)
			return r;
		below = 0;
	}
	if (len > below)
		memcpy(s->buf + (off + below - s->base), (const char *)data + below, len - below);
	return 0;
}

void spill_cut(struct spill *s, uint64_t top)
{
	size_t back = MIN(top, s->resident / 2);

	assert(top <= s->top);
	s->top = top;
	/* What it had to grow by without the file is not kept for the next tree. */
	if (top == 0 && s->cap > 2 * s->resident) {
		free(s->buf);
		s->buf = NULL;
		s->cap = 0;
		s->base = 0;
		return;
	}
	if (top >= s->base)
		return;
	/* What cannot be read back is asked for again when it is needed. */
	assert(back <= s->cap);
	s->base = top - back;
	if (pread(s->fd, s->buf, back, (off_t)s->base) != (ssize_t)back)
		s->base = top;
}
