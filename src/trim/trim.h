/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trims a filesystem: tells its devices, by FITRIM, what is free on it. In steps, each of them one
 * turn of a pacer, so that foreign I/O does not suffer; one pass, in which each free byte is
 * trimmed once at most, and all of them that fstrim(8) would trim.
 *
 *   trim: turn --> trim-process: ranges of free space --> FITRIM --> turn ends with what it cost
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trim-target.h"

struct pacer;

/* What a trim has done so far. */
struct trim_result {
	uint64_t trimmed_bytes;
	uint64_t steps, calls; /* calls: of FITRIM */
	uint64_t elapsed_usec;
	uint64_t longest_usec;          /* step: what a foreign request waited for it at most */
	uint64_t last_bytes, last_usec; /* of the last step */
	uint64_t first_mib_usec;        /* what a MiB took in the first of so much or more; or 0 */
	uint64_t at, end;               /* addresses of the filesystem; end 0: unknown */
	enum trim_bound bound;
	bool complete;   /* it has come to the end */
	bool broken_off; /* in the middle of a step, of which it is not known what it trimmed */
};

struct trim_options {
	uint64_t min_bytes; /* what is free in smaller pieces is left as it is */
	/* Of the filesystem's devices, made with `discards`; NULL: foreign I/O is not spared. */
	struct pacer *pacer;
	const _Atomic bool *cancelled; /* ends it within a step */
	void (*progress)(const struct trim_result *r,
			 void *userdata); /* after each step; or NULL */
	void *userdata;
};

/* Has this process the right to trim (CAP_SYS_ADMIN)? */
bool trim_is_permitted(void);

/* fd: on the filesystem, open for reading. Fills in *ret in any case. Returns 0 if it went to the
 * end or was cancelled, or a negative errno: -EPERM; -EOPNOTSUPP if the devices do not discard
 * after all; -ENOTTY if the filesystem has no FITRIM; -EINVAL if no free piece can be as large as
 * min_bytes; -ETIMEDOUT if the filesystem or a device does not answer; -ECONNRESET if the process
 * that calls was killed; -ENOMEM, or what the kernel says. */
int trim_run(int fd, const struct trim_target *t, const struct trim_options *o,
	     struct trim_result *ret);

/* Finds out how a step is bounded, without trimming anything. Returns 0 or a negative errno, as
 * trim_run. */
int trim_bound_find(int fd, const struct trim_target *t, uint64_t min_bytes, enum trim_bound *ret);
