/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "dirlist.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "slice.h"
#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"

/* The longest record: 19 bytes of header, 255 of name, its NUL, rounded up to 8. A kernel that
 * leaves more room than this unused had no further entry to give. */
#define LONGEST_RECORD 280

/* For a part of a block, so that a call reads at most one more. */
#define PART KiB(1)

struct linux_dirent64 {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	uint8_t d_type;
	char d_name[];
};

void dirlist_done(struct dirlist *l)
{
	if (l->allowance)
		atomic_fetch_add(l->allowance, l->borrowed);
	free(l->arena);
	free(l->v);
	l->arena = NULL;
	l->v = NULL;
	l->arena_cap = l->cap = l->borrowed = 0;
	l->arena_len = l->n = 0;
}

void dirlist_clear(struct dirlist *l)
{
	/* Buffers that one huge directory needed are not kept for thousands of small ones. */
	if (l->borrowed > 0)
		dirlist_done(l);
	l->arena_len = l->n = 0;
}

/* Takes `want` bytes from the common allowance. Returns false if they are not to be had. */
static bool borrow(struct dirlist *l, size_t want)
{
	size_t left;

	if (!l->allowance)
		return true;
	left = atomic_load(l->allowance);
	do {
		if (left < want)
			return false;
	} while (!atomic_compare_exchange_weak(l->allowance, &left, left - want));
	l->borrowed += want;
	return true;
}

/* Makes room for at least one more record. Returns 1 if there is, 0 if the chunk is as large as it
 * may become, -ENOMEM. */
static int arena_room(struct dirlist *l)
{
	size_t cap = l->arena_cap == 0 ? DIRLIST_OWN : l->arena_cap * 2;
	char *bigger;

	if (l->arena_cap - l->arena_len >= KiB(16))
		return 1;
	/* Names are offsets of 32 bits. The entry table grows with the arena, at half its size
	 * for names of usual length, hence the factor in what is borrowed. */
	if (cap > MiB(1024))
		return 0;
	if (cap > DIRLIST_OWN && !borrow(l, (cap - l->arena_cap) * 3 / 2))
		return 0;
	bigger = realloc(l->arena, cap);
	if (!bigger)
		return -ENOMEM;
	l->arena = bigger;
	l->arena_cap = cap;
	return 1;
}

static int entry_room(struct dirlist *l)
{
	return array_reserve(&l->v, &l->cap, MAX(l->n + 1, (size_t)256), sizeof(*l->v));
}

static bool is_dot_or_dotdot(const char *n)
{
	return n[0] == '.' && (n[1] == '\0' || (n[1] == '.' && n[2] == '\0'));
}

/* The length of a record's name; 0 if the record does not lie in the `left` bytes that there are,
 * or has a name that cannot come from a sane filesystem: without an end, empty, or with a slash,
 * which would be a path. */
static size_t record_check(const struct linux_dirent64 *d, size_t left)
{
	const char *end;

	if (left < sizeof(*d) || d->d_reclen > left || d->d_reclen % sizeof(uint64_t) != 0 ||
	    d->d_reclen <= offsetof(struct linux_dirent64, d_name))
		return 0;
	end = memchr(d->d_name, '\0', d->d_reclen - offsetof(struct linux_dirent64, d_name));
	if (!end || memchr(d->d_name, '/', (size_t)(end - d->d_name)))
		return 0;
	return (size_t)(end - d->d_name);
}

/* Takes in the records between arena_len and arena_len + len. */
static int records_take(struct dirlist *l, size_t len, int64_t *cookie)
{
	size_t end = l->arena_len + len;

	assert(end <= l->arena_cap);
	while (l->arena_len < end) {
		struct linux_dirent64 *d = (struct linux_dirent64 *)(l->arena + l->arena_len);
		size_t name = (size_t)(d->d_name - l->arena);

		if (record_check(d, end - l->arena_len) == 0)
			return -EIO;
		*cookie = d->d_off;
		if (!is_dot_or_dotdot(d->d_name)) {
			int r = entry_room(l);
			if (r < 0)
				return r;
			l->v[l->n++] = (struct dentry){ .ino = d->d_ino,
							.name = (uint32_t)name,
							.type = d->d_type,
							.fresh = 1 };
		}
		l->arena_len += d->d_reclen;
	}
	return 0;
}

