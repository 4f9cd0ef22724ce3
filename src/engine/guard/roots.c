/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "roots.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "path-intake.h"
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

static int group_append(struct roots *r, struct root_group *g)
{
	struct root_group **added;

	if (!tsearch(g, &r->index, by_dir))
		return -ENOMEM;
	added = array_add(&r->v, &r->n, sizeof(struct root_group *));
	if (!added) {
		(void)tdelete(g, &r->index, by_dir);
		return -ENOMEM;
	}
	*added = g;
	return 0;
}

/* Finds or makes the group of a directory. Takes over dir. */
static int group_get(struct roots *r, char *dir, bool explicit_names, struct root_group **ret)
{
	struct root_group key = { .dir = dir, .explicit_names = explicit_names };
	struct root_group **found = tfind(&key, &r->index, by_dir);
	struct root_group *g;

	if (found) {
		free(dir);
		*ret = *found;
		return 0;
	}
	g = calloc(1, sizeof(*g));
	if (!g) {
		free(dir);
		return -ENOMEM;
	}
	*g = (struct root_group){ .dir = dir, .dirfd = -1, .explicit_names = explicit_names };
	if (group_append(r, g) < 0) {
		group_free(g);
		return -ENOMEM;
	}
	*ret = g;
	return 0;
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
		k = group_get(r, dir, explicit_name, &r->last);
	if (k >= 0)
		k = dirlist_add(&r->last->names, name, 0, slash ? DT_DIR : DT_UNKNOWN);
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

static char *join(const char *dir, const char *name)
{
	size_t a = strlen(dir), b = strlen(name);
	char *s = malloc(a + b + 2);

	if (!s)
		return NULL;
	memcpy(s, dir, a);
	if (a > 0 && dir[a - 1] != '/')
		s[a++] = '/';
	memcpy(s + a, name, b + 1);
	return s;
}

static void refuse(const struct root_group *g, const char *name, const char *why, int error,
		   roots_refused_t refused, void *userdata)
{
	_cleanup_free_ char *path = name ? join(g->dir, name) : strdup(g->dir);

	refused(path ? path : "", why, error, userdata);
}

/* Looks at one name. Returns 0, 1 if it is not there, or a negative errno with the reason. */
static int name_check(struct root_group *g, struct dentry *d, const struct protect *p,
		      struct identity *ret, const char **ret_why)
{
	const char *name = dirlist_name(&g->names, d);
	int r = fd_identity(g->dirfd, name, ret);

	if (r == -ENOENT)
		return 1;
	if (r < 0) {
		*ret_why = strerror(-r);
		return r;
	}
	if (d->type == DT_DIR && !S_ISDIR(ret->mode)) {
		*ret_why = S_ISLNK(ret->mode) ? "is a symbolic link, and the slash behind it would "
						"mean what it points to: leave the slash out"
					      : "is no directory, but has a slash behind it";
		return -ENOTDIR;
	}
	d->type = (uint8_t)IFTODT(ret->mode);
	d->ino = ret->ino;
	*ret_why = protect_check(p, g->dirfd, name, ret);
	return *ret_why ? -EPERM : 0;
}

/* Looks at each name of a group and pins it. Returns how many were refused. */
static int names_check(struct roots *r, struct root_group *g, const struct protect *p,
		       roots_refused_t refused, void *userdata)
{
	size_t n = 0;
	int bad = 0;

	g->pins = calloc(g->names.n, sizeof(*g->pins));
	if (!g->pins)
		return -ENOMEM;
	for (size_t i = 0; i < g->names.n; i++) {
		struct dentry *d = &g->names.v[i];
		const char *why = "does not exist";
		int k = name_check(g, d, p, &g->pins[n], &why);

		if (k == 0) {
			g->names.v[n++] = *d;
			continue;
		}
		if (k == 1 && !g->explicit_names) {
			r->missing++;
			continue;
		}
		refuse(g, dirlist_name(&g->names, d), why, k == 1 ? -ENOENT : k, refused, userdata);
		bad += k < 0;
	}
	g->names.n = n;
	return bad;
}

/* Refuses a whole group: each name of a command line, the directory of a list. */
static void group_refuse(const struct root_group *g, const char *why, int error,
			 roots_refused_t refused, void *userdata)
{
	if (!g->explicit_names)
		refuse(g, NULL, why, error, refused, userdata);
	for (size_t i = 0; g->explicit_names && i < g->names.n; i++)
		refuse(g, dirlist_name(&g->names, &g->names.v[i]), why, error, refused, userdata);
}

/* Checks an opened group. Returns how many of its paths were refused. */
static int group_check(struct roots *r, struct root_group *g, const struct protect *p,
		       roots_refused_t refused, void *userdata)
{
	const char *why;
	int k = fd_identity(g->dirfd, "", &g->id);

	if (k < 0)
		return k;
	why = protect_check_content(p, g->dirfd);
	if (why) {
		group_refuse(g, why, -EPERM, refused, userdata);
		return 1;
	}
	g->accepted = true;
	if (g->explicit_names || protect_near(p, g->dirfd))
		return names_check(r, g, p, refused, userdata);
	return 0;
}

static int group_resolve(struct roots *r, struct root_group *g, const struct protect *p,
			 roots_refused_t refused, void *userdata)
{
	const char *why = NULL;
	int k;

	g->dirfd = intake_open_dir(g->dir, &why);
	if (g->dirfd >= 0)
		return group_check(r, g, p, refused, userdata);
	k = g->dirfd;
	g->dirfd = -1;
	if (k == -ENOENT && !g->explicit_names) {
		r->missing += g->names.n;
		return 0;
	}
	group_refuse(g, why, k, refused, userdata);
	return k == -ENOENT ? 0 : 1;
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

/* How many groups may keep their directory open: a third of what this process may have. */
static size_t groups_kept_open(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 0;
	return rl.rlim_cur / 3;
}

int roots_resolve(struct roots *r, const struct protect *p, roots_refused_t refused, void *userdata)
{
	size_t kept_open = groups_kept_open();
	int bad = 0;

	for (size_t i = 0; i < r->n; i++) {
		int k = group_resolve(r, r->v[i], p, refused, userdata);

		if (k < 0)
			return k;
		if (i >= kept_open)
			fd_closep(&r->v[i]->dirfd);
		bad += k;
	}
	return bad;
}
