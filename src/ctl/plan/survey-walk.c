/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/remove/subvolume.h"
#include "survey-state.h"

/* So many entries are all looked at, and of what is more one in 25: a tree of half a million costs
 * less than one look for twenty entries. Where each look may be a round trip, one in 100. Runs of
 * 16 share a block of inodes. */
#define WHOLE 4096
#define WINDOW 400
#define WHOLE_REMOTE 512
#define WINDOW_REMOTE 1600
#define RUN 16

/* A tree that takes longer than this is a large one, and is read so long at a time, followed by
 * as long a rest. */
#define LARGE_AFTER (2 * USEC_PER_SEC)
#define READ_FOR (50 * USEC_PER_MSEC)

/* Levels remembered, at 40 bytes each; of deeper directories each chunk is taken for a whole one.
 */
#define LEVELS_MOST 4096

/* Any value but 0 keeps directory chunks at the lane's own 64 KiB, some 2,000 entries: pauses come
 * between chunks. */
#define CHUNK_MEMORY 1

/* Reads for a while, rests for as long. */
static void pace(struct survey *s)
{
	uint64_t now = now_usec(), rest;

	if (now - s->began_usec < LARGE_AFTER)
		s->woke_usec = now;
	if (now - s->woke_usec < READ_FOR)
		return;
	for (rest = now - s->woke_usec; rest > 0 && !atomic_load(&s->cancelled);) {
		uint64_t nap = MIN(rest, READ_FOR);

		(void)usleep((useconds_t)nap);
		rest -= nap;
	}
	s->woke_usec = now_usec();
}

/* Fills in a level from its open directory. Returns why nothing in it can be deleted, or NULL. */
static const char *level_fill(struct survey_level *v, int fd, struct statx *ret)
{
	const char *why;

	*v = (struct survey_level){ 0 };
	if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_BASIC_STATS,
		  ret) < 0)
		return NULL;
	v->dev = makedev(ret->stx_dev_major, ret->stx_dev_minor);
	v->ino = ret->stx_ino;
	v->sticky = ret->stx_mode & S_ISVTX;
	v->owner = ret->stx_uid;
	why = obstacle_in_directory(fd, ret);
	v->blocked = why != NULL;
	return why;
}

/* The level at a depth; NULL if levels so deep are not kept. */
static struct survey_level *level_at(struct survey *s, uint64_t depth)
{
	return depth < LEVELS_MOST ? &s->levels[depth] : NULL;
}

/* Takes note of a subvolume that has been entered. */
static void subvolume_take(struct survey *s, const struct engine_listing *l)
{
	struct subvolume v;

	s->f.subvolumes++;
	if (l->depth == 1)
		s->contained = false;
	if (subvolume_info(l->fd, &v) < 0)
		return;
	s->f.snapshots += v.is_snapshot;
	if (s->n_subvolumes < SUBVOLUMES_MOST)
		s->subvolumes[s->n_subvolumes++] = v;
}

/* What the directory itself is, when it is seen for the first time. */
static void directory_take(struct survey *s, const struct spot *at, const struct statx *sx,
			   const char *why)
{
	const struct survey_level *above = level_at(s, at->l->depth - 1);
	const char *own = NULL;
	char path[PATH_MAX];

	s->directories_read++;
	if (above && !above->blocked)
		own = obstacle_of_entry(&s->caller, sx, above->sticky, above->owner);
	s->undeletable_known += own != NULL;
	if (!own && !at->level->blocked)
		s->directory_bytes += sx->stx_blocks * 512;
	if (!why || (at->l->list->n == 0 && own))
		why = own;
	else if (at->l->list->n == 0)
		why = NULL; /* an empty directory goes without being changed */
	if (why) {
		spot_path(s, at, NULL, path, sizeof(path));
		obstacles_add(&s->f.obstacles, path, why, 0);
	}
	if (engine_profile(s->engine)->subvolumes && subvolume_is(at->l->fd))
		subvolume_take(s, at->l);
}

/* The level of a listing, filled in if it is a new one. */
static struct survey_level *level_enter(struct survey *s, const struct engine_listing *l)
{
	struct survey_level *v = level_at(s, l->depth);
	const char *why;
	struct statx sx;

	if (v && !l->first)
		return v;
	if (!v)
		v = &s->deep;
	why = level_fill(v, l->fd, &sx);
	if (l->first && v->ino)
		directory_take(s, &(struct spot){ l->fd, v, l }, &sx, why);
	return v;
}

static void on_listed(const struct engine_listing *l, void *userdata)
{
	struct survey *s = userdata;
	struct survey_level *v = level_enter(s, l);
	struct spot at = { l->fd, v, l };

	v->entries += l->list->n;
	if (v->blocked)
		s->undeletable_known += l->list->n;
	if (l->list->n > 0)
		s->f.depth = MAX(s->f.depth, l->depth);
	if (top_wants(&s->f.largest_directories, v->entries)) {
		char path[PATH_MAX];

		spot_path(s, &at, NULL, path, sizeof(path));
		top_put(&s->f.largest_directories,
			&(struct top_entry){
				.path = path, .dev = v->dev, .ino = v->ino, .amount = v->entries });
	}
	for (size_t i = 0; i < l->list->n; i++)
		survey_take(s, &at, dirlist_name(l->list, &l->list->v[i]), l->list->v[i].ino,
			    l->list->v[i].type);
	pace(s);
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	struct survey *s = userdata;

	s->undeletable_known++;
	s->f.unread++;
	obstacles_add(&s->f.obstacles, p->path, p->what, p->error);
}

