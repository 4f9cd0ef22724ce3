/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "account.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <search.h>
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

/* A line of the password file. */
struct account_name {
	char *name;
	uid_t uid;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct account_name *)a)->name,
		      ((const struct account_name *)b)->name);
}

static void name_free(void *p)
{
	free(((struct account_name *)p)->name);
	free(p);
}

static void names_free(void **tree)
{
	tdestroy(*tree, name_free);
}

static void closep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

/* Adds all names to a tree (tsearch(3)); the first line of a name counts. No file is an empty one.
 * Not getpwnam(3): it may ask a server, and take as long as that likes. */
static int names_read(void **tree, const char *passwd)
{
	_cleanup_(closep) FILE *f = fopen(passwd, "re");
	const struct passwd *p;

	if (!f)
		return errno == ENOENT ? 0 : -errno;
	while ((p = fgetpwent(f))) {
		struct account_name *n = calloc(1, sizeof(*n)), **in = NULL;

		if (n) {
			*n = (struct account_name){ strdup(p->pw_name), p->pw_uid };
			in = n->name ? tsearch(n, tree, by_name) : NULL;
		}
		if (n && (!in || *in != n))
			name_free(n);
		if (!in)
			return -ENOMEM;
	}
	return ferror(f) ? -EIO : 0;
}

/* Takes "NAME-OR-ID:FIRST:COUNT" lines; what is none is left out. */
static int ranges_read(struct accounts *a, const char *subuid, void *const *names)
{
	_cleanup_(closep) FILE *f = fopen(subuid, "re");
	char line[512], name[257], end;
	uint32_t first, n, id;

	if (!f)
		return -errno;
	while (a->n < RANGES_MOST && fgets(line, sizeof(line), f)) {
		struct account_name **known;
		struct account_range *v;

		if (sscanf(line, "%256[^:]:%" SCNu32 ":%" SCNu32, name, &first, &n) != 3 ||
		    n == 0 || first == 0)
			continue;
		if (sscanf(name, "%" SCNu32 "%c", &id, &end) != 1) {
			known = tfind(&(struct account_name){ name, 0 }, names, by_name);
			id = known ? (*known)->uid : 0;
		}
		v = array_add(&a->v, &a->n, sizeof(*v));
		if (!v)
			return -ENOMEM;
		*v = (struct account_range){ first, n, id != 0 ? id : first };
	}
	return ferror(f) ? -EIO : 0;
}

/* Each file once, as this is done where all wait for it. */
static void accounts_read(struct accounts *a, const struct stat *st, const char *subuid,
			  const char *passwd)
{
	_cleanup_(names_free) void *names = NULL;
	struct accounts read = { NULL, 0, st->st_mtim, st->st_size, st->st_ino };

	if (names_read(&names, passwd) < 0 || ranges_read(&read, subuid, &names) < 0) {
		accounts_done(&read);
		return;
	}
	accounts_done(a);
	*a = read;
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
