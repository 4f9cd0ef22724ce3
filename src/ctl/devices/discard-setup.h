/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a filesystem's discards are set up: as it is mounted, what its device can, and which way is
 * the gentlest there (docs/discard.md has the reasons). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "pacing/sensors/blockdevs.h"

enum discard_mode {
	DISCARD_NONE,         /* what is freed is not discarded; a trim does that */
	DISCARD_ONLINE,       /* with the commit that follows */
	DISCARD_ASYNCHRONOUS, /* later, in requests of a bounded size */
};

struct discard_setup {
	enum discard_mode mode;
	bool possible; /* the devices discard */
	bool is_known; /* which way is the gentlest */
	enum discard_mode gentlest;
	uint64_t granularity_bytes, max_bytes; /* of the first device that it is on */
	/* What a MiB has taken there since it appeared, with what discards waited for each other;
	 * below 0: not known, as next to nothing was discarded. */
	double usec_per_mib;
	char fstab[512]; /* the line for /etc/fstab, where the gentlest is not what is set; or "" */
};

/* Of a mount: its type, options, source and mount point, any of which may be NULL. */
void discard_setup_find(struct discard_setup *ret, const char *type, const char *options,
			const char *source, const char *mount_point, const struct blockdevs *b);

/* For programs: {mode, possible, gentlest, granularity_bytes, max_bytes, usec_per_mib, fstab}. */
json_t *discard_setup_json(const struct discard_setup *s);

/* For people, from that: a text of one line, and what to do in the second, or "". */
void discard_setup_texts(const json_t *setup, char *now, size_t now_size, char *advice,
			 size_t advice_size);
