/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "stored-names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

/* ---- into the store ----------------------------------------------------------------------- */

#define ROWS_MAX 4096
#define TEXT_MAX KiB(256)

struct row {
	uint64_t seq; /* 0: a directory */
	uint64_t dir;
	struct lasting_identity id;
	enum entry_state state;
	size_t text; /* offset of its name or path */
};

struct rows {
	struct row *v;
	size_t n, size;
	char *text;
	size_t len, text_size;
};

struct rows *rows_new(void)
{
	return calloc(1, sizeof(struct rows));
}

struct rows *rows_free(struct rows *r)
{
	if (!r)
		return NULL;
	free(r->v);
	free(r->text);
	free(r);
	return NULL;
}

static int add(struct rows *r, const struct row *row, const char *text)
{
	size_t len = strlen(text) + 1, size;
	void *p;

	if (r->n == r->size) {
		size = r->size ? 2 * r->size : 2;
		p = reallocarray(r->v, size, sizeof(*r->v));
		if (!p)
			return -ENOMEM;
		r->v = p;
		r->size = size;
	}
	if (r->len + len > r->text_size) {
		size = MAX(2 * r->text_size, r->len + len);
		p = realloc(r->text, size);
		if (!p)
			return -ENOMEM;
		r->text = p;
		r->text_size = size;
	}
	r->v[r->n] = *row;
	r->v[r->n++].text = r->len;
	memcpy(r->text + r->len, text, len);
	r->len += len;
	return 0;
}

int rows_add_dir(struct rows *r, const struct intake_dir *d)
{
	struct row row = { .dir = d->dir, .id = d->id };

	return add(r, &row, d->path);
}

int rows_add_entry(struct rows *r, const struct entry_record *e)
{
	struct row row = { .seq = e->seq, .dir = e->dir, .id = e->id, .state = e->state };

	return add(r, &row, e->name);
}

bool rows_full(const struct rows *r)
{
	return r->n >= ROWS_MAX || r->len >= TEXT_MAX;
}

int rows_store(const struct rows *r, struct store *s, uint64_t job)
{
	int e = 0;

	for (size_t i = 0; i < r->n && e >= 0; i++) {
		const struct row *row = &r->v[i];
		const char *text = r->text + row->text;
		struct entry_record entry = { .seq = row->seq,
					      .dir = row->dir,
					      .name = text,
					      .id = row->id,
					      .state = row->state };

		e = row->seq == 0 ? store_dir_add(s, job, row->dir, text, &row->id)
				  : store_entry_add(s, job, &entry);
	}
	return e;
}

/* ---- out of it ---------------------------------------------------------------------------- */

#define FULL 1 /* what a callback returns to end the reading */

struct load {
	struct chunk *chunk;
	uint64_t job, from;
	size_t limit, size, names_len, names_size, dirs_size;
	uint32_t states;
	uint64_t dir_first, dir_last;
	void (*loaded)(int r, struct chunk *c, void *userdata);
	void *userdata;
};

/* Makes room for one more item of an array. */
static int grow(void **v, size_t *size, size_t needed, size_t item)
{
	size_t bigger = MAX(MAX(*size * 2, needed), (size_t)16);
	void *p;

	if (needed <= *size)
		return 0;
	p = reallocarray(*v, bigger, item);
	if (!p)
		return -ENOMEM;
	*v = p;
	*size = bigger;
	return 0;
}

static int add_entry(const struct entry_record *e, void *userdata)
{
	struct load *l = userdata;
	struct chunk *c = l->chunk;
	size_t len = strlen(e->name) + 1;

	if (!(l->states & (1U << e->state)))
		return 0;
	if (grow((void **)&c->entries, &l->size, c->n + 1, sizeof(*c->entries)) < 0 ||
	    grow((void **)&c->names, &l->names_size, l->names_len + len, 1) < 0)
		return -ENOMEM;
	memcpy(c->names + l->names_len, e->name, len);
	l->names_len += len;
	l->dir_first = c->n == 0 ? e->dir : MIN(l->dir_first, e->dir);
	l->dir_last = MAX(l->dir_last, e->dir);
	c->entries[c->n++] = (struct chunk_entry){
		.seq = e->seq, .dir = e->dir, .id = e->id, .state = e->state
	};
	return c->n == l->limit ? FULL : 0;
}

static int add_dir(uint64_t dir, const char *path, const struct lasting_identity *id,
		   void *userdata)
{
	struct load *l = userdata;
	struct chunk *c = l->chunk;
	char *copy;

	/* Entries come by directory, so that hardly one too many is in this range. */
	if (dir < l->dir_first || dir > l->dir_last)
		return 0;
	copy = strdup(path);
	if (!copy || grow((void **)&c->dirs, &l->dirs_size, c->n_dirs + 1, sizeof(*c->dirs)) < 0) {
		free(copy);
		return -ENOMEM;
	}
	c->dirs[c->n_dirs++] = (struct chunk_dir){ .dir = dir, .path = copy, .id = *id };
	return 0;
}

static int load_work(struct store *s, void *userdata)
{
	struct load *l = userdata;
	struct chunk *c = l->chunk;
	const char *name;
	int r;

	r = store_entries_each(s, l->job, l->from, 0, add_entry, l);
	if (r < 0)
		return r;
	name = c->names;
	for (size_t i = 0; i < c->n; i++, name += strlen(name) + 1)
		c->entries[i].name = name;
	return c->n > 0 ? store_dirs_each(s, l->job, add_dir, l) : 0;
}

static void load_done(int r, void *userdata)
{
	struct load *l = userdata;

	if (r < 0)
		l->chunk = chunk_free(l->chunk);
	l->loaded(r < 0 ? r : 0, l->chunk, l->userdata);
	free(l);
}

int chunk_load(struct store_queue *q, uint64_t job, uint64_t from, size_t limit, uint32_t states,
	       void (*loaded)(int r, struct chunk *c, void *userdata), void *userdata)
{
	struct load *l = calloc(1, sizeof(*l));
	int r = -ENOMEM;

	if (!l)
		return -ENOMEM;
	*l = (struct load){ .chunk = calloc(1, sizeof(struct chunk)),
			    .job = job,
			    .from = from,
			    .limit = limit,
			    .states = states,
			    .loaded = loaded,
			    .userdata = userdata };
	if (l->chunk)
		r = store_queue_read(q, load_work, load_done, l);
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

	if (asprintf(&ret, "%s/%s%s", strcmp(path, "/") == 0 ? "" : path, e->name, suffix) < 0)
		return NULL;
	return ret;
}
