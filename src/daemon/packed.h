/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs packed for a message: all numbers in one array, all texts in another, as
 * conf/org.reclaimd1.xml says of ListJobsPacked. A message grows by one field at a time, each of
 * which takes as long as copying a hundred; with ten thousand jobs that is what somebody waits for.
 */
#pragma once

#include "store/store.h"

/* All zero is empty. */
struct packed {
	struct packed_bytes {
		char *v;
		size_t n, size;
	} numbers, texts;
};

void packed_done(struct packed *p);

/* How many bytes a job takes. */
size_t packed_bytes(const struct job_record *r);

/* Returns 0 or -ENOMEM. */
int packed_add(struct packed *p, const struct job_record *r);
