/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "prescan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "engine/engine.h"

/* Reading is some twenty times as fast as deleting, so after this head start it stays ahead. */
#define HEAD_START (300 * USEC_PER_MSEC)

struct prescan {
	pthread_t thread;
	struct progress *progress;
	struct engine **engines; /* one per filesystem */
	size_t n, n_copies;
	struct root_group *copies; /* one per group; dir is NULL until it is taken */
	uint64_t entries, bytes;   /* of the engines that are done */
	_Atomic bool stop, done;
};

static void on_progress(const struct engine_progress *p, void *userdata)
{
	struct prescan *s = userdata;

	progress_total(s->progress, s->entries + p->stats.entries, s->bytes + p->stats.bytes,
		       false);
}

static void *count(void *userdata)
{
	struct prescan *s = userdata;

	for (size_t i = 0; i < s->n; i++) {
		struct engine_progress p;

		if (engine_run(s->engines[i]) < 0)
			continue;
		engine_result(s->engines[i], &p);
		s->entries += p.stats.entries;
		s->bytes += p.stats.bytes;
	}
	if (!s->stop)
		progress_total(s->progress, s->entries, s->bytes, true);
	s->done = true;
	return NULL;
}

/* The engines take groups over, so they get copies: names only, no pins. */
static int group_copy(const struct root_group *g, struct root_group *ret)
{
	*ret = (struct root_group){ .dir = g->dir, .dirfd = -1, .accepted = true, .id = g->id };
	for (size_t i = 0; i < g->names.n; i++) {
		const struct dentry *d = &g->names.v[i];
		int r = dirlist_add(&ret->names, dirlist_name(&g->names, d), d->ino, d->type);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Adds all groups on the filesystem of group `first` that were not yet added to any engine. */
static int engine_fill(struct prescan *s, const struct roots *roots, size_t first, bool weigh)
{
	struct engine_options o = {
		.fixed_backend = true,
		.dry = true,
		.weigh = weigh,
		.lanes = 1,
		.progress = on_progress,
		.userdata = s,
	};
	struct engine *e = NULL;
	int fd = root_group_open(roots->v[first]);
	int r = fd < 0 ? fd : engine_new(&e, &o, fd);

	if (fd != roots->v[first]->dirfd)
		fd_closep(&fd);
	for (size_t i = first; r >= 0 && i < roots->n; i++) {
		const struct root_group *g = roots->v[i];

		if (!g->accepted || s->copies[i].dir || g->id.dev != roots->v[first]->id.dev)
			continue;
		r = group_copy(g, &s->copies[i]);
		if (r >= 0)
			r = engine_add(e, &s->copies[i]);
	}
	if (r < 0) {
		engine_free(e);
		return r;
	}
	s->engines[s->n++] = e;
	return 0;
}

static void prescan_free(struct prescan *s)
{
	for (size_t i = 0; i < s->n; i++)
		engine_free(s->engines[i]);
	for (size_t i = 0; i < s->n_copies; i++)
		dirlist_done(&s->copies[i].names);
	free(s->copies);
	free(s->engines);
	free(s);
}

struct prescan *prescan_start(const struct roots *roots, struct progress *p, bool weigh)
{
	uint64_t until = now_usec() + HEAD_START;
	struct prescan *s;
	int r = 0;

	if (!progress_wants_total(p))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->progress = p;
	s->engines = calloc(roots->n + 1, sizeof(struct engine *));
	s->copies = calloc(roots->n + 1, sizeof(*s->copies));
	s->n_copies = s->copies ? roots->n : 0;
	for (size_t i = 0; s->engines && s->copies && r >= 0 && i < roots->n; i++)
		if (roots->v[i]->accepted && !s->copies[i].dir)
			r = engine_fill(s, roots, i, weigh);
	if (r < 0 || !s->engines || !s->copies || s->n == 0 ||
	    thread_start(&s->thread, count, s) < 0) {
		prescan_free(s);
		return NULL;
	}
	while (!s->done && now_usec() < until)
		(void)usleep(5000);
	return s;
}

void prescan_stop(struct prescan *s)
{
	if (!s)
		return;
	s->stop = true;
	for (size_t i = 0; i < s->n; i++)
		engine_cancel(s->engines[i]);
	(void)pthread_join(s->thread, NULL);
	prescan_free(s);
}
