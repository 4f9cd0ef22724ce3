/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shrink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "last-reference.h"
#include "engine/core/engine-job.h"
#include "engine/core/slice.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/gate.h"

/* A step should be short beside what other programs wait for anyway (a disk's seek is some 5 ms),
 * and large enough that the calls do not add up. Measured on simulated disks: 64 MiB is the largest
 * step that a disk without TRIM bears, 2 MiB the smallest that frees hundreds of MiB per second. */
#define STEP_FIRST MiB(64)
#define STEP_MOST MiB(1024)
#define COST_LOW (5 * USEC_PER_MSEC)
#define COST_HIGH (20 * USEC_PER_MSEC)

uint64_t shrink_next_step(uint64_t step_bytes, uint64_t cost_usec)
{
	if (cost_usec > COST_HIGH)
		return MAX(step_bytes / 2, shrink_unit());
	if (cost_usec < COST_LOW)
		return MIN(step_bytes * 2, STEP_MOST);
	return step_bytes;
}

/* Opens for writing exactly the file that was looked at: first a pin that opens nothing (a FIFO or
 * device in its place is never opened), then the pinned inode itself. */
static int open_pinned(int dirfd, const char *name)
{
	_cleanup_close_ int pin = fd_open_beneath(dirfd, name, O_PATH);
	char link[sizeof("/proc/self/fd/") + 12];
	struct stat st;
	int fd;

	if (pin < 0)
		return pin;
	if (fstat(pin, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return -EMEDIUMTYPE;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", pin);
	fd = open(link, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Takes a write lease: granted only if no other process has the file open, mapped or running. */
static bool lease_take(int fd)
{
	/* When a lease is broken the kernel sends SIGIO, which would end the process; SIGURG is
	 * ignored by default, and the lease is looked at before each step anyway. */
	return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

/* I5, asked before every step: no name, our lease, a regular file. *ret_size is what is left. */
static bool still_ours(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fcntl(fd, F_GETLEASE) != F_WRLCK || fstat(fd, &st) < 0)
		return false;
	*ret_size = (uint64_t)st.st_size;
	return S_ISREG(st.st_mode) && st.st_nlink == 0;
}

/* I5: all steps begin and end at multiples of shrink_unit(). Pages of the file that a pipe or a
 * socket holds (splice, sendfile) show as no reference, and stay as they are when their folio goes
 * as a whole; of one that a step ends within, the kernel zeroes what is freed, and the holder would
 * read that. However little the pace grants, it is no less. Nor does a step end within a block. */
static uint64_t step_bytes(const struct slice *slice, uint64_t step)
{
	uint64_t bytes = slice->pace ? MIN(step, slice->budget.bytes) : step;
	uint64_t unit = shrink_unit();

	return MAX(bytes / unit * unit, unit);
}

/* Frees one step. `done` is how far a head-first job has come. Returns 0 or a negative errno. */
static int step_free(int fd, enum shrink_method method, uint64_t size, uint64_t done, uint64_t step)
{
	uint64_t unit = shrink_unit();
	uint64_t left = size > step ? (size - step + unit - 1) / unit * unit : 0;

	assert(step > 0 && step % unit == 0 && done % unit == 0 && done < size);
	if (method == SHRINK_HEAD && step < size - done)
		return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)done,
				 (off_t)step) < 0
			       ? -errno
			       : 0;
	/* A hole up to the file's end would end within a folio. */
	if (method == SHRINK_HEAD)
		left = done;
	return ftruncate(fd, (off_t)left) < 0 ? -errno : 0;
}

/* What one block of a file's map describes: 1024 blocks of 4 KiB on ext3. */
#define MAP_UNIT MiB(4)

/* Has the block of the map read that says where `at` is. False where it cannot be asked for. */
static bool map_fetch(int fd, uint64_t at, uint64_t bytes)
{
	struct fiemap map = { .fm_start = at, .fm_length = bytes };

	return ioctl(fd, FS_IOC_FIEMAP, &map) == 0;
}

/* Has the part of the file's map read that a step is about to free, which costs a disk with a head
 * a seek for each block of it on ext3. The step would read it within its transaction, and syncs
 * meanwhile would wait for all of it; this holds up only what waits for one read.
 * Returns 0, or -ECANCELED. */
static int map_read(int fd, struct slice *slice, uint64_t from, uint64_t bytes)
{
	uint64_t last = from + bytes - 1;

	if (!slice_is_small(slice))
		return map_fetch(fd, from, bytes) ? slice_renew(slice) : 0;
	for (uint64_t at = from; at < last + MAP_UNIT && map_fetch(fd, MIN(at, last), 1);
	     at += MAP_UNIT)
		if (slice_renew(slice) < 0)
			return -ECANCELED;
	return 0;
}

/* How much the next step frees, as far as foreign I/O is to be spared after its map was read, for
 * which time may have passed; 0: the file is not to be touched any more. */
static uint64_t step_prepare(int fd, const struct fs_profile *profile, struct slice *slice,
			     uint64_t size, uint64_t done, uint64_t step)
{
	uint64_t bytes = step_bytes(slice, step), left = size - done;
	uint64_t from = profile->shrink == SHRINK_HEAD ? done : size - MIN(bytes, left);

	if (!profile->map_first || !slice->pace || slice->budget.bytes == UINT64_MAX)
		return bytes;
	if (map_read(fd, slice, from, MIN(bytes, left)) < 0 || !still_ours(fd, &left))
		return 0;
	return MIN(bytes, step_bytes(slice, step));
}

/* Counts a step's part of what the file weighs, which is less than its length where it has holes.
 */
static void count_step(struct shrink_count *count, uint64_t bytes, uint64_t length)
{
	assert(bytes <= length && count->counted <= count->weight);
	double part = (double)bytes / (double)length * (double)count->weight;
	uint64_t n = MIN((uint64_t)part, count->weight - count->counted);

	stat_add(count->bytes, n);
	count->counted += n;
}

/* Is the filesystem to be committed after a step? All the job's large files count together: as much
 * may be freed of many that are not very large. With the last of a file so large its space is back.
 */
static bool commit_due(const struct fs_profile *profile, const struct shrink_count *count,
		       uint64_t before, bool is_last, uint64_t length)
{
	uint64_t each = profile->commit_bytes;

	return each > 0 &&
	       (before / each != stat_get(count->bytes) / each || (is_last && length >= each));
}

bool shrink_can(const struct shrinker *by)
{
	return by->profile->lease_truthful && by->profile->shrink != SHRINK_NEVER &&
	       by->last_reference;
}

bool shrink_may_continue(const struct shrink_remainder *remainder)
{
	uint64_t size;

	return still_ours(remainder->fd, &size);
}

bool shrink_continue(struct shrink_remainder *remainder, const struct fs_profile *profile,
		     const struct pace *pace, const _Atomic bool *cancelled,
		     struct shrink_count *count)
{
	uint64_t step = STEP_FIRST, size = 0, length = 0;
	int fd = remainder->fd;
	struct slice slice;
	bool stopped;

	slice_init(&slice, pace, cancelled, fd);
	while (!(stopped = atomic_load(cancelled) || slice_open(&slice) < 0) &&
	       still_ours(fd, &size) && size > remainder->done) {
		uint64_t left = size - remainder->done;
		uint64_t bytes = step_prepare(fd, profile, &slice, size, remainder->done, step);
		uint64_t began = now_usec();

		length = MAX(length, left);
		stopped = bytes == 0;
		if (stopped || step_free(fd, profile->shrink, size, remainder->done, bytes) < 0)
			break;
		gate("shrink", "step");
		slice_add(&slice, 0, MIN(bytes, left));
		if (count) {
			uint64_t before = stat_get(count->bytes);

			count_step(count, MIN(bytes, left), length);
			slice.commit |= commit_due(profile, count, before, bytes >= left, length);
		}
		slice_close(&slice);
		if (profile->shrink == SHRINK_HEAD)
			remainder->done += bytes;
		/* A step that the pace made small says nothing about a large one. */
		if (bytes == step || now_usec() - began > COST_HIGH)
			step = shrink_next_step(step, now_usec() - began);
	}
	slice_finish(&slice);
	/* Also where the pace has ended without a word, as it does with the process that keeps it:
	 * that of the next one goes on with the file, if the lease is still there. */
	return (stopped || atomic_load(cancelled)) && still_ours(fd, &size) &&
	       size > remainder->done;
}

/* Where the first block of a file is, in whole units; where that cannot be asked, 0; where it has
 * none, its end. */
static uint64_t first_block(int fd, uint64_t size)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} m = { .map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_extent_count = 1 } };

	if (ioctl(fd, FS_IOC_FIEMAP, &m) < 0)
		return 0;
	return m.map.fm_mapped_extents == 0 ? size
					    : m.extent.fe_logical / shrink_unit() * shrink_unit();
}

