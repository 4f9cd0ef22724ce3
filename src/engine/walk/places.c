/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "places.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/dirlist.h"
#include "engine/core/slice.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/macros.h"

/* Asking takes some 10 µs; from a cold disk a block of inodes is read, which the unlink then finds
 * in memory. A scanner that has to allow each open, or a kernel that measures what is opened (IMA),
 * reads whole files: after so many that took so long on average, no more are asked. */
#define ASKED_LEAST 64
#define USEC_MOST 500

/* Files asked within one slice: their inodes are a few blocks. */
#define PART 64

/* Tells places from inode numbers, which are smaller: 32 bits on ext. */
#define PLACED (1ULL << 63)

/* What says nothing about where the blocks are. */
#define UNPLACED (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE)

bool places_worth(const struct places *p)
{
	return p->asked < ASKED_LEAST || p->usec / p->asked <= USEC_MOST;
}

/* Opens exactly the file that was looked at: a FIFO or a device in its place is never opened. Never
 * waits for the holder of a lease. */
static int open_regular(int dirfd, const char *name)
{
	_cleanup_close_ int pin = fd_open_beneath(dirfd, name, O_PATH);
	char link[sizeof("/proc/self/fd/") + 12];
	struct stat st;

	if (pin < 0 || fstat(pin, &st) < 0 || !S_ISREG(st.st_mode) || st.st_blocks == 0)
		return -1;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", pin);
	return open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Where a file's first block is, in bytes, and PLACED; 0 if that is not to be known. Blocks that
 * are yet to be written back get no place by being asked for. */
static uint64_t place(int dirfd, const char *name)
{
	struct {
		struct fiemap map;
		struct fiemap_extent first;
	} q = { .map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_extent_count = 1 } };
	_cleanup_close_ int fd = -1;

	gate("place", name);
	fd = open_regular(dirfd, name);
	if (fd < 0 || ioctl(fd, FS_IOC_FIEMAP, &q) < 0 || q.map.fm_mapped_extents == 0 ||
	    q.first.fe_flags & UNPLACED)
		return 0;
	return q.first.fe_physical | PLACED;
}

/* False: cancelled. */
static bool part_begin(struct slice *slice, size_t i)
{
	size_t part = slice_is_small(slice) ? PACE_FEW : PART;

	return i == 0 || i % part != 0 || !slice->pace || slice_renew(slice) == 0;
}

void places_order(struct places *p, int dirfd, struct dirlist *l, size_t n, struct slice *slice)
{
	size_t whole = l->n, placed = 0;

	assert(n <= l->n);
	for (size_t i = 0; i < n && places_worth(p) && part_begin(slice, i); i++) {
		struct dentry *d = &l->v[i];
		uint64_t began, at;

		if (d->type != DT_REG)
			continue;
		began = now_usec();
		at = place(dirfd, dirlist_name(l, d));
		p->usec += now_usec() - began;
		p->asked++;
		d->ino = at ? at : d->ino;
		placed += at != 0;
	}
	debug_log("order: %zu of %zu entries of a directory by where they lie on the disk", placed,
		  n);
	l->n = n;
	dirlist_sort(l, ORDER_ASCENDING);
	l->n = whole;
}
