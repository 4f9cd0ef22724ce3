/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fate.h"

static const struct {
	const char *name, *words;
} fates[FATES] = {
	[FATE_OPEN] = { "undecided", "not decided" },
	[FATE_PROTECTED] = { "protected", "is protected" },
	[FATE_MOUNT] = { "mount", "is or holds a mount point" },
	[FATE_IN_USE] = { "open", "is open" },
	[FATE_LOCKED] = { "locked", "is locked by somebody" },
	[FATE_UNREAD] = { "unread", "could not be looked at in full" },
	[FATE_NO_TIME] = { "no-time", "has no time to go by" },
	[FATE_NO_SERIES] = { "no-series", "group-by does not match it" },
	[FATE_OTHER_KEEPS] = { "other-keep", "keep of another policy" },
	[FATE_CHANGED] = { "changed", "has changed meanwhile" },
	[FATE_FUTURE] = { "future", "its time is in the future" },
	[FATE_KEPT] = { "keep", "keep" },
	[FATE_MIN_COUNT] = { "min-count", "min-count" },
	[FATE_MIN_AGE] = { "min-age", "min-age" },
	[FATE_WITHIN_LIMITS] = { "within-limits", "within the limits" },
	[FATE_NO_RULE] = { "no-rule", "the policy has no rule" },
	[FATE_NOT_KEPT] = { "not-kept", "no rule of keep keeps it" },
	[FATE_MAX_AGE] = { "max-age", "max-age" },
	[FATE_MAX_FILES] = { "max-files", "max-files" },
	[FATE_MAX_SIZE] = { "max-size", "max-size" },
	[FATE_MIN_FREE] = { "min-free", "min-free" },
};

const char *fate_name(enum policy_fate fate)
{
	return fates[fate].name;
}

const char *fate_words(enum policy_fate fate)
{
	return fates[fate].words;
}
