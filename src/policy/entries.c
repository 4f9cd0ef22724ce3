/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int entries_add(struct policy_entries *l, const struct policy_entry *e)
{
	size_t name = strlen(e->name) + 1, series = strlen(e->series) + 1;
	struct policy_entry *added;
	char *text;

	if (l->n >= UINT32_MAX)
		return -E2BIG;
	text = malloc(name + series);
	added = text ? array_add(&l->v, &l->n, sizeof(*added)) : NULL;
	if (!added) {
		free(text);
		return -ENOMEM;
	}
	*added = *e;
	added->name = memcpy(text, e->name, name);
	added->series = memcpy(text + name, e->series, series);
	return 0;
}

void entries_done(struct policy_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((char *)l->v[i].name);
	free(l->v);
	*l = (struct policy_entries){ 0 };
}

static const struct {
	const char *name, *words;
} dispositions[DISPOSITIONS] = {
	[DISPOSITION_UNDECIDED] = { "undecided", "not decided" },
	[DISPOSITION_PROTECTED] = { "protected", "is protected" },
	[DISPOSITION_MOUNT] = { "mount", "is or holds a mount point" },
	[DISPOSITION_IN_USE] = { "open", "is open" },
	[DISPOSITION_LOCKED] = { "locked", "is locked by another process" },
	[DISPOSITION_UNREAD] = { "unread", "could not be looked at in full" },
	[DISPOSITION_NO_TIME] = { "no-time", "has no time to go by" },
	[DISPOSITION_NO_SERIES] = { "no-series", "group-by does not match it" },
	[DISPOSITION_OTHER_KEEPS] = { "other-keep", "keep of another policy" },
	[DISPOSITION_CHANGED] = { "changed", "has changed meanwhile" },
	[DISPOSITION_FUTURE] = { "future", "its time is in the future" },
	[DISPOSITION_KEPT] = { "keep", "keep" },
	[DISPOSITION_MIN_COUNT] = { "min-count", "min-count" },
	[DISPOSITION_MIN_AGE] = { "min-age", "min-age" },
	[DISPOSITION_WITHIN_LIMITS] = { "within-limits", "within the limits" },
	[DISPOSITION_NO_RULE] = { "no-rule", "the policy has no rule" },
	[DISPOSITION_NOT_KEPT] = { "not-kept", "no rule of keep keeps it" },
	[DISPOSITION_MAX_AGE] = { "max-age", "max-age" },
	[DISPOSITION_MAX_FILES] = { "max-files", "max-files" },
	[DISPOSITION_MAX_SIZE] = { "max-size", "max-size" },
	[DISPOSITION_MIN_FREE] = { "min-free", "min-free" },
};

const char *disposition_name(enum disposition disposition)
{
	return dispositions[disposition].name;
}

const char *disposition_words(enum disposition disposition)
{
	return dispositions[disposition].words;
}
