/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spool-one.h"
#include "spool-state.h"

/* What becomes due within this time is offered together: a tool that moves thousands of entries
 * takes seconds. One alone does not wait for others. */
#define TOGETHER_USEC (5 * (int64_t)USEC_PER_SEC)

int64_t spool_clock_usec(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * (int64_t)USEC_PER_SEC + ts.tv_nsec / 1000;
}

void spool_entry_later(const struct spool *s, struct spool_entry *e)
{
	e->state = SPOOL_WAITING;
	e->later = true;
	e->since_usec = spool_clock_usec(CLOCK_MONOTONIC) + LATER_USEC - (int64_t)s->settle_usec;
}

struct dues {
	int64_t settle_usec, first_usec, last_usec; /* first: INT64_MAX if there is none */
};

static int64_t entry_deadline_usec(const struct spool_entry *e, int64_t settle_usec)
{
	return e->since_usec + settle_usec;
}

static void find_first(struct spool_entry *e, void *userdata)
{
	struct dues *d = userdata;

	if (e->state == SPOOL_WAITING)
		d->first_usec = MIN(d->first_usec, entry_deadline_usec(e, d->settle_usec));
}

static void find_last(struct spool_entry *e, void *userdata)
{
	struct dues *d = userdata;
	int64_t due = entry_deadline_usec(e, d->settle_usec);

	if (e->state == SPOOL_WAITING && due <= d->first_usec + TOGETHER_USEC)
		d->last_usec = MAX(d->last_usec, due);
}

/* When the next batch is to be offered; INT64_MAX: there is none. */
static int64_t next_batch_usec(const struct spool *s, int64_t now)
{
	struct dues d = { .settle_usec = (int64_t)s->settle_usec,
			  .first_usec = INT64_MAX,
			  .last_usec = INT64_MIN };

	spool_entries_walk(&s->entries, find_first, &d);
	if (d.first_usec == INT64_MAX)
		return INT64_MAX;
	/* What has been due for long, as at the start, waits for nothing but its fellows. */
	d.first_usec = MAX(d.first_usec, now - TOGETHER_USEC);
	spool_entries_walk(&s->entries, find_last, &d);
	return d.last_usec;
}

struct deliverable {
	const struct spool_round *round;
	int64_t now, settle_usec;
};

static bool is_due(const struct spool_entry *e, const void *userdata)
{
	const struct deliverable *d = userdata;

	return e->state == SPOOL_WAITING && entry_deadline_usec(e, d->settle_usec) <= d->now &&
	       (!d->round || (e->round == d->round->number && e->submitter >= 0));
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

/* Room for what a batch consists of, used by one after the other. */
struct room {
	struct identity *ids;
	char *names;
};

/* Offers n entries of one submitter and part. They may be forgotten when it returns. */
static void offer(struct spool *s, const struct spool_round *r, const struct room *room,
		  struct spool_entry **v, size_t n)
{
	struct spool_batch b = { .id = ++s->common->last_id,
				 .origin = s->origin,
				 .dir_path = s->path,
				 .dirfd = r->dirfd,
				 .names = room->names,
				 .ids = room->ids,
				 .n = n,
				 .submitter = &r->submitters[v[0]->submitter],
				 .undo_usec = s->undo_usec };
	char *to = room->names;

	for (size_t i = 0; i < n; i++) {
		to = stpcpy(to, v[i]->name) + 1;
		room->ids[i] = v[i]->stamp.id;
		v[i]->state = SPOOL_OFFERED;
		v[i]->batch = b.id;
	}
	b.names_len = (size_t)(to - room->names);
	s->common->options.take(&b, s->common->options.userdata);
}

static int offer_all(struct spool *s, const struct spool_round *r, struct spool_entry **v, size_t n)
{
	struct room room = { 0 };
	size_t len = 0, end;

	for (size_t i = 0; i < n; i++)
		len += strlen(v[i]->name) + 1;
	room.ids = calloc(n, sizeof(*room.ids));
	room.names = malloc(len);
	if (!room.ids || !room.names) {
		free(room.ids);
		free(room.names);
		return -ENOMEM;
	}
	qsort(v, n, sizeof(struct spool_entry *), by_group);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1;
		     end < n && v[end]->submitter == v[i]->submitter && v[end]->part == v[i]->part;
		     end++)
			;
		offer(s, r, &room, v + i, end - i);
	}
	free(room.ids);
	free(room.names);
	return 0;
}

int spool_deliver(struct spool *s, const struct spool_round *r)
{
	struct deliverable d = { .round = r,
				 .now = spool_clock_usec(CLOCK_MONOTONIC),
				 .settle_usec = (int64_t)s->settle_usec };
	struct spool_entry **v;
	ssize_t n = spool_entries_choose(&s->entries, is_due, &d, &v);
	int k;

	if (n < 0)
		return (int)n;
	k = n > 0 ? offer_all(s, r, v, (size_t)n) : 0;
	free(v);
	return k;
}

/* Marks what is due for a last check, if it is time for a batch; else sets the timer to when. */
int spool_prepare(struct spool *s)
{
	struct deliverable d = { .now = spool_clock_usec(CLOCK_MONOTONIC),
				 .settle_usec = (int64_t)s->settle_usec };
	int64_t at = s->state == SPOOL_SERVED ? next_batch_usec(s, d.now) : INT64_MAX;
	struct spool_entry **v;
	ssize_t n;

	if (at > d.now)
		return spool_timer_set(s, at);
	n = spool_entries_choose(&s->entries, is_due, &d, &v);
	if (n < 0)
		return (int)n;
	for (ssize_t i = 0; i < n; i++)
		spool_entry_set_touched(&s->entries, v[i], true);
	free(v);
	s->deliver = true;
	return 0;
}

static bool is_of_batch(const struct spool_entry *e, const void *userdata)
{
	return e->state == SPOOL_OFFERED && e->batch == *(const uint64_t *)userdata;
}

static void entry_answer(struct spool *s, struct spool_entry *e, enum spool_outcome outcome,
			 bool alone, uint32_t part)
{
	switch (outcome) {
	case SPOOL_ACCEPTED:
		e->state = SPOOL_TAKEN;
		s->taken++;
		break;
	case SPOOL_DENIED:
		e->state = alone ? SPOOL_REFUSED : SPOOL_WAITING;
		e->part = part;
		break;
	case SPOOL_LATER:
		spool_entry_later(s, e);
		break;
	}
}

bool spool_answer(struct spool *s, uint64_t batch, enum spool_outcome outcome)
{
	uint32_t part = s->common->last_part;
	struct spool_entry **v;
	ssize_t n = spool_entries_choose(&s->entries, is_of_batch, &batch, &v);

	if (n < 0) {
		/* They stay offered: neither lost nor submitted twice, until a restart. */
		spool_tell(s, NULL, "cannot note what became of entries: out of memory");
		return true;
	}
	for (ssize_t i = 0; i < n; i++)
		entry_answer(s, v[i], outcome, n == 1, part + 1 + (uint32_t)(2 * i / n));
	free(v);
	s->common->last_part += 2;
	if (n > 0)
		spool_kick(s);
	return n > 0;
}
