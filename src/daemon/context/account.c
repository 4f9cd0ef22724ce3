/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "account.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/macros.h"

/* As many as there can be of 4,096 ids each. */
#define RANGES_MOST (1U << 20)

struct account_range {
	uint32_t first, n;
	uid_t account;
};

/* A range that is given by name. */
struct owner {
	char *name;
	size_t range;
	bool known;
};

struct reading {
	struct account_range *v;
	size_t n;
	struct owner *owners;
	size_t n_owners;
};

static void closep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static void reading_done(struct reading *r)
{
	for (size_t i = 0; i < r->n_owners; i++)
		free(r->owners[i].name);
	free(r->owners);
	free(r->v);
}

static int owner_add(struct reading *r, const char *name)
{
	char *copy = strdup(name);
	struct owner *o = copy ? array_add(&r->owners, &r->n_owners, sizeof(*o)) : NULL;

	if (!o) {
		free(copy);
		return -ENOMEM;
	}
	*o = (struct owner){ copy, r->n, false };
	return 0;
}

/* "NAME-OR-ID:FIRST:COUNT"; what is none is left out. */
static int range_add(struct reading *r, const char *line)
{
	struct account_range *v;
	uint32_t first, n, id;
	char name[257], end;

	if (sscanf(line, "%256[^:]:%" SCNu32 ":%" SCNu32, name, &first, &n) != 3 || n == 0 ||
	    first == 0)
		return 0;
	if (sscanf(name, "%" SCNu32 "%c", &id, &end) != 1) {
		id = 0;
		if (owner_add(r, name) < 0)
			return -ENOMEM;
	}
	v = array_add(&r->v, &r->n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = (struct account_range){ first, n, id != 0 ? id : first };
	return 0;
}

static int owners_order(const void *a, const void *b)
{
	return strcmp(((const struct owner *)a)->name, ((const struct owner *)b)->name);
}

/* The first line of a name counts. An account may have several ranges. */
static void owners_name(struct reading *r, const struct passwd *p)
{
	size_t from = 0, to = r->n_owners;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (strcmp(r->owners[middle].name, p->pw_name) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	for (struct owner *o = r->owners + from;
	     o < r->owners + r->n_owners && !o->known && strcmp(o->name, p->pw_name) == 0; o++) {
		o->known = true;
		if (p->pw_uid != 0)
			r->v[o->range].account = p->pw_uid;
	}
}

/* Each file once, as this is done where all wait for it. Not getpwnam(3): it may ask a server, and
 * take as long as that likes. */
static int files_read(struct reading *r, const char *subuid, const char *passwd)
{
	_cleanup_(closep) FILE *ids = fopen(subuid, "re");
	_cleanup_(closep) FILE *names = ids ? fopen(passwd, "re") : NULL;
	struct passwd *p;
	char line[512];

	if (!ids || (!names && errno != ENOENT))
		return -errno;
	while (r->n < RANGES_MOST && fgets(line, sizeof(line), ids))
		if (range_add(r, line) < 0)
			return -ENOMEM;
	if (ferror(ids))
		return -EIO;
	if (!names || r->n_owners == 0)
		return 0;
	qsort(r->owners, r->n_owners, sizeof(*r->owners), owners_order);
	while ((p = fgetpwent(names)))
		owners_name(r, p);
	return ferror(names) ? -EIO : 0;
}

static void accounts_read(struct accounts *a, const struct stat *st, const char *subuid,
			  const char *passwd)
{
	_cleanup_(reading_done) struct reading r = { 0 };

	if (files_read(&r, subuid, passwd) < 0)
		return;
	free(a->v);
	*a = (struct accounts){ r.v, r.n, st->st_mtim, st->st_size, st->st_ino };
	r.v = NULL;
}

uid_t accounts_find(struct accounts *a, uid_t uid, const char *subuid, const char *passwd)
{
	struct stat st;

	if (uid == 0 || stat(subuid, &st) < 0)
		return uid;
	if (st.st_mtim.tv_sec != a->changed.tv_sec || st.st_mtim.tv_nsec != a->changed.tv_nsec ||
	    st.st_size != a->size || st.st_ino != a->ino)
		accounts_read(a, &st, subuid, passwd);
	for (size_t i = 0; i < a->n; i++)
		if (uid >= a->v[i].first && uid - a->v[i].first < a->v[i].n)
			return a->v[i].account;
	return uid;
}

void accounts_done(struct accounts *a)
{
	free(a->v);
	*a = (struct accounts){ 0 };
}

uid_t account_of(uid_t uid)
{
	/* Of the loop's thread. */
	static struct accounts known;

	return accounts_find(&known, uid, "/etc/subuid", "/etc/passwd");
}
