/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

/* Texts lie one behind the other: allocated one by one they would take a third more. */
struct text_block {
	struct text_block *before;
	size_t used;
	char text[KiB(64)];
};

/* A copy that lives as long as the list; NULL: out of memory. */
static const char *text_keep(struct policy_entries *l, const char *s)
{
	size_t len = strlen(s) + 1;
	struct text_block *b = l->texts;

	if (!b || sizeof(b->text) - b->used < len) {
		b = len <= sizeof(b->text) ? malloc(sizeof(*b)) : NULL;
		if (!b)
			return NULL;
		b->before = l->texts;
		b->used = 0;
		l->texts = b;
	}
	b->used += len;
	return memcpy(b->text + b->used - len, s, len);
}

int entry_compare(const struct policy_entry *x, const struct policy_entry *y)
{
	if (x->time_nsec != y->time_nsec)
		return x->time_nsec < y->time_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

int entries_add(struct policy_entries *l, const struct policy_entry *e)
{
	const char *name, *series = l->n > 0 ? l->v[l->n - 1].series : "";
	const char *unit = "";
	struct policy_entry *added;

	if (l->n >= UINT32_MAX)
		return -E2BIG;
	name = text_keep(l, e->name);
	/* Those of one series are listed one after the other more often than not. */
	if (strcmp(series, e->series) != 0)
		series = text_keep(l, e->series);
	if (e->unit_name && e->unit_name[0])
		unit = text_keep(l, e->unit_name);
	added = name && series && unit ? array_add(&l->v, &l->n, sizeof(*added)) : NULL;
	if (!added)
		return -ENOMEM;
	*added = *e;
	added->name = name;
	added->series = series;
	added->unit_name = unit;
	return 0;
}

void entries_done(struct policy_entries *l)
{
	for (struct text_block *b = l->texts, *before; b; b = before) {
		before = b->before;
		free(b);
	}
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
	[DISPOSITION_IMMUTABLE] = { "immutable", "is immutable or append-only: see lsattr(1)" },
	[DISPOSITION_PINNED] = { "pinned", "pinned" },
	[DISPOSITION_NO_TIME] = { "no-time", "has no time to go by" },
	[DISPOSITION_AMBIGUOUS_TIME] = { "ambiguous-time",
					 "its name can be read as several times" },
	[DISPOSITION_NO_SERIES] = { "no-series", "group-by does not match it" },
	[DISPOSITION_NOT_EMPTY] = { "not-empty", "is not empty" },
	[DISPOSITION_OTHER_KEEPS] = { "other-keep", "keep of another policy" },
	[DISPOSITION_CHANGED] = { "changed", "has changed meanwhile" },
	[DISPOSITION_FUTURE] = { "future", "its time is in the future" },
	[DISPOSITION_KEPT] = { "keep", "keep" },
	[DISPOSITION_MIN_COUNT] = { "min-count", "min-count" },
	[DISPOSITION_MIN_AGE] = { "min-age", "min-age" },
	[DISPOSITION_WITHIN_LIMITS] = { "within-limits", "within the limits" },
	[DISPOSITION_NO_RULE] = { "no-rule", "the policy has no rule" },
	[DISPOSITION_UNIT] = { "unit", "stays with others of its unit or chain" },
	[DISPOSITION_NOT_KEPT] = { "not-kept", "no rule of keep keeps it" },
	[DISPOSITION_MAX_AGE] = { "max-age", "max-age" },
	[DISPOSITION_MAX_FILES] = { "max-files", "max-files" },
	[DISPOSITION_MAX_SIZE] = { "max-size", "max-size" },
	[DISPOSITION_MIN_FREE] = { "min-free", "min-free" },
	[DISPOSITION_MIN_INODES] = { "min-free-inodes", "min-free-inodes" },
};

const char *disposition_name(enum disposition disposition)
{
	return dispositions[disposition].name;
}

const char *disposition_words(enum disposition disposition)
{
	return dispositions[disposition].words;
}
