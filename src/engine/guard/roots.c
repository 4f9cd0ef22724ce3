/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "roots.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "path-intake.h"
#include "user-pin.h"
#include "base/array.h"

static int by_dir(const void *a, const void *b)
{
	const struct root_group *x = a, *y = b;

	if (x->explicit_names != y->explicit_names)
		return x->explicit_names ? 1 : -1;
	return strcmp(x->dir, y->dir);
}

static void group_free(struct root_group *g)
{
	if (!g)
		return;
	free(g->dir);
	free(g->pins);
	fd_closep(&g->dirfd);
	dirlist_done(&g->names);
	free(g);
}

static void keep(void *p)
{
	(void)p; /* the groups are freed by their own array */
}

void roots_done(struct roots *r)
{
	tdestroy(r->index, keep);
	for (size_t i = 0; i < r->n; i++)
		group_free(r->v[i]);
	free(r->v);
	*r = (struct roots){ 0 };
}

/* Finds or makes the group of a directory. Takes over dir. NULL: out of memory. */
static struct root_group *group_get(struct roots *r, char *dir, bool explicit_names)
{
	struct root_group key = { .dir = dir, .explicit_names = explicit_names };
	struct root_group **found = tfind(&key, &r->index, by_dir), **added, *g;

	if (found) {
		free(dir);
		return *found;
	}
	g = calloc(1, sizeof(*g));
	added = g ? array_add(&r->v, &r->n, sizeof(struct root_group *)) : NULL;
	if (!added) {
		free(g);
		free(dir);
		return NULL;
	}
	*added = g;
	*g = (struct root_group){ .dir = dir, .dirfd = -1, .explicit_names = explicit_names };
	if (tsearch(g, &r->index, by_dir))
		return g;
	r->n--;
	group_free(g);
	return NULL;
}

int roots_add(struct roots *r, const char *path, bool explicit_name, const char **ret_why)
{
	char *dir = NULL;
	char name[256];
	bool slash;
	int k = intake_split(path, &dir, name, &slash, ret_why);

	if (k < 0)
		return k;
	if (r->last && r->last->explicit_names == explicit_name && strcmp(r->last->dir, dir) == 0)
		free(dir); /* lists usually name a directory's entries together */
	else
		r->last = group_get(r, dir, explicit_name);
	k = !r->last ? -ENOMEM : dirlist_add(&r->last->names, name, 0, slash ? DT_DIR : DT_UNKNOWN);
	if (k < 0) {
		*ret_why = "cannot be taken in: out of memory";
		return k;
	}
	r->n_names++;
	return 0;
}

int roots_add_list(struct roots *r, const char *data, size_t len, char sep, char **ret_bad,
		   const char **ret_why)
{
	char path[PATH_MAX + 1];

	for (size_t at = 0; at < len;) {
		const char *end = memchr(data + at, sep, len - at);
		size_t n = end ? (size_t)(end - data) - at : len - at;
		int k = 0;

		/* One past the limit is kept, so that what is too long is found to be. */
		memcpy(path, data + at, MIN(n, sizeof(path) - 1));
		path[MIN(n, sizeof(path) - 1)] = '\0';
		if (memchr(path, '\0', n < sizeof(path) ? n : sizeof(path) - 1)) {
			*ret_why = "contains a NUL byte";
			k = -EINVAL;
		} else if (n > 0) {
			k = roots_add(r, path, false, ret_why);
		}
		if (k < 0) {
			*ret_bad = strndup(data + at, n);
			return k;
		}
		at += n + 1;
	}
	return 0;
}

/* What all groups are checked with. */
struct resolving {
	struct roots *r;
	const struct protect *p;
	roots_refused_t refused;
	void *userdata;
};

static void refuse(const struct resolving *c, const struct root_group *g, const char *name,
		   const char *why, int error)
{
	size_t len = strlen(g->dir);
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s%s%s", g->dir, name && len > 0 && g->dir[len - 1] != '/' ? "/" : "",
		     name ? name : "") < 0)
		path = NULL;
	c->refused(path ? path : "", why, error, c->userdata);
}

