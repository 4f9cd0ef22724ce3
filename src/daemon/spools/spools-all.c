/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool-state.h"

struct spools {
	struct spool_common common;
	struct spool **v;
	size_t n;
};

int spools_new(struct spools **ret, sd_event *event, const struct spools_options *o)
{
	struct spools *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->common.event = sd_event_ref(event);
	s->common.options = *o;
	*ret = s;
	return 0;
}

struct spools *spools_free(struct spools *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		spool_free(s->v[i]);
	free(s->v);
	spool_returned_done(&s->common.returned);
	sd_event_unref(s->common.event);
	free(s);
	return NULL;
}

/* Takes the spool of this path out of an array, or makes one. */
static int spool_find(struct spools *s, struct spool **old, size_t n_old, const char *path,
		      struct spool **ret)
{
	for (size_t i = 0; i < n_old; i++)
		if (old[i] && strcmp(old[i]->path, path) == 0) {
			*ret = old[i];
			old[i] = NULL;
			return 0;
		}
	return spool_new(ret, &s->common, path);
}

int spools_configure(struct spools *s, const struct config_spool *v, size_t n, char *const *protect)
{
	struct spool **fresh = calloc(n + 1, sizeof(struct spool *)), **old = s->v;
	size_t n_old = s->n;
	int r = 0;

	s->common.protect = protect;
	if (!fresh)
		return -ENOMEM;
	s->v = fresh;
	s->n = 0;
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = spool_find(s, old, n_old, v[i].path, &s->v[s->n]);
		if (r >= 0)
			spool_configure(s->v[s->n++], v[i].settle_usec, v[i].undo_usec);
	}
	for (size_t i = 0; i < n_old; i++)
		spool_free(old[i]);
	free(old);
	return r;
}

void spools_taken(struct spools *s, uint64_t batch, enum spool_outcome outcome)
{
	for (size_t i = 0; i < s->n; i++)
		if (spool_answer(s->v[i], batch, outcome))
			return;
}

int spools_returned(struct spools *s, const struct lasting_identity *id, bool kept,
		    int64_t ctime_nsec)
{
	int r = spool_returned_add(&s->common.returned, id,
				   kept ? RETURNED_KEPT : RETURNED_RESTORED, ctime_nsec);

	if (r >= 0 || s->common.returned_more)
		return 0;
	s->common.returned_more = true;
	return r;
}

void spools_retry(struct spools *s)
{
	for (size_t i = 0; i < s->n; i++)
		spool_retry(s->v[i]);
}

void spools_check(struct spools *s)
{
	for (size_t i = 0; i < s->n; i++) {
		s->v[i]->check = true;
		spool_kick(s->v[i]);
	}
}

size_t spools_list(const struct spools *s, struct spool_view *views, size_t n)
{
	static const char *const states[] = { [SPOOL_UNKNOWN] = "absent",
					      [SPOOL_ABSENT] = "absent",
					      [SPOOL_SERVED] = "watching",
					      [SPOOL_UNSERVED] = "refused" };

	for (size_t i = 0; i < MIN(n, s->n); i++) {
		const struct spool *o = s->v[i];
		const struct spool_entry *e;

		views[i] = (struct spool_view){ .path = o->path,
						.message = o->why,
						.state = o->state,
						.state_name = states[o->state],
						.settle_usec = o->settle_usec,
						.undo_usec = o->undo_usec,
						.taken = o->taken };
		LIST_FOREACH(e, &o->entries, link)
			views[i].waiting += e->state == SPOOL_NEW || e->state == SPOOL_WAITING;
	}
	return s->n;
}
