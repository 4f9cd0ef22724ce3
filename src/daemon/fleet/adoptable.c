/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "adoptable.h"

#include <string.h>
#include <sys/stat.h>

bool left_name_is_staged(const char *name)
{
	size_t len = strspn(name, "0123456789");

	return len > 0 && len < 20 && name[len] == '\0' && name[0] != '0';
}

/* *ret_n: how many marks name it. */
static const struct left_mark *mark_find(const struct left_dir *d, struct left_mark *marks,
					 size_t n, size_t *ret_n)
{
	const struct left_mark *found = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		if (marks[i].error < 0 || strcmp(marks[i].dir_name, d->name) != 0)
			continue;
		marks[i].has_dir = true;
		found = &marks[i];
		++*ret_n;
	}
	return found;
}

const struct left_mark *left_dir_named(const struct left_dir *d, const struct left_mark *marks,
				       size_t n)
{
	const struct left_mark *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (marks[i].error < 0 || strcmp(marks[i].dir_name, d->name) != 0)
			continue;
		if (found)
			return NULL;
		found = &marks[i];
	}
	return found;
}

const struct left_mark *left_dir_mark(const struct left_dir *d, struct left_mark *marks, size_t n,
				      const char **ret_why)
{
	size_t n_found;
	const struct left_mark *m = mark_find(d, marks, n, &n_found);

	*ret_why = d->id.type != S_IFDIR ? "is no directory of a job"
		   : d->goes_on          ? "a job of this host has adopted it"
		   : d->on_record || (m && m->left)
			   ? "a job of this host was to end it, and was cancelled"
		   : !m ? "no mark says that it may be deleted: its undo window was not over, it "
			  "was paused or cancelled, or it was not shared yet"
		   : n_found > 1                       ? "several marks name it"
		   : !m->own_space                     ? "users have other numbers there"
		   : m->uid != d->uid                  ? "its mark is of another user"
		   : !lasting_matches(&d->id, &m->dir) ? "is another directory than its mark says"
		   : d->error < 0                      ? "cannot be listed"
		   : d->strange > 0                    ? "has names in it that no job has put there"
						       : NULL;
	return *ret_why ? NULL : m;
}
