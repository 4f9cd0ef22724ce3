/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "engine/guard/path-intake.h"
#include "base/array.h"
#include "base/macros.h"

/* As many as a number of them has bits for in an entry. */
#define DIRS_MOST ((size_t)1 << 28)

/* How directories are called is remembered so that they are not opened again for each name. One
 * that holds others has many ways to call these, so that this is begun anew beyond so many bytes.
 */
#define BY_PATH_MOST MiB(32)

#define TYPE_SHIFT 12 /* of S_IFMT */

/* In one of two trees: the path of a directory, or its identity as text. */
struct dir_key {
	uint32_t number;
	char text[];
};

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct dir_key *)a)->text, ((const struct dir_key *)b)->text);
}

static struct dir_key *key_new(const char *text, uint32_t number)
{
	size_t len = strlen(text) + 1;
	struct dir_key *k = malloc(sizeof(*k) + len);

	if (!k)
		return NULL;
	k->number = number;
	memcpy(k->text, text, len);
	return k;
}

/* Adds a key, unless its like is there. Returns the one that is in the tree; NULL: no memory. */
static struct dir_key *key_add(void **tree, struct dir_key *k)
{
	struct dir_key **at = k ? tsearch(k, tree, by_text) : NULL;

	if (at && *at == k)
		return k;
	free(k);
	return at ? *at : NULL;
}

void session_groups_done(struct session *s)
{
	for (size_t i = 0; i < s->n_groups; i++)
		wire_in_done(&s->groups[i]);
	free(s->groups);
	s->groups = NULL;
	s->n_groups = 0;
	tdestroy(s->by_identity, free);
	tdestroy(s->by_path, free);
	s->by_identity = s->by_path = NULL;
	s->by_path_bytes = 0;
}

static void session_free(struct session *s)
{
	session_groups_done(s);
	for (size_t i = 0; i < s->n_dirs; i++) {
		fd_closep(&s->dirs[i].fd);
		free(s->dirs[i].path);
	}
	free(s->dirs);
	free(s->entries);
	free(s->arena);
	free(s->first_missing);
	free(s);
}

struct session *session_get(struct session **list, uint64_t id, bool make)
{
	struct session *s = *list;

	while (s && s->id != id)
		s = s->next;
	if (s || !make)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->id = id;
	s->next = *list;
	*list = s;
	return s;
}

void session_forget(struct session **list, uint64_t id)
{
	struct session **at = list, *s;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	s = *at;
	if (!s)
		return;
	*at = s->next;
	session_free(s);
}

void sessions_free(struct session **list)
{
	while (*list)
		session_forget(list, (*list)->id);
}

/* How many directories may be kept open: a third of what this process may have. */
static size_t dirs_kept_open(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) < 0 ? 0 : rl.rlim_cur / 3;
}

static int dir_append(struct session *s, int fd, const struct found *f)
{
	struct session_dir d = { .fd = -1, .found = *f }, *added;
	char path[4096];
	ssize_t len = fd_path(fd, path, sizeof(path));
	int r;

	if (len < 0)
		return (int)len;
	if (s->n_dirs == DIRS_MOST)
		return -E2BIG;
	r = lasting_fsid(fd, &d.fsid);
	if (r < 0)
		return r;
	d.path = strdup(path);
	added = d.path ? array_add(&s->dirs, &s->n_dirs, sizeof(d)) : NULL;
	if (!added) {
		free(d.path);
		return -ENOMEM;
	}
	*added = d;
	return 0;
}

int session_dir_add(struct session *s, int *fd, const struct found *f, uint32_t *ret_dir,
		    bool *ret_new)
{
	struct dir_key *k;
	char text[72];
	int r;

	(void)snprintf(text, sizeof(text), "%" PRIx64 ":%" PRIx64 ":%" PRIx64, f->id.ino, f->id.dev,
		       f->id.mnt_id);
	k = key_add(&s->by_identity, key_new(text, (uint32_t)s->n_dirs));
	if (!k)
		return -ENOMEM;
	*ret_new = k->number == s->n_dirs;
	r = *ret_new ? dir_append(s, *fd, f) : 0;
	if (r < 0)
		return r;
	if (*ret_new && s->n_dirs <= dirs_kept_open())
		s->dirs[k->number].fd = fd_take(fd);
	*ret_dir = k->number;
	return 0;
}

bool session_dir_known(struct session *s, const char *dir, uint32_t *ret_dir)
{
	struct dir_key *k = key_new(dir, 0);
	struct dir_key **at = k ? tfind(k, &s->by_path, by_text) : NULL;

	free(k);
	if (at)
		*ret_dir = (*at)->number;
	return at != NULL;
}

int session_dir_call(struct session *s, const char *dir, uint32_t number)
{
	size_t bytes = sizeof(struct dir_key) + strlen(dir);

	if (s->by_path_bytes + bytes > BY_PATH_MOST) {
		tdestroy(s->by_path, free);
		s->by_path = NULL;
		s->by_path_bytes = 0;
	}
	s->by_path_bytes += bytes;
	return key_add(&s->by_path, key_new(dir, number)) ? 0 : -ENOMEM;
}

/* Appends a name to the arena. */
static int name_add(struct session *s, const char *name, uint32_t *ret)
{
	size_t len = strlen(name) + 1;
	int r;

	if (s->arena_len + len > UINT32_MAX)
		return -E2BIG;
	r = array_reserve(&s->arena, &s->arena_cap, s->arena_len + len, 1);
	if (r < 0)
		return r;
	memcpy(s->arena + s->arena_len, name, len);
	*ret = (uint32_t)s->arena_len;
	s->arena_len += len;
	return 0;
}

int session_entry_add(struct session *s, uint32_t dir, const char *name, const struct identity *id)
{
	struct session_entry e = {
		.ino = id->ino,
		.btime_nsec = id->btime_nsec,
		.dir = dir & (DIRS_MOST - 1),
		.type = id->mode >> TYPE_SHIFT & 0xf,
	}, *added;
	int r = name_add(s, name, &e.name);

	if (r < 0)
		return r;
	assert(dir < s->n_dirs);
	added = array_add(&s->entries, &s->n_entries, sizeof(e));
	if (!added)
		return -ENOMEM;
	*added = e;
	return 0;
}

int session_dir_open(const struct session_dir *d)
{
	const char *why;
	struct identity id;
	int fd = d->fd, r;

	if (fd >= 0)
		return fd;
	fd = intake_open_dir(d->path, &why);
	if (fd < 0)
		return fd;
	r = fd_identity(fd, "", &id);
	if (r >= 0 && identity_equal(&id, &d->found.id))
		return fd;
	fd_closep(&fd);
	return r < 0 ? r : -ESTALE;
}

bool session_entry_is(const struct session *s, const struct session_entry *e,
		      const struct identity *id)
{
	/* Not the device: a btrfs subvolume has one of its own. */
	return id->ino == e->ino && id->btime_nsec == e->btime_nsec &&
	       (id->mode >> TYPE_SHIFT & 0xf) == e->type && id->mnt_id == s->mnt_id;
}
