/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Large files, freed in steps, under invariant I5 and only there.
 *
 * The name goes first, then the file that no name leads to is made smaller under our own write
 * lease, so that each journal commit and each batch of TRIMs stays short. Should the process end in
 * between, the kernel frees the rest as it would after a plain unlink; unless the descriptor is
 * held elsewhere, too. The lease is the descriptor's, in whatever process: as long as it is there,
 * something is left to be freed, and no other process has opened the file. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pace.h"
#include "base/macros.h"
#include "engine/filesystem/profile.h"

struct last_reference;
struct slice;

/* Where a file's bytes are counted as they are freed, so that progress shows within a large one. */
struct shrink_count {
	uint64_t *bytes;  /* other threads read it at any time: only added to, atomically */
	uint64_t weight;  /* what the file takes on the disk */
	uint64_t counted; /* out: how much of that has been added */
};

/* What is left of a file whose name is gone. The descriptor is its owner's. */
struct shrink_remainder {
	int fd;          /* with our lease; -1: nothing is left */
	uint64_t done;   /* freed from the head */
	uint64_t weight; /* what is left takes on the disk */
};

/* How, and how fast. */
struct shrinker {
	const struct fs_profile *profile;
	const struct pace *pace;                     /* or NULL */
	const struct last_reference *last_reference; /* or NULL: nothing is shrunk */
	/* Told of a file that has no name any more and is about to be freed; weight: what it takes
	 * on the disk. Or NULL. */
	void (*begun)(int fd, uint64_t weight, void *userdata);
	void *userdata;
};

/* Is anything shrunk at all? */
bool shrink_can(const struct shrinker *by);

enum shrunk {
	SHRINK_NOT,      /* the file does not qualify, and nothing was done */
	SHRINK_UNLINKED, /* unlinked, and left to the kernel: something else refers to the file */
	SHRINK_DONE,     /* unlinked, and its blocks were freed in steps */
};

/* Unlinks `name` in dirfd and, if nothing else refers to the file, frees its blocks in steps.
 * Returns an enum shrunk or the negative errno of the unlink. Each step asks the pace, if there is
 * one; the caller's slice (or NULL) is closed before the first, and only then, so that no time
 * passes between the caller's look at the file and a plain unlink. Freeing stops, and leaves the
 * rest to the kernel, when the lease is broken, or *cancelled, or the pace has ended; in the last
 * two cases the caller gets the remainder, if ret_remainder is not NULL, but for its weight. count
 * may be NULL. */
int shrink_file(int dirfd, const char *name, const struct shrinker *by, struct slice *slice,
		_Atomic bool *cancelled, struct shrink_count *count,
		struct shrink_remainder *ret_remainder);

/* Goes on with what is left. True if it was cancelled once more, or its pace has ended, and there
 * still is something. */
bool shrink_continue(struct shrink_remainder *remainder, const struct fs_profile *profile,
		     const struct pace *pace, const _Atomic bool *cancelled,
		     struct shrink_count *count);

/* A file that another process began with, and whose descriptor we have: all that is asked before a
 * step is asked now. Returns 0, or -ESTALE: it is not to be touched. fd becomes the remainder's. */
int shrink_take_up(int fd, const struct fs_profile *profile, struct shrink_remainder *ret);

/* Gives up the lease, for all processes that have the descriptor, and closes ours. */
void shrink_give_up(int *fd);

/* Our lease is still on it, and no name leads to it. */
bool shrink_may_continue(const struct shrink_remainder *remainder);

/* The next step in bytes, from the last one and what it cost: pure, for tests. */
uint64_t shrink_next_step(uint64_t step_bytes, uint64_t cost_usec);
