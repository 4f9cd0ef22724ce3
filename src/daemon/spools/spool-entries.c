/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "spool-state.h"

/* What becomes due within this time is offered together: a tool that moves thousands of entries
 * takes seconds. One alone does not wait for others. */
#define TOGETHER_USEC (5 * (int64_t)USEC_PER_SEC)

/* ---- by name ------------------------------------------------------------------------------ */

/* The tree's keys are the names themselves, so that one can be looked for without an entry. */
static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct spool_entry *spool_entry_find(const struct spool *s, const char *name)
{
	char *const *found = tfind(name, &s->by_name, by_name);

	return found ? (struct spool_entry *)(void *)(*found - offsetof(struct spool_entry, name))
		     : NULL;
}

struct spool_entry *spool_entry_get(struct spool *s, const char *name)
{
	struct spool_entry *e = spool_entry_find(s, name);
	size_t size = strlen(name) + 1;

	if (e || s->n_entries >= SPOOL_ENTRIES_MOST)
		return e;
	e = calloc(1, sizeof(*e) + size);
	if (!e)
		return NULL;
	memcpy(e->name, name, size);
	e->submitter = -1;
	if (!tsearch(e->name, &s->by_name, by_name)) {
		free(e);
		return NULL;
	}
	LIST_INSERT_HEAD(&s->entries, e, link);
	s->n_entries++;
	return e;
}

void spool_entry_forget(struct spool *s, struct spool_entry *e)
{
	spool_entry_set_touched(s, e, false);
	(void)tdelete(e->name, &s->by_name, by_name);
	LIST_REMOVE(e, link);
	s->n_entries--;
	free(e);
}

void spool_entry_set_touched(struct spool *s, struct spool_entry *e, bool touched)
{
	s->n_touched += (size_t)touched - (size_t)e->touched;
	e->touched = touched;
}

/* ---- what is due -------------------------------------------------------------------------- */

void spool_entry_later(const struct spool *s, struct spool_entry *e)
{
	e->state = SPOOL_WAITING;
	e->later = true;
	e->since_usec = spool_clock_usec(CLOCK_MONOTONIC) + LATER_USEC - (int64_t)s->settle_usec;
}

/* INT64_MAX: it does not wait for a time. */
static int64_t deadline_usec(const struct spool *s, const struct spool_entry *e)
{
	return e->state == SPOOL_WAITING ? e->since_usec + (int64_t)s->settle_usec : INT64_MAX;
}

/* When the next batch is to be offered; INT64_MAX: there is none. */
static int64_t next_batch_usec(const struct spool *s, int64_t now)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	const struct spool_entry *e;

	LIST_FOREACH(e, &s->entries, link)
		first = MIN(first, deadline_usec(s, e));
	if (first == INT64_MAX)
		return INT64_MAX;
	/* What has been due for long, as at the start, waits for nothing but its fellows. */
	first = MAX(first, now - TOGETHER_USEC);
	LIST_FOREACH(e, &s->entries, link)
		if (deadline_usec(s, e) <= first + TOGETHER_USEC)
			last = MAX(last, deadline_usec(s, e));
	return last;
}

int spool_prepare(struct spool *s)
{
	int64_t now = spool_clock_usec(CLOCK_MONOTONIC);
	bool serves = s->state == SPOOL_SERVED && !s->common->returned_more;
	int64_t at = serves ? next_batch_usec(s, now) : INT64_MAX;
	struct spool_entry *e;

	if (at > now)
		return spool_timer_set(s, at);
	LIST_FOREACH(e, &s->entries, link)
		if (deadline_usec(s, e) <= now)
			spool_entry_set_touched(s, e, true);
	s->deliver = true;
	return 0;
}

/* ---- batches ------------------------------------------------------------------------------ */

struct spool_batch *spool_batch_free(struct spool_batch *b)
{
	if (!b)
		return NULL;
	free(b->origin);
	free(b->names);
	free(b->ids);
	free(b);
	return NULL;
}

static int by_group(const void *a, const void *b)
{
	const struct spool_entry *x = *(struct spool_entry *const *)a;
	const struct spool_entry *y = *(struct spool_entry *const *)b;

	if (x->submitter != y->submitter)
		return x->submitter < y->submitter ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Offers n entries of one submitter and part. They may be forgotten when it returns. */
static int offer(struct spool *s, const struct spool_round *r, struct spool_entry **v, size_t n)
{
	struct spool_batch *b = calloc(1, sizeof(*b));
	size_t len = 0;
	char *to;

	if (!b)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		len += strlen(v[i]->name) + 1;
	*b = (struct spool_batch){ .id = ++s->common->last_id,
				   .origin = strdup(s->origin),
				   .names = malloc(len),
				   .names_len = len,
				   .ids = calloc(n, sizeof(*b->ids)),
				   .n = n,
				   .undo_usec = s->undo_usec,
				   .dir_path = s->path,
				   .dirfd = r->dirfd,
				   .submitter = &r->submitters[v[0]->submitter] };
	if (!b->origin || !b->names || !b->ids) {
		(void)spool_batch_free(b);
		return -ENOMEM;
	}
	to = b->names;
	for (size_t i = 0; i < n; i++) {
		to = stpcpy(to, v[i]->name) + 1;
		b->ids[i] = v[i]->stamp.id;
		v[i]->state = SPOOL_OFFERED;
		v[i]->batch = b->id;
	}
	s->common->options.take(b, s->common->options.userdata);
	return 0;
}

int spool_deliver(struct spool *s, const struct spool_round *r)
{
	_cleanup_free_ struct spool_entry **v = NULL;
	int64_t now = spool_clock_usec(CLOCK_MONOTONIC);
	struct spool_entry *e;
	size_t n = 0, end;
	int k = 0;

	if (s->common->returned_more)
		return 0;
	v = calloc(s->n_entries + 1, sizeof(struct spool_entry *));
	if (!v)
		return -ENOMEM;
	LIST_FOREACH(e, &s->entries, link)
		if (deadline_usec(s, e) <= now && e->round == r->number && e->submitter >= 0)
			v[n++] = e;
	qsort(v, n, sizeof(struct spool_entry *), by_group);
	for (size_t i = 0; i < n && k >= 0; i = end) {
		for (end = i + 1;
		     end < n && v[end]->submitter == v[i]->submitter && v[end]->part == v[i]->part;
		     end++)
			;
		k = offer(s, r, v + i, end - i);
	}
	return k;
}

bool spool_answer(struct spool *s, uint64_t batch, enum spool_outcome outcome)
{
	size_t n = 0, i = 0;
	struct spool_entry *e;

	LIST_FOREACH(e, &s->entries, link)
		n += e->state == SPOOL_OFFERED && e->batch == batch;
	LIST_FOREACH(e, &s->entries, link) {
		if (e->state != SPOOL_OFFERED || e->batch != batch)
			continue;
		switch (outcome) {
		case SPOOL_ACCEPTED:
			e->state = SPOOL_TAKEN;
			s->taken++;
			break;
		case SPOOL_DENIED:
			e->state = n == 1 ? SPOOL_REFUSED : SPOOL_WAITING;
			e->part = s->common->last_part + 1 + (uint32_t)(2 * i++ / n);
			break;
		case SPOOL_LATER:
			spool_entry_later(s, e);
			break;
		}
	}
	s->common->last_part += 2;
	if (n > 0)
		spool_kick(s);
	return n > 0;
}
