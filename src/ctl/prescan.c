/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "prescan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Reading is some twenty times as fast as deleting, so after this head start it stays ahead. */
#define HEAD_START (300 * USEC_PER_MSEC)

struct prescan {
	pthread_t thread;
	pthread_mutex_t lock;
	struct progress *progress;
	struct engine **engines; /* one per filesystem */
	size_t n;
	uint64_t entries, bytes; /* of the engines that are done */
	_Atomic bool stop;
	bool done;
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
	pthread_mutex_lock(&s->lock);
	s->done = true;
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int names_copy(const struct root_group *g, struct dirlist *ret)
{
	for (size_t i = 0; i < g->names.n; i++) {
		const struct dentry *d = &g->names.v[i];
		int r = dirlist_add(ret, dirlist_name(&g->names, d), d->ino, d->type);

		if (r < 0) {
			dirlist_done(ret);
			return r;
		}
	}
	return 0;
}

/* Adds all groups on the filesystem of group `first`. */
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
	int r = engine_new(&e, &o, roots->v[first]->dirfd);

	for (size_t i = first; r >= 0 && i < roots->n; i++) {
		const struct root_group *g = roots->v[i];
		struct dirlist names = { 0 };

		if (g->dirfd < 0 || g->dev != roots->v[first]->dev)
			continue;
		r = names_copy(g, &names);
		if (r >= 0)
			r = engine_add(e, g->dirfd, g->dir, &names, NULL);
		dirlist_done(&names);
	}
	if (r < 0) {
		engine_free(e);
		return r;
	}
	s->engines[s->n++] = e;
	return 0;
}

static bool seen_before(const struct roots *roots, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (roots->v[k]->dirfd >= 0 && roots->v[k]->dev == roots->v[i]->dev)
			return true;
	return false;
}

static void prescan_free(struct prescan *s)
{
	for (size_t i = 0; i < s->n; i++)
		engine_free(s->engines[i]);
	free(s->engines);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void wait_head_start(struct prescan *s)
{
	uint64_t until = now_usec() + HEAD_START;
	bool done = false;

	while (!done && now_usec() < until) {
		(void)usleep(5000);
		pthread_mutex_lock(&s->lock);
		done = s->done;
		pthread_mutex_unlock(&s->lock);
	}
}

struct prescan *prescan_start(const struct roots *roots, struct progress *p, bool weigh)
{
	struct prescan *s;
	int r = 0;

	if (!progress_wants_total(p))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->progress = p;
	s->engines = calloc(MAX(roots->n, (size_t)1), sizeof(struct engine *));
	for (size_t i = 0; s->engines && r >= 0 && i < roots->n; i++)
		if (roots->v[i]->dirfd >= 0 && !seen_before(roots, i))
			r = engine_fill(s, roots, i, weigh);
	if (!s->engines || s->n == 0 || pthread_create(&s->thread, NULL, count, s) != 0) {
		prescan_free(s);
		return NULL;
	}
	wait_head_start(s);
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
