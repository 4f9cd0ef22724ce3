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
	added->refs = (uint32_t)l->n_refs;
	return 0;
}

int entries_add_link(struct policy_entries *l, const struct link_file *f)
{
	struct link_file *file = links_file(&l->links, f, SIZE_MAX);
	struct link_ref *ref = file && l->n_refs < UINT32_MAX
				       ? array_add(&l->refs, &l->n_refs, sizeof(*ref))
				       : NULL;

	if (!ref)
		return -ENOMEM;
	*ref = (struct link_ref){ (uint32_t)(file - l->links.v), f->names };
	return 0;
}

void entries_done(struct policy_entries *l)
{
	for (struct text_block *b = l->texts, *before; b; b = before) {
		before = b->before;
		free(b);
	}
	links_done(&l->links);
	free(l->refs);
	free(l->v);
	*l = (struct policy_entries){ 0 };
}

/* ---- sets ------------------------------------------------------------------------------------ */

size_t entry_refs(const struct policy_entries *l, size_t i)
{
	return (i + 1 < l->n ? l->v[i + 1].refs : l->n_refs) - l->v[i].refs;
}

struct policy_set set_begin(struct policy_entries *l)
{
	for (size_t i = 0; i < l->links.n; i++)
		l->links.v[i].names = 0;
	return (struct policy_set){ 0 };
}

static void set_add_file(struct policy_set *s, const struct policy_entries *l,
			 const struct link_file *f)
{
	s->bytes += f->bytes;
	s->inodes += 1 + (l->inode_bytes > 0 ? f->bytes / l->inode_bytes : 0);
}

static void set_remove_file(struct policy_set *s, const struct policy_entries *l,
			    const struct link_file *f)
{
	s->bytes -= f->bytes;
	s->inodes -= 1 + (l->inode_bytes > 0 ? f->bytes / l->inode_bytes : 0);
}

void set_add(struct policy_set *s, struct policy_entries *l, size_t i)
{
	const struct policy_entry *e = &l->v[i];
	const struct link_ref *ref = l->refs + e->refs;

	s->n++;
	s->bytes += e->bytes;
	s->inodes += e->inodes;
	s->referenced_bytes += e->referenced_bytes;
	for (size_t n = entry_refs(l, i); n > 0; n--, ref++) {
		struct link_file *f = &l->links.v[ref->file];
		bool was_freed = link_is_freed(f);

		f->names += ref->names;
		if (!was_freed && link_is_freed(f))
			set_add_file(s, l, f);
	}
}

void set_remove(struct policy_set *s, struct policy_entries *l, size_t i)
{
	const struct policy_entry *e = &l->v[i];
	const struct link_ref *ref = l->refs + e->refs;

	s->n--;
	s->bytes -= e->bytes;
	s->inodes -= e->inodes;
	s->referenced_bytes -= e->referenced_bytes;
	for (size_t n = entry_refs(l, i); n > 0; n--, ref++) {
		struct link_file *f = &l->links.v[ref->file];
		bool was_freed = link_is_freed(f);

		f->names -= ref->names;
		if (was_freed && !link_is_freed(f))
			set_remove_file(s, l, f);
	}
}

static const struct {
	const char *name, *words, *state;
} dispositions[DISPOSITIONS] = {
	[DISPOSITION_UNDECIDED] = { "undecided", "not decided" },
	[DISPOSITION_PROTECTED] = { "protected", "is protected", "protected" },
	[DISPOSITION_MOUNT] = { "mount", "is or holds a mount point", "mount points, or hold one" },
	[DISPOSITION_IN_USE] = { "open", "is open", "open" },
	[DISPOSITION_LOCKED] = { "locked", "is locked by another process",
				 "locked by another process" },
	[DISPOSITION_UNREAD] = { "unread", "could not be looked at in full",
				 "not readable in full" },
	[DISPOSITION_IMMUTABLE] = { "immutable", "is immutable or append-only: see lsattr(1)",
				    "immutable or append-only" },
	[DISPOSITION_PINNED] = { "pinned", "pinned", "pinned" },
	[DISPOSITION_NO_TIME] = { "no-time", "has no time to go by", "without a time" },
	[DISPOSITION_AMBIGUOUS_TIME] = { "ambiguous-time", "its name can be read as several times",
					 "of several possible times" },
	[DISPOSITION_NO_SERIES] = { "no-series", "group-by does not match it",
				    "outside every series" },
	[DISPOSITION_NOT_EMPTY] = { "not-empty", "is not empty", "not empty" },
	[DISPOSITION_OTHER_KEEPS] = { "other-keep", "keep of another policy",
				      "kept by another policy" },
	[DISPOSITION_CHANGED] = { "changed", "has changed meanwhile", "changed meanwhile" },
	[DISPOSITION_FUTURE] = { "future", "its time is in the future", "dated in the future" },
	[DISPOSITION_KEPT] = { "keep", "keep", "kept by keep" },
	[DISPOSITION_MIN_COUNT] = { "min-count", "min-count", "kept by min-count" },
	[DISPOSITION_MIN_AGE] = { "min-age", "min-age", "younger than min-age" },
	[DISPOSITION_WITHIN_LIMITS] = { "within-limits", "within the limits", "within the limits" },
	[DISPOSITION_FREES_NOTHING] = { "frees-nothing",
					"frees nothing: other names hold its data, or it has none",
					"of no use, as deleting them frees nothing" },
	[DISPOSITION_CLOCK] = { "clock", "the clock was set, so its age is not known",
				"of unknown age, as the clock was set" },
	[DISPOSITION_NO_RULE] = { "no-rule", "the policy has no rule", "without a rule" },
	[DISPOSITION_UNIT] = { "unit", "stays with others of its unit or chain",
			       "in a unit or chain with these" },
	[DISPOSITION_NOT_KEPT] = { "not-kept", "no rule of keep keeps it" },
	[DISPOSITION_MAX_AGE] = { "max-age", "max-age" },
	[DISPOSITION_MAX_FILES] = { "max-files", "max-files" },
	[DISPOSITION_MAX_SERIES_SIZE] = { "max-size-per-series", "max-size-per-series" },
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

const char *disposition_state(enum disposition disposition)
{
	return dispositions[disposition].state;
}