int shrink_take_up(int fd, const struct fs_profile *profile, struct shrink_remainder *ret)
{
	struct stat st;
	uint64_t size;

	if (!profile->lease_truthful || profile->shrink == SHRINK_NEVER || !still_ours(fd, &size) ||
	    fstat(fd, &st) < 0)
		return -ESTALE;
	*ret = (struct shrink_remainder){
		.fd = fd,
		.done = profile->shrink == SHRINK_HEAD ? first_block(fd, size) : 0,
		.weight = (uint64_t)st.st_blocks * 512,
	};
	return 0;
}

void shrink_give_up(int *fd)
{
	if (*fd >= 0)
		(void)fcntl(*fd, F_SETLEASE, F_UNLCK);
	fd_closep(fd);
}

/* From here on the file is ours alone, or left to the kernel. Takes *fd over; it is -1, or another
 * one that holds our lease. */
static void take_alone(int *fd, int dirfd, const struct last_reference *last_reference)
{
	int r;

	/* Had the name been given to another file meanwhile, ours would still have a link, and is
	 * refused. */
	r = last_reference->take(last_reference->userdata, fd_take(fd), dirfd);
	if (r < 0)
		return;
	*fd = r;
	gate("shrink", "alone");
	/* What opened it meanwhile had its handle, for which a reference is not needed. */
	if (!lease_take(*fd))
		fd_closep(fd);
}

