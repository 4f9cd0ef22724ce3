/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes back what ext2, ext3 and ext4 leave dirty in the page cache of their block device: inode
 * tables, bitmaps, group descriptors. After a commit they stay there until the kernel writes all of
 * them at once, some 30 s later, and foreign requests wait for that.
 *
 * A process of its own opens the device for reading and calls nothing on it but cachestat(2), which
 * tells where dirty pages are, and sync_file_range(2), which writes back a range of them. Where
 * there is no cachestat(2) (before Linux 6.5, or a sandbox refuses it), it reads the group
 * descriptors with pread(2) and visits all metadata, then the whole device in larger ranges. It
 * works in passes from the beginning of the device to its end. No function here waits for the disk.
 * A writeback belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct writeback;

struct writeback_sample {
	uint64_t dirty_bytes;   /* on the whole device, as of the last answer. Where the kernel does
				   not tell: what the last pass wrote; before it, all metadata */
	uint64_t written;       /* bytes that the last step wrote back */
	uint64_t last_usec;     /* what it took */
	uint64_t searched_usec; /* what looking for it took, where the kernel does not tell */
	int error;              /* of the last step: a negative errno, or 0 */
	bool ready;             /* the device is open: until then nothing is asked for */
	bool busy;              /* a step was asked for and has not ended */
	bool pass_done;         /* the last step reached the end of the device */
	bool estimated;         /* bytes are those of the ranges in which something was dirty */
	bool gone;              /* its process has ended: there will be no more */
};

/* Makes one for the block device with this number. Returns 0 or a negative errno: -ENOMEM, or what
 * making a socket or a process says. Where the device cannot be opened, or neither the kernel nor
 * the filesystem tells where its metadata is, it is gone soon. */
int writeback_new(struct writeback **ret, dev_t device);

/* Asks for a step: the next dirty range of at most so many bytes is written back; 0: only looks how
 * much is dirty. Does nothing before it is ready or while one is busy. */
void writeback_ask(struct writeback *w, uint64_t most_bytes);

/* What is known by now. */
void writeback_sample(struct writeback *w, struct writeback_sample *ret);

/* Waits until it has answered, no longer than so long. */
void writeback_wait(struct writeback *w, int msec);

/* Ends it; NULL is accepted. Returns NULL. If the device hangs, its process is left behind and goes
 * when it does not any more. */
struct writeback *writeback_free(struct writeback *w);
