/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-returned.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/stat.h>

struct returned {
	uint64_t ino;
	int64_t btime_nsec, ctime_nsec;
	uint32_t type;
	enum returned_why why;
};

/* Not by the filesystem: of two that are alike in all this, both are left alone. */
static int by_identity(const void *a, const void *b)
{
	const struct returned *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	if (x->btime_nsec != y->btime_nsec)
		return x->btime_nsec < y->btime_nsec ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

void spool_returned_done(struct spool_returned *s)
{
	tdestroy(s->tree, free);
	*s = (struct spool_returned){ 0 };
}

int spool_returned_add(struct spool_returned *s, const struct lasting_identity *id,
		       enum returned_why why, int64_t ctime_nsec)
{
	struct returned *r = malloc(sizeof(*r)), **at;

	if (!r)
		return -ENOMEM;
	*r = (struct returned){ .ino = id->ino,
				.btime_nsec = id->btime_nsec,
				.ctime_nsec = ctime_nsec,
				.type = id->type,
				.why = why };
	at = tsearch(r, &s->tree, by_identity);
	if (at && *at == r && s->n == RETURNED_MOST) {
		(void)tdelete(r, &s->tree, by_identity);
		free(r);
		return -E2BIG;
	}
	s->n += at && *at == r;
	if (at && *at != r)
		**at = *r;
	if (!at || *at != r)
		free(r);
	return at ? 0 : -ENOMEM;
}

enum returned_why spool_returned_check(struct spool_returned *s, const struct spool_stamp *seen)
{
	struct returned key = { .ino = seen->id.ino,
				.btime_nsec = seen->id.btime_nsec,
				.type = seen->id.mode & S_IFMT };
	struct returned **at = tfind(&key, &s->tree, by_identity), *r = at ? *at : NULL;

	if (!r)
		return RETURNED_NOT;
	if (r->ctime_nsec == INT64_MAX)
		r->ctime_nsec = seen->ctime_nsec;
	if (seen->ctime_nsec <= r->ctime_nsec)
		return r->why;
	(void)tdelete(r, &s->tree, by_identity);
	s->n--;
	free(r);
	return RETURNED_NOT;
}
