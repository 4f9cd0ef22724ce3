/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macros.h"

static int by_identity(const void *a, const void *b)
{
	const struct socket_name *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

/* The name that a line ends with, or NULL. One in no directory begins with an at sign, or is
 * relative to nobody knows what. */
static const char *path_of(const char *line)
{
	const char *path = strchr(line, '/');

	return path && path > line && path[-1] == ' ' ? path : NULL;
}

/* Adds a name, if it is a socket still. */
static int add(struct sockets *s, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return 0;
	if (s->n == s->cap) {
		size_t cap = MAX(s->cap * 2, (size_t)64);
		struct socket_name *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct socket_name){ st.st_dev, st.st_ino };
	return 0;
}

static int read_all(struct sockets *s, FILE *f, bool (*wanted)(void *userdata, const char *path),
		    void *userdata)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int r = 0;

	while (r >= 0 && (len = getline(&line, &size, f)) > 0) {
		const char *path;

		line[len - (line[len - 1] == '\n')] = '\0';
		path = path_of(line);
		if (path && wanted(userdata, path))
			r = add(s, path);
	}
	return ferror(f) ? -EIO : r;
}

int sockets_read(struct sockets *ret, const char *proc,
		 bool (*wanted)(void *userdata, const char *path), void *userdata)
{
	_cleanup_free_ char *path = NULL;
	struct sockets s = { 0 };
	FILE *f;
	int r;

	if (asprintf(&path, "%s/net/unix", proc) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	f = fopen(path, "re");
	if (!f)
		return -errno;
	r = read_all(&s, f, wanted, userdata);
	(void)fclose(f);
	if (r < 0) {
		sockets_done(&s);
		return r;
	}
	if (s.n > 0)
		qsort(s.v, s.n, sizeof(*s.v), by_identity);
	*ret = s;
	return 0;
}

void sockets_done(struct sockets *s)
{
	free(s->v);
	*s = (struct sockets){ 0 };
}

bool sockets_has(const struct sockets *s, uint64_t dev, uint64_t ino)
{
	const struct socket_name key = { dev, ino };

	return s->n > 0 && bsearch(&key, s->v, s->n, sizeof(*s->v), by_identity);
}
