/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs packed for a message: all numbers in one array, all texts in another, as
 * conf/org.reclaimd1.xml says of ListJobsPacked. A message grows by one field at a time, each of
 * which takes as long as copying a hundred; with ten thousand jobs that is most of the wait.
 */
#pragma once

#include "store/store.h"

#define PACKED_TEXTS 4

/* All zero is empty. */
struct packed {
	struct packed_bytes {
		char *v;
		size_t n, size;
	} numbers, texts;
};

void packed_done(struct packed *p);

/* A job, and how many bytes it takes. */
struct packed_job {
	const struct job_record *r;
	const char *texts[PACKED_TEXTS];
	size_t lens[PACKED_TEXTS]; /* with their NULs */
	size_t bytes;
};

struct packed_job packed_job(const struct job_record *r);

/* Returns 0 or -ENOMEM. */
int packed_add(struct packed *p, const struct packed_job *j);
