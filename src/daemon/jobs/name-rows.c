/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-rows.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"

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
