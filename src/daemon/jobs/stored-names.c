/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "stored-names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

/* One task of the store. */
#define CHUNK_NAMES 4096
#define CHUNK_TEXT KiB(256)

struct chunk *chunk_new(void)
{
	return calloc(1, sizeof(struct chunk));
}

int chunk_add_dir(struct chunk *c, uint64_t dir, const char *path,
		  const struct lasting_identity *id)
{
	char *copy = strdup(path);
	struct chunk_dir *d = copy ? array_add(&c->dirs, &c->n_dirs, sizeof(*d)) : NULL;

	if (!d) {
		free(copy);
		return -ENOMEM;
	}
	*d = (struct chunk_dir){ .dir = dir, .path = copy, .id = *id };
	c->text += strlen(path) + 1;
	return 0;
}

int chunk_add_entry(struct chunk *c, const struct entry_record *e)
{
	size_t len = strlen(e->name) + 1;
	struct chunk_entry *added;

	if (array_reserve(&c->names, &c->names_cap, c->names_len + len, 1) < 0)
		return -ENOMEM;
	added = array_add(&c->entries, &c->n, sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added = (struct chunk_entry){
		.seq = e->seq, .dir = e->dir, .name = c->names_len, .id = e->id, .state = e->state
	};
	memcpy(c->names + c->names_len, e->name, len);
	c->names_len += len;
	c->text += len;
	return 0;
}

bool chunk_is_full(const struct chunk *c)
{
	return c->n + c->n_dirs >= CHUNK_NAMES || c->text >= CHUNK_TEXT;
}

/* ---- the store ---------------------------------------------------------------------------- */

int chunk_store(const struct chunk *c, struct store *s, uint64_t job)
{
	int r = 0;

	for (size_t i = 0; i < c->n_dirs && r >= 0; i++)
		r = store_dir_add(s, job, c->dirs[i].dir, c->dirs[i].path, &c->dirs[i].id);
	for (size_t i = 0; i < c->n && r >= 0; i++) {
		const struct chunk_entry *e = &c->entries[i];
		struct entry_record record = { .seq = e->seq,
					       .dir = e->dir,
					       .name = chunk_name(c, e),
					       .id = e->id,
					       .state = e->state };

		r = store_entry_add(s, job, &record);
	}
	return r;
}

/* The number of entries that one read goes over. A read in which few entries are of the states
 * wanted goes on in the next one, so that a job with millions of entries delays no other read. */
#define LOAD_MOST 4096

struct load {
	struct store_queue *store;
	struct chunk *chunk;
	uint64_t caller, job;
	uint64_t from; /* the next entry to be read */
	size_t limit;
	uint32_t states;
	uint64_t dir_first, dir_last;
	size_t read; /* by this read */
	void (*loaded)(int r, struct chunk *c, void *userdata);
	void *userdata;
};

static bool load_is_full(const struct load *l)
{
	return l->chunk->n == l->limit;
}

/* Returns 1 to end the walk. */
static int load_entry(const struct entry_record *e, void *userdata)
{
	struct load *l = userdata;
	int r = 0;

	l->read++;
	l->from = e->seq + 1;
	if (l->states & (1U << e->state)) {
		l->dir_first = l->chunk->n == 0 ? e->dir : MIN(l->dir_first, e->dir);
		l->dir_last = MAX(l->dir_last, e->dir);
		r = chunk_add_entry(l->chunk, e);
	}
	return r < 0 ? r : load_is_full(l);
}

static int load_dir(uint64_t dir, const char *path, const struct lasting_identity *id,
		    void *userdata)
{
	const struct load *l = userdata;

	return chunk_add_dir(l->chunk, dir, path, id);
}

static int load_work(struct store *s, void *userdata)
{
	struct load *l = userdata;
	int r;

	l->read = 0;
	r = (l->states == 1U << ENTRY_KEPT ? store_kept_each : store_entries_each)(
		s, l->job, l->from, LOAD_MOST, load_entry, l);
	if (r < 0 || (l->read == LOAD_MOST && !load_is_full(l)) || l->chunk->n == 0)
		return r;
	/* Entries come by directory, so that hardly any other directory is in this range. */
	return store_dirs_each(s, l->job, l->dir_first, l->dir_last, load_dir, l);
}

static void load_done(int r, void *userdata)
{
	struct load *l = userdata;

	if (r >= 0 && l->read == LOAD_MOST && !load_is_full(l)) {
		r = store_queue_read_on(l->store, l->caller, load_work, load_done, l);
		if (r >= 0)
			return;
	}
	if (r < 0)
		l->chunk = chunk_free(l->chunk);
	l->loaded(r < 0 ? r : 0, l->chunk, l->userdata);
	free(l);
}

int chunk_load(struct store_queue *q, uint64_t caller, uint64_t job, uint64_t from, size_t limit,
	       uint32_t states, void (*loaded)(int r, struct chunk *c, void *userdata),
	       void *userdata)
{
	struct load *l = calloc(1, sizeof(*l));
	int r = -ENOMEM;

	if (!l)
		return -ENOMEM;
	*l = (struct load){ .store = q,
			    .chunk = chunk_new(),
			    .caller = caller,
			    .job = job,
			    .from = from,
			    .limit = limit,
			    .states = states,
			    .loaded = loaded,
			    .userdata = userdata };
	if (l->chunk)
		r = store_queue_read(q, caller, load_work, load_done, l);
	if (r < 0) {
		chunk_free(l->chunk);
		free(l);
	}
	return r;
}

struct chunk *chunk_free(struct chunk *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_dirs; i++)
		free(c->dirs[i].path);
	free(c->dirs);
	free(c->entries);
	free(c->names);
	free(c);
	return NULL;
}