int shrink_file(int dirfd, const char *name, const struct shrinker *by, struct slice *slice,
		_Atomic bool *cancelled, struct shrink_count *count,
		struct shrink_remainder *ret_remainder)
{
	struct shrink_remainder remainder = { .fd = -1 };
	_cleanup_close_ int fd = -1;

	if (count)
		count->counted = 0;
	if (ret_remainder)
		*ret_remainder = remainder;
	if (!shrink_can(by))
		return SHRINK_NOT;
	fd = open_pinned(dirfd, name);
	if (fd < 0 || !lease_take(fd)) {
		debug_log("large file %s: unlinked whole: %s", name,
			  fd < 0 ? strerror(-fd) : "another process has it open (no lease)");
		return SHRINK_NOT;
	}
	gate("shrink", name);
	if (unlinkat(dirfd, name, 0) < 0)
		return -errno;
	take_alone(&fd, dirfd, by->last_reference);
	debug_log("large file %s: %s", name,
		  fd < 0 ? "unlinked, and freed by the kernel: something else refers to it"
			 : "unlinked, and freed in steps");
	if (fd < 0)
		return SHRINK_UNLINKED;
	if (by->begun)
		by->begun(fd, count ? count->weight : 0, by->userdata);
	if (slice)
		slice_close(slice);
	remainder.fd = fd;
	if (!shrink_continue(&remainder, by->profile, by->pace, cancelled, count)) {
		shrink_give_up(&fd);
	} else if (ret_remainder) {
		*ret_remainder = remainder;
		(void)fd_take(&fd);
	}
	return SHRINK_DONE;
}
