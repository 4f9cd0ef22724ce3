/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "adoptable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool left_name_is_staged(const char *name)
{
	size_t len = strspn(name, "0123456789");

	return len > 0 && len < 20 && name[len] == '\0' && name[0] != '0';
}

static int compare_records(const void *a, const void *b)
{
	const struct left_record *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void left_records_sort(struct left_records *records)
{
	if (records->n > 0)
		qsort(records->v, records->n, sizeof(*records->v), compare_records);
}

/* Those that say nothing have no name. */
static int compare_marks(const void *a, const void *b)
{
	const struct left_mark *x = a, *y = b;

	return strcmp(x->error < 0 ? "" : x->dir_name, y->error < 0 ? "" : y->dir_name);
}

void left_marks_sort(struct left_mark *marks, size_t n)
{
	if (n > 0)
		qsort(marks, n, sizeof(*marks), compare_marks);
}

/* The first of n sorted items that is not before the key. */
static size_t first_not_before(const void *key, const void *items, size_t n, size_t size,
			       int (*compare)(const void *a, const void *b))
{
	size_t from = 0;

	while (from < n) {
		size_t middle = from + (n - from) / 2;

		if (compare((const char *)items + middle * size, key) < 0)
			from = middle + 1;
		else
			n = middle;
	}
	return from;
}

void left_dir_find_record(struct left_dir *d, const struct left_records *records)
{
	const struct left_record key = { .name = d->name };

	for (size_t i =
		     first_not_before(&key, records->v, records->n, sizeof(key), compare_records);
	     i < records->n && strcmp(records->v[i].name, d->name) == 0; i++) {
		d->on_record = true;
		d->goes_on = d->goes_on || records->v[i].goes_on;
	}
}

/* The first mark that names it, or NULL; *ret_n: how many do, one behind the other. */
static struct left_mark *marks_find(const struct left_dir *d, struct left_mark *marks, size_t n,
				    size_t *ret_n)
{
	struct left_mark key = { 0 };
	size_t first;

	*ret_n = 0;
	if (!*d->name || strlen(d->name) >= sizeof(key.dir_name))
		return NULL;
	memcpy(key.dir_name, d->name, strlen(d->name) + 1);
	first = first_not_before(&key, marks, n, sizeof(key), compare_marks);
	while (first + *ret_n < n && compare_marks(&marks[first + *ret_n], &key) == 0)
		++*ret_n;
	return *ret_n > 0 ? &marks[first] : NULL;
}

const struct left_mark *left_dir_named(const struct left_dir *d, struct left_mark *marks, size_t n)
{
	size_t n_found;
	const struct left_mark *m = marks_find(d, marks, n, &n_found);

	return n_found == 1 ? m : NULL;
}

const struct left_mark *left_dir_mark(const struct left_dir *d, struct left_mark *marks, size_t n,
				      const char **ret_why)
{
	size_t n_found;
	struct left_mark *m = marks_find(d, marks, n, &n_found);

	for (size_t i = 0; i < n_found; i++)
		m[i].has_dir = true;
	*ret_why = d->goes_on ? "a job of this host has adopted it"
		   : d->on_record || (m && m->left)
			   ? "a job of this host was to end it, and was cancelled"
		   : !m ? "no mark says that it may be deleted: its undo window was not over, it "
			  "was paused or cancelled, or it was not shared yet"
		   : n_found > 1                       ? "several marks name it"
		   : d->id.type != S_IFDIR             ? "is no directory of a job"
		   : !m->own_space                     ? "users have other numbers there"
		   : m->uid != d->uid                  ? "its mark is of another user"
		   : !lasting_matches(&d->id, &m->dir) ? "is another directory than its mark says"
		   : d->error < 0                      ? "cannot be listed"
		   : d->strange > 0                    ? "has names in it that no job has put there"
						       : NULL;
	return *ret_why ? NULL : m;
}