static int compare_dir(const void *key, const void *item)
{
	const uint64_t *dir = key;
	const struct chunk_dir *d = item;

	return *dir < d->dir ? -1 : *dir > d->dir;
}

const struct chunk_dir *chunk_dir(const struct chunk *c, uint64_t dir)
{
	return c->n_dirs > 0 ? bsearch(&dir, c->dirs, c->n_dirs, sizeof(*c->dirs), compare_dir)
			     : NULL;
}

char *chunk_path(const struct chunk *c, const struct chunk_entry *e, const char *suffix)
{
	const struct chunk_dir *dir = chunk_dir(c, e->dir);
	const char *path = dir ? dir->path : "";
	char *ret;

	if (asprintf(&ret, "%s/%s%s", strcmp(path, "/") == 0 ? "" : path, chunk_name(c, e),
		     suffix) < 0)
		return NULL;
	return ret;
}

/* ---- what became of them --------------------------------------------------------------------- */

#define PROBLEMS_MAX 1000

struct outcome_range {
	uint64_t from, to;
	enum entry_state state;
};

struct outcome {
	uint64_t job;
	struct lasting_identity staging_id; /* ino 0: not to be set */
	struct outcome_range *ranges;
	size_t n_ranges;
	struct problem_record *problems;
	size_t n_problems;
	void (*recorded)(int r, void *userdata);
	void *userdata;
};

struct outcome *outcome_new(uint64_t job)
{
	struct outcome *o = calloc(1, sizeof(*o));

	if (o)
		o->job = job;
	return o;
}

void outcome_staging(struct outcome *o, const struct lasting_identity *id)
{
	o->staging_id = *id;
}

static void problem_free(struct problem_record *p)
{
	free((char *)p->path);
	free((char *)p->what);
}

struct outcome *outcome_free(struct outcome *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->n_problems; i++)
		problem_free(&o->problems[i]);
	free(o->problems);
	free(o->ranges);
	free(o);
	return NULL;
}

int outcome_mark(struct outcome *o, uint64_t from, uint64_t to, enum entry_state state)
{
	struct outcome_range *last = o->n_ranges > 0 ? &o->ranges[o->n_ranges - 1] : NULL;

	if (last && last->state == state && last->to + 1 == from) {
		last->to = to;
		return 0;
	}
	last = array_add(&o->ranges, &o->n_ranges, sizeof(*last));
	if (!last)
		return -ENOMEM;
	*last = (struct outcome_range){ .from = from, .to = to, .state = state };
	return 0;
}

int outcome_problem(struct outcome *o, const struct problem_record *p)
{
	struct problem_record *copy;

	if (o->n_problems == PROBLEMS_MAX)
		return 0;
	copy = array_add(&o->problems, &o->n_problems, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *p;
	copy->path = strdup(p->path);
	copy->what = strdup(p->what);
	if (copy->path && copy->what)
		return 0;
	problem_free(copy);
	o->n_problems--;
	return -ENOMEM;
}

static int record_work(struct store *s, void *userdata)
{
	struct outcome *o = userdata;
	int r = o->staging_id.ino != 0 ? store_job_staged(s, o->job, &o->staging_id) : 0;

	for (size_t i = 0; i < o->n_ranges && r >= 0; i++) {
		const struct outcome_range *range = &o->ranges[i];

		r = store_entries_set(s, o->job, range->from, range->to, range->state);
	}
	for (size_t i = 0; i < o->n_problems && r >= 0; i++)
		r = store_problem_add(s, o->job, &o->problems[i]);
	return r < 0 ? r : 0;
}

static void record_done(int r, void *userdata)
{
	struct outcome *o = userdata;

	if (o->recorded)
		o->recorded(r, o->userdata);
	outcome_free(o);
}

void outcome_record(struct outcome *o, struct store_queue *q,
		    void (*recorded)(int r, void *userdata), void *userdata)
{
	int r;

	o->recorded = recorded;
	o->userdata = userdata;
	r = store_queue_post(q, record_work, record_done, o);
	if (r < 0)
		record_done(r, o);
}
