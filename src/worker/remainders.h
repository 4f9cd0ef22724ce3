/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is left of large files whose names are gone, of a run that was stopped in their midst: held
 * open, so that the kernel does not free all of it at once, until reclaimd says what is to become
 * of it. Owns the descriptors. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/remove/shrink.h"

struct pace;

/* One for each lane that may be in the midst of one; what is more is closed. */
#define RESTS_MOST 64

enum rests_fate {
	RESTS_DROP, /* closed: the kernel frees them */
	RESTS_HOLD, /* kept as they are */
	RESTS_FREE, /* freed at their pace */
};

struct rests {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum rests_fate fate;
	_Atomic bool wait; /* nothing is to be freed in steps just now */
	struct shrink_remainder v[RESTS_MOST];
	size_t n;
};

void rests_init(struct rests *r);
void rests_done(struct rests *r);

/* Closes all of them. */
void rests_close(struct rests *r);

/* True if it was taken over: they are held. */
bool rests_add(struct rests *r, const struct shrink_remainder *remainder);

/* Any thread, at any time. */
void rests_fate(struct rests *r, enum rests_fate fate);

/* What they take on the disk. */
uint64_t rests_bytes(const struct rests *r);

/* Does as it is told until none is left; *bytes grows by what is freed. */
void rests_work(struct rests *r, const struct fs_profile *profile, const struct pace *pace,
		_Atomic uint64_t *bytes);
