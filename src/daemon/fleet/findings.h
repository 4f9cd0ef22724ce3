/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What was found of a host that is gone, to be told: as much as one answer holds. */
#pragma once

#include <stddef.h>

#include "fleet.h"

/* All zero is empty. */
struct findings {
	struct adoption_item *items;
	size_t n, bytes;
	size_t adopted, kept;       /* of all */
	size_t untold, untold_kept; /* for which there is no room */
	const char *untold_outcome; /* of the last of them */
};

/* path: malloc'ed, and taken over; NULL: there was no memory for it. outcome: "adopted",
 * "adoptable" or "kept" (static); why is copied. */
void finding_add(struct findings *f, char *path, const struct adoption_item *other);
/* All have been added. Those for which there was no room are one, before all others. */
void findings_end(struct findings *f, const char *host);
void findings_clear(struct findings *f);
