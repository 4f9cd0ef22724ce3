/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"
#include "base/staging-dir.h"
#include "base/units.h"

/* A user may put any number of directories into its area: of so many it is told why they stay. Less
 * than an answer on D-Bus may have. */
#define ITEMS_MOST 4096
#define BYTES_MOST KiB(512)

static bool is_kept(const struct adoption_item *item)
{
	return strcmp(item->outcome, "kept") == 0;
}

void finding_add(struct findings *f, char *path, const struct adoption_item *other)
{
	/* What is adopted is on record as well: of that which stays a person has to hear. */
	size_t part = is_kept(other) ? 1 : 2;
	size_t bytes = (path ? strlen(path) : 0) + strlen(other->why) + sizeof(*other);
	struct adoption_item *item = NULL;
	char *why = strdup(other->why);

	f->kept += is_kept(other);
	f->adopted += other->job > 0;
	if (path && why && f->n < ITEMS_MOST / part && f->bytes + bytes <= BYTES_MOST / part)
		item = array_add(&f->items, &f->n, sizeof(*item));
	if (!item) {
		f->untold++;
		f->untold_kept += is_kept(other);
		f->untold_outcome = other->outcome;
		free(path);
		free(why);
		return;
	}
	f->bytes += bytes;
	*item = *other;
	item->path = path;
	item->why = why;
}

void findings_end(struct findings *f, const char *host)
{
	char part[STAGING_PART_SIZE], *path, *why;
	struct adoption_item *item;

	if (f->untold == 0)
		return;
	staging_part_format(part, host);
	if (asprintf(&path, STAGING_DIR "/%s", part) < 0)
		path = NULL;
	if (asprintf(&why, "%zu more are not listed: see what is in there", f->untold) < 0)
		why = NULL;
	item = path && why ? array_add(&f->items, &f->n, sizeof(*item)) : NULL;
	if (!item) {
		free(path);
		free(why);
		return;
	}
	memmove(f->items + 1, f->items, (f->n - 1) * sizeof(*item));
	f->items[0] = (struct adoption_item){
		.path = path,
		.outcome = f->untold_kept > 0 ? "kept" : f->untold_outcome,
		.why = why,
	};
}

void findings_clear(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free((char *)f->items[i].path);
		free((char *)f->items[i].why);
	}
	free(f->items);
	*f = (struct findings){ 0 };
}
