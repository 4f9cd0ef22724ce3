/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "polkit-grant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "daemon/jobs/job-rest.h"
#include "operations-state.h"

static void note(struct grant *g, uint64_t id, const struct job_stub *s)
{
	struct granted *to = &g->jobs[g->n++];

	*to = (struct granted){ .id = id, .there = s };
	if (!to->there) {
		g->one_owner = false;
		return;
	}
	memcpy(to->uuid, s->uuid, sizeof(to->uuid));
	if (g->n == 1)
		g->owner = s->submitter->id.uid;
	g->one_owner = g->one_owner && g->owner == s->submitter->id.uid;
}

struct making {
	struct grant *grant;
	void (*made)(int r, struct grant *g, void *userdata);
	void *userdata;
};

static void on_awake(int r, struct job_stub *s, void *userdata)
{
	struct making *m = userdata;

	m->grant->path = r >= 0 ? strdup(s->job->r.path) : NULL;
	if (!m->grant->path)
		m->grant = grant_free(m->grant);
	m->made(r < 0 ? r : m->grant ? 0 : -ENOMEM, m->grant, m->userdata);
	free(m);
}

void grant_make(const struct operations *o, const struct caller *c, const uint64_t *ids, size_t n,
		void (*made)(int r, struct grant *g, void *userdata), void *userdata)
{
	struct grant *g = calloc(1, sizeof(*g) + n * sizeof(g->jobs[0]));
	struct making *m = malloc(sizeof(*m));
	struct job_stub *s = NULL;

	if (!g || !m) {
		free(g);
		free(m);
		made(-ENOMEM, NULL, userdata);
		return;
	}
	*m = (struct making){ g, made, userdata };
	g->everybody = n == 0;
	g->one_owner = true;
	for (size_t i = 0; i < n; i++) {
		struct job_record key = { 0 };

		s = job_table_find(&o->jobs->table, ids[i]);
		if (s)
			key = job_stub_key(s);
		if (!s || !caller_may_see(c, &key))
			note(g, ids[i], s);
	}
	g->one_owner = g->one_owner && g->n > 0;
	if (n == 1 && g->one_owner) {
		job_wake(s, on_awake, m);
		return;
	}
	made(0, g, userdata);
	free(m);
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
