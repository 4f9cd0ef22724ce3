/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

#define BLOCK_BYTES KiB(256)

struct arena_block {
	struct arena_block *before;
	size_t used;
	char text[BLOCK_BYTES];
};

/* A copy that lives as long as the list; NULL if memory is out. Names are shorter than a block. */
static const char *keep_text(struct policy_entries *l, const char *s)
{
	size_t len = strlen(s) + 1;
	char *copy;

	if (len == 1)
		return "";
	if (!l->blocks || BLOCK_BYTES - l->blocks->used < len) {
		struct arena_block *b = len <= BLOCK_BYTES ? malloc(sizeof(*b)) : NULL;

		if (!b)
			return NULL;
		b->before = l->blocks;
		b->used = 0;
		l->blocks = b;
	}
	copy = l->blocks->text + l->blocks->used;
	memcpy(copy, s, len);
	l->blocks->used += len;
	return copy;
}

/* The directory lists those of one series one after the other more often than not. */
static const char *keep_series(struct policy_entries *l, const char *s)
{
	const char *last = l->n > 0 ? l->v[l->n - 1].series : "";

	return strcmp(s, last) == 0 ? last : keep_text(l, s);
}

int entries_add(struct policy_entries *l, const struct policy_entry *e)
{
	struct policy_entry copy = *e, *added;

	if (l->n >= UINT32_MAX)
		return -E2BIG;
	copy.name = keep_text(l, e->name);
	copy.series = keep_series(l, e->series);
	added = copy.name && copy.series ? array_add(&l->v, &l->n, sizeof(copy)) : NULL;
	if (!added)
		return -ENOMEM;
	*added = copy;
	return 0;
}

void entries_done(struct policy_entries *l)
{
	while (l->blocks) {
		struct arena_block *b = l->blocks;

		l->blocks = b->before;
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