int dirlist_read(struct dirlist *l, int fd, bool short_is_eof, struct slice *slice,
		 int64_t *ret_cookie)
{
	bool again = false;

	dirlist_clear(l);
	for (;; again = true) {
		size_t room;
		long len;
		int r = arena_room(l);

		if (r <= 0)
			return r;
		room = l->arena_cap - l->arena_len;
		if (slice && slice_is_small(slice)) {
			room = MIN(room, (size_t)PART);
			if (again && slice_renew(slice) < 0)
				return 0;
		}
		l->getdents_calls++;
		len = syscall(SYS_getdents64, fd, l->arena + l->arena_len, room);
		if (len < 0)
			return -errno;
		if (len == 0)
			return 1;
		r = records_take(l, (size_t)len, ret_cookie);
		if (r < 0)
			return r;
		if (short_is_eof && room - (size_t)len >= LONGEST_RECORD)
			return 1;
	}
}

int dirlist_add(struct dirlist *l, const char *name, uint64_t ino, uint8_t type)
{
	size_t len = strlen(name) + 1;
	int r;

	if (l->arena_len + len > UINT32_MAX)
		return -ENOMEM;
	r = array_reserve(&l->arena, &l->arena_cap, l->arena_len + len, 1);
	if (r >= 0)
		r = entry_room(l);
	if (r < 0)
		return r;
	assert(l->arena_len + len <= l->arena_cap);
	memcpy(l->arena + l->arena_len, name, len);
	l->v[l->n++] = (struct dentry){
		.ino = ino, .name = (uint32_t)l->arena_len, .type = type, .fresh = 1
	};
	l->arena_len += len;
	return 0;
}

static int ascending(const void *a, const void *b)
{
	const struct dentry *x = a, *y = b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int descending(const void *a, const void *b)
{
	return ascending(b, a);
}

void dirlist_sort(struct dirlist *l, enum order order)
{
	int (*compare)(const void *a, const void *b) =
		order == ORDER_ASCENDING ? ascending : descending;
	bool sorted = true;

	if (order == ORDER_LISTED)
		return;
	/* Directories filled once are often in order already. */
	for (size_t i = 1; sorted && i < l->n; i++)
		sorted = compare(&l->v[i - 1], &l->v[i]) <= 0;
	if (!sorted)
		qsort(l->v, l->n, sizeof(*l->v), compare);
}

/* FNV-1a: the names of a list against those of a directory. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261U;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619U;
	return h;
}

/* An open-addressing table of 1-based indices into a list; size is a power of two. */
static uint32_t *table_new(const struct dirlist *l, size_t size)
{
	uint32_t *t = calloc(size, sizeof(*t));

	for (size_t i = 0; t && i < l->n; i++) {
		size_t at = hash(dirlist_name(l, &l->v[i])) & (size - 1);

		while (t[at])
			at = (at + 1) & (size - 1);
		t[at] = (uint32_t)i + 1;
	}
	return t;
}

static void table_match(struct dirlist *l, const uint32_t *t, size_t size, const char *name,
			uint64_t ino)
{
	for (size_t at = hash(name) & (size - 1); t[at]; at = (at + 1) & (size - 1)) {
		struct dentry *d = &l->v[t[at] - 1];

		if (strcmp(dirlist_name(l, d), name) == 0)
			d->ino = ino;
	}
}

/* A directory this much larger than the list is not read. Measured on ext4: sorting saves some 5 µs
 * for each name of the list, reading costs some 0.3 µs for each entry of the directory. An entry
 * takes about 32 bytes of st_size on ext and XFS. */
#define READ_WORTH 16
#define ENTRY_BYTES 32

void dirlist_find_inodes(struct dirlist *l, int fd, enum order order)
{
	_cleanup_close_ int dir = fd_open_dir(fd, ".");
	_cleanup_free_ uint32_t *table = NULL;
	struct dirlist all = { 0 };
	struct stat st;
	size_t size = 16;
	int64_t cookie;
	int r = 0;

	if (l->n < 2 || dir < 0 || fstat(dir, &st) < 0)
		return;
	if ((uint64_t)st.st_size / ENTRY_BYTES > (uint64_t)l->n * READ_WORTH)
		return;
	while (size < l->n * 2)
		size *= 2;
	table = table_new(l, size);
	/* An allowance of nothing keeps the reading to small chunks. */
	_Atomic size_t nothing = 0;
	all.allowance = &nothing;
	while (table && r == 0) {
		r = dirlist_read(&all, dir, false, NULL, &cookie);
		for (size_t i = 0; i < all.n; i++)
			table_match(l, table, size, dirlist_name(&all, &all.v[i]), all.v[i].ino);
	}
	dirlist_done(&all);
	dirlist_sort(l, order);
}
