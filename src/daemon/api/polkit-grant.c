/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "polkit-grant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "operations-state.h"

static void note(struct grant *g, uint64_t id, const struct job *j)
{
	struct granted *to = &g->jobs[g->n++];

	*to = (struct granted){ .id = id, .there = j };
	if (!to->there) {
		g->one_owner = false;
		return;
	}
	memcpy(to->uuid, j->r.uuid, sizeof(to->uuid));
	if (g->n == 1)
		g->owner = j->r.uid;
	g->one_owner = g->one_owner && g->owner == j->r.uid;
}

int grant_new(struct grant **ret, const struct operations *o, const struct caller *c,
	      const uint64_t *ids, size_t n)
{
	struct grant *g = calloc(1, sizeof(*g) + n * sizeof(g->jobs[0]));
	const struct job *j = NULL;

	if (!g)
		return -ENOMEM;
	g->everybody = n == 0;
	g->one_owner = true;
	for (size_t i = 0; i < n; i++) {
		j = job_table_find(&o->jobs->table, ids[i]);
		if (!j || !caller_may_see(c, &j->r))
			note(g, ids[i], j);
	}
	g->one_owner = g->one_owner && g->n > 0;
	if (n == 1 && g->one_owner) {
		g->path = strdup(j->r.path);
		if (!g->path) {
			free(g);
			return -ENOMEM;
		}
	}
	*ret = g;
	return 0;
}

struct grant *grant_free(struct grant *g)
{
	if (g)
		free(g->path);
	free(g);
	return NULL;
}

bool grant_covers(const struct grant *g, const struct job_record *r)
{
	for (size_t i = 0; g && i < g->n; i++)
		if (g->jobs[i].there && g->jobs[i].id == r->id &&
		    memcmp(g->jobs[i].uuid, r->uuid, sizeof(r->uuid)) == 0)
			return true;
	return false;
}