/* Looks at each name of a group and pins it. Returns how many were refused. */
static int names_check(const struct resolving *c, struct root_group *g)
{
	char words[USER_PIN_WORDS];
	size_t n = 0;
	int bad = 0;

	g->pins = calloc(g->names.n, sizeof(*g->pins));
	if (!g->pins)
		return -ENOMEM;
	for (size_t i = 0; i < g->names.n; i++) {
		struct dentry *d = &g->names.v[i];
		const char *name = dirlist_name(&g->names, d), *why = NULL;
		struct identity *pin = &g->pins[n];
		int k = intake_look(c->p, g->dirfd, name, d->type == DT_DIR, pin, &why);
		struct user_pin by_user = { 0 };

		if (k >= 0)
			by_user = user_pin_read(g->dirfd, name);
		if (user_pin_holds(&by_user)) {
			why = user_pin_words(&by_user, /* around= */ false, words);
			k = -EPERM;
		}
		if (k >= 0) {
			d->type = (uint8_t)IFTODT(pin->mode);
			d->ino = pin->ino;
			g->names.v[n++] = *d;
		} else if (k == -ENOENT && !g->explicit_names) {
			c->r->missing++;
		} else {
			refuse(c, g, name, why, k);
			bad += k != -ENOENT;
		}
	}
	g->names.n = n;
	return bad;
}

/* Refuses all names of a group, for the reason that its directory has; of what is not there, that
 * is said. Returns how many there are. */
static int names_refuse(const struct resolving *c, const struct root_group *g, const char *why,
			int error)
{
	int bad = 0;

	for (size_t i = 0; i < g->names.n; i++) {
		const char *name = dirlist_name(&g->names, &g->names.v[i]);
		struct identity id;
		bool absent = error == -ENOENT ||
			      (g->dirfd >= 0 && fd_identity(g->dirfd, name, &id) == -ENOENT);

		refuse(c, g, name, absent ? intake_words(-ENOENT) : why, absent ? -ENOENT : error);
		bad += !absent;
	}
	return bad;
}

/* Opens a group's directory and checks the group. Returns how many of its paths were refused. */
static int group_resolve(const struct resolving *c, struct root_group *g)
{
	char words[USER_PIN_WORDS];
	struct user_pin pin;
	const char *why = NULL;
	int k = intake_open_dir(g->dir, &why);

	if (k >= 0) {
		g->dirfd = k;
		k = fd_identity(g->dirfd, "", &g->id);
		if (k < 0)
			return k;
		why = protect_check_content(c->p, g->dirfd, /* staged= */ false);
		pin = user_pin_around(g->dirfd);
		if (!why && user_pin_holds(&pin))
			why = user_pin_words(&pin, /* around= */ true, words);
		g->accepted = !why;
		if (g->accepted)
			return g->explicit_names || protect_near(c->p, g->dirfd) ? names_check(c, g)
										 : 0;
		k = -EPERM;
	} else if (k == -ENOENT && !g->explicit_names) {
		c->r->missing += g->names.n;
		return 0;
	}
	/* All of it is refused: each name of a command line, the directory of a list. */
	if (!g->explicit_names)
		refuse(c, g, NULL, why, k);
	return g->explicit_names ? names_refuse(c, g, why, k) : k != -ENOENT;
}

int root_group_open(const struct root_group *g)
{
	const char *why;
	struct identity id;
	int fd = g->dirfd, r;

	if (fd >= 0)
		return fd;
	fd = intake_open_dir(g->dir, &why);
	if (fd < 0)
		return fd;
	r = fd_identity(fd, "", &id);
	if (r >= 0 && identity_equal(&id, &g->id))
		return fd;
	fd_closep(&fd);
	return r < 0 ? r : -ESTALE;
}

int roots_resolve(struct roots *r, const struct protect *p, roots_refused_t refused, void *userdata)
{
	const struct resolving c = { r, p, refused, userdata };
	struct rlimit rl = { 0 };
	int bad = 0;

	(void)getrlimit(RLIMIT_NOFILE, &rl);
	for (size_t i = 0; i < r->n; i++) {
		int k = group_resolve(&c, r->v[i]);

		if (k < 0)
			return k;
		/* A third of what this process may have is for them. */
		if (i >= rl.rlim_cur / 3)
			fd_closep(&r->v[i]->dirfd);
		bad += k;
	}
	return bad;
}