static void on_progress(const struct engine_progress *p, void *userdata)
{
	struct survey *s = userdata;

	if (s->progress)
		s->progress(p, s->userdata);
}

int survey_new(struct survey **ret, const struct target *t, const struct holders *h,
	       survey_progress_t progress, void *userdata)
{
	struct survey *s = calloc(1, sizeof(*s));
	struct engine_options o = {
		.fixed_backend = true,
		.backend = BACKEND_THREADS,
		.lanes = 1,
		.dry = true,
		.memory_bytes = CHUNK_MEMORY,
		.problem = on_problem,
		.listed = on_listed,
		.progress = on_progress,
		.userdata = s,
	};
	bool remote;
	int r;

	if (!s)
		return -ENOMEM;
	s->target = t;
	s->holders = h;
	s->progress = progress;
	s->userdata = userdata;
	s->f.snapshots_elsewhere = -ENODATA;
	caller_find(&s->caller);
	s->levels = calloc(LEVELS_MOST, sizeof(*s->levels));
	r = s->levels ? engine_new(&s->engine, &o, t->dirfd) : -ENOMEM;
	if (r < 0) {
		survey_free(s);
		return r;
	}
	remote = engine_profile(s->engine)->server;
	sampler_init(&s->sampler, remote ? WHOLE_REMOTE : WHOLE, RUN,
		     remote ? WINDOW_REMOTE : WINDOW);
	*ret = s;
	return 0;
}

void findings_done(struct findings *f)
{
	obstacles_done(&f->obstacles);
	top_done(&f->largest_files);
	top_done(&f->largest_directories);
	for (size_t i = 0; i < f->n_open; i++)
		free(f->open[i].path);
	*f = (struct findings){ 0 };
}

struct survey *survey_free(struct survey *s)
{
	if (!s)
		return NULL;
	engine_free(s->engine);
	findings_done(&s->f);
	links_done(&s->links);
	free(s->levels);
	free(s);
	return NULL;
}

void survey_cancel(struct survey *s)
{
	atomic_store(&s->cancelled, true);
	engine_cancel(s->engine);
}

/* The target itself, and the directory that it lies in. */
static void survey_top(struct survey *s)
{
	const struct target *t = s->target;
	struct survey_level *around = &s->levels[0], own;
	struct statx sx;
	const char *why = level_fill(around, t->dirfd, &sx);

	if (why) {
		s->undeletable_known++;
		obstacles_add(&s->f.obstacles, t->dir[0] ? t->dir : ".", why, 0);
	}
	/* A subvolume has a device number of its own. */
	own = *around;
	own.dev = t->id.dev;
	survey_take(s, &(struct spot){ t->dirfd, &own, NULL }, t->name, t->id.ino,
		    (uint8_t)IFTODT(t->id.mode));
}

static int survey_walk(struct survey *s)
{
	const struct target *t = s->target;
	struct root_group *g = &s->group;
	int r;

	s->pin = t->id;
	*g = (struct root_group){ .dir = t->dir,
				  .dirfd = t->dirfd,
				  .accepted = true,
				  .pins = &s->pin,
				  .explicit_names = true };
	r = fd_identity(t->dirfd, "", &g->id);
	if (r >= 0)
		r = dirlist_add(&g->names, t->name, 0, DT_DIR);
	if (r >= 0)
		r = engine_add(s->engine, g);
	dirlist_done(&g->names);
	return r < 0 ? r : engine_run(s->engine);
}

/* Finds out which snapshots share what is to be deleted. */
static void survey_snapshots(struct survey *s, int fd)
{
	size_t n = s->n_subvolumes;

	if (s->contained && n < SUBVOLUMES_MOST)
		s->subvolumes[n++] = s->container;
	s->f.snapshots_elsewhere = snapshots_elsewhere(fd, s->subvolumes, n);
}

int survey_run(struct survey *s, struct findings *ret)
{
	_cleanup_close_ int around = -1;
	int r;

	s->began_usec = s->woke_usec = now_usec();
	s->f.mode = s->target->id.mode;
	if (engine_profile(s->engine)->subvolumes)
		around = fd_open_dir(s->target->dirfd, ".");
	s->contained = around >= 0 && subvolume_info(around, &s->container) == 0;
	survey_top(s);
	r = S_ISDIR(s->f.mode) ? survey_walk(s) : 0;
	if (r < 0)
		return r;
	if (around >= 0)
		survey_snapshots(s, around);
	s->f.complete = !atomic_load(&s->cancelled);
	survey_conclude(s);
	*ret = s->f;
	s->f = (struct findings){ 0 };
	return 0;
}
