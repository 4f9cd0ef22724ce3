/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What becomes of an entry, and why. */
#pragma once

#include <stdbool.h>

enum policy_fate {
	FATE_OPEN = 0, /* not decided */

	/* Kept, whatever the rules say: found by whoever lists the entries. */
	FATE_PROTECTED,
	FATE_MOUNT,
	FATE_IN_USE,
	FATE_LOCKED,
	FATE_UNREAD,
	FATE_NO_TIME,
	FATE_NO_SERIES,
	FATE_OTHER_KEEPS,
	FATE_CHANGED, /* since it was looked at first */

	/* Kept by rules. */
	FATE_FUTURE,
	FATE_KEPT,
	FATE_MIN_COUNT,
	FATE_MIN_AGE,
	FATE_WITHIN_LIMITS,
	FATE_NO_RULE,

	/* Deleted. */
	FATE_NOT_KEPT,
	FATE_MAX_AGE,
	FATE_MAX_FILES,
	FATE_MAX_SIZE,
	FATE_MIN_FREE,

	FATES
};

static inline bool fate_deletes(enum policy_fate fate)
{
	return fate >= FATE_NOT_KEPT;
}

/* One word or two for programs ("max-age"), and a few words for people. */
const char *fate_name(enum policy_fate fate);
const char *fate_words(enum policy_fate fate);
