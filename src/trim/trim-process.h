/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls FITRIM on one filesystem, range after range.
 *
 * A process of its own does it, which can do nothing else: it has the filesystem and, for ext2,
 * ext3 and ext4, the block device open for reading, CAP_SYS_ADMIN of all capabilities, and of
 * ioctl(2) FITRIM and what tells what is free (sandbox/seccomp.h). A filesystem or a device that
 * hangs holds up this process only. No function here waits for the disk. A trim_process belongs to
 * one thread, and ends with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "trim-target.h"

struct trim_process;

struct trim_process_sample {
	uint64_t trimmed, calls; /* by the last step: bytes, and how often FITRIM was called */
	uint64_t took_usec;      /* in these calls */
	uint64_t at, end;        /* how far it is in the filesystem's addresses; end 0: unknown */
	enum trim_bound bound;   /* what a step can be; from when it is ready */
	int error;               /* of the last step, or of what it begins with: a negative errno */
	bool ready;              /* until then nothing is asked for */
	bool busy;               /* a step was asked for and has not ended */
	bool done;               /* there is nothing left */
	bool gone;               /* the process has ended: there will be no more */
};

/* fd: on the filesystem, open for reading; borrowed during the call. What is free in pieces below
 * min_bytes is left as it is. Returns 0 or a negative errno: -ENOMEM, or what making a socket or a
 * process says. */
int trim_process_new(struct trim_process **ret, int fd, const struct trim_target *t,
		     uint64_t min_bytes);

/* Asks for a step of at most so many bytes, if it can be divided so. Does nothing before it is
 * ready or while one is busy. */
void trim_process_ask(struct trim_process *p, uint64_t most_bytes);

/* What is known by now. */
void trim_process_sample(struct trim_process *p, struct trim_process_sample *ret);

/* Waits until it has answered, no longer than so long. */
void trim_process_wait(struct trim_process *p, int msec);

/* Ends it; if a call is under way the kernel breaks it off between two discards. NULL is accepted.
 * Returns NULL. If the device hangs, the process is left behind and goes when it does not any more.
 */
struct trim_process *trim_process_free(struct trim_process *p);
