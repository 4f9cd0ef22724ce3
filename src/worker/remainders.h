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
#define REMAINDERS_MOST 64

enum remainders_disposition {
	REMAINDERS_CLOSE, /* closed: the kernel frees them */
	REMAINDERS_HOLD,  /* kept as they are */
	REMAINDERS_FREE,  /* freed at their pace */
};

struct remainders {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum remainders_disposition disposition;
	_Atomic bool wait; /* nothing is to be freed in steps just now */
	struct shrink_remainder v[REMAINDERS_MOST];
	size_t n;
};

void remainders_init(struct remainders *r);
void remainders_done(struct remainders *r);

/* Closes all of them. */
void remainders_close(struct remainders *r);

/* True if it was taken over: they are held. */
bool remainders_add(struct remainders *r, const struct shrink_remainder *remainder);

/* Any thread, at any time. */
void remainders_dispose(struct remainders *r, enum remainders_disposition disposition);

/* What they take on the disk. */
uint64_t remainders_bytes(const struct remainders *r);

/* Does as it is told until none is left; *bytes grows by what is freed. */
void remainders_work(struct remainders *r, const struct fs_profile *profile,
		     const struct pace *pace, _Atomic uint64_t *bytes);
