/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What jobs have put back into spools. A user who has restored an entry wants it to be there, so it
 * is left alone until it changes, or is moved into the spool anew, which shows in its ctime. What
 * could not be deleted stays, too, or it would be tried again every few seconds. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/lasting-identity.h"
#include "spool-round.h"

#define RETURNED_MOST ((size_t)1 << 20)

/* All zeroes: none. */
struct spool_returned {
	void *tree;
	size_t n;
};

enum returned_why {
	RETURNED_NOT,
	RETURNED_RESTORED,
	RETURNED_KEPT, /* it could not be deleted */
};

void spool_returned_done(struct spool_returned *s);

/* Told before it is back, or read from the record: it was back at ctime_nsec then (INT64_MAX: not
 * known yet, the first that is seen of it tells). Returns 0, -ENOMEM, or -E2BIG. */
int spool_returned_add(struct spool_returned *s, const struct lasting_identity *id,
		       enum returned_why why, int64_t ctime_nsec);

/* Is what was seen as it was put back? One that has changed since is forgotten. */
enum returned_why spool_returned_check(struct spool_returned *s, const struct spool_stamp *seen);
