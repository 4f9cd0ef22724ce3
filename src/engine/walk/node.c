/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "node.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "engine/guard/still-inside.h"
#include "engine/core/tasks.h"
#include "engine/core/engine-job.h"
#include "base/gate.h"
#include "engine/guard/roots.h"

struct node *node_new(struct node *parent, int fd, const char *name, unsigned relists)
{
	size_t len = strlen(name);
	struct node *n = calloc(1, sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->parent = parent;
	n->fd = fd;
	n->relists = relists;
	atomic_init(&n->refs, 1);
	memcpy(n->name, name, len);
	return n;
}

int node_open(struct node *n)
{
	int fd;

	if (n->fd >= 0)
		return 0;
	/* To be listed, for which it may not be open yet. */
	fd = root_group_is_slice(n->group) ? fd_open_dir(n->group->dirfd, ".")
					   : root_group_open(n->group);
	if (fd < 0)
		return fd;
	n->fd = fd == n->group->dirfd ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
	return n->fd < 0 ? -errno : 0;
}

struct node *node_ref(struct node *n)
{
	unsigned before = atomic_fetch_add(&n->refs, 1);

	assert(before > 0);
	return n;
}

int node_tree(const struct node *n, const char **ret_name)
{
	*ret_name = NULL;
	for (; n->parent; n = n->parent)
		*ret_name = n->name;
	if (!n->group || !n->group->within)
		return n->fd;
	*ret_name = n->group->within_name;
	return n->group->within_fd;
}

size_t path_append(char *buf, size_t len, size_t at, const char *name)
{
	size_t n = strlen(name);

	if (at > 0 && buf[at - 1] != '/' && at + 1 < len)
		buf[at++] = '/';
	n = MIN(n, len - 1 - at);
	memcpy(buf + at, name, n);
	buf[at + n] = '\0';
	return at + n;
}

size_t node_path(const struct node *n, char *buf, size_t len)
{
	if (!n->parent)
		return path_append(buf, len, 0, n->group->dir);
	return path_append(buf, len, node_path(n->parent, buf, len), n->name);
}

bool snapdir_holds(int fd, const char *name)
{
	_cleanup_close_ int own = name ? fd_open_dir(fd, name) : -1;
	const struct dirent *d;
	bool found = false;
	DIR *dir;

	if (own < 0)
		return false;
	dir = fdopendir(own);
	if (!dir)
		return false;
	(void)fd_take(&own);
	/* With an underscore begin those that a directory above was made part of. */
	while (!found && (d = readdir(dir)))
		found = d->d_name[0] != '.' && d->d_name[0] != '_';
	(void)closedir(dir);
	return found;
}

static void rmdir_failed(struct engine_job *j, struct node *n, int error)
{
	bool held = error == -ENOTEMPTY && snapdir_holds(n->fd, j->profile.snapdir);
	char path[PATH_MAX];

	(void)node_path(n, path, sizeof(path));
	atomic_store(&n->parent->failed, true);
	job_error(j, path, held ? SNAPDIR_HOLDS : "cannot remove directory", error);
}

bool node_in_place(const struct engine_job *j, const struct node *n)
{
	for (;; n = n->parent) {
		struct identity is, was;
		const char *tree;
		int top = node_tree(n, &tree), r;

		if (!tree)
			return true;
		r = still_inside(j->look, top, tree, n->fd);
		if (r >= 0)
			return r == 1;
		/* A unit's own way is one that the kernel can spell. */
		if (!n->parent || fd_identity(n->parent->fd, n->name, &is) < 0 ||
		    fd_identity(n->fd, "", &was) < 0 || !identity_equal(&is, &was))
			return false;
	}
}

/* Removes the emptied directory, unless another host works in it. Returns 1 if it has to be listed
 * again. */
static int node_rmdir(struct engine_job *j, struct node *n)
{
	char path[PATH_MAX];
	bool shared = atomic_load(&n->shared);

	gate("unlink", n->name);
	if (shared)
		atomic_store(&n->parent->shared, true);
	if (atomic_load(&n->failed) || job_cancelled(j)) {
		atomic_store(&n->parent->failed, true);
		job_skip(j, job_cancelled(j) ? SKIP_CANCELLED : SKIP_KEPT, n->name);
		return 0;
	}
	if (shared)
		return 0;
	/* Who moves a directory out of the tree wants to keep it, and what is left in it. */
	if (!node_in_place(j, n->parent)) {
		atomic_store(&n->parent->failed, true);
		(void)node_path(n, path, sizeof(path));
		job_skip(j, SKIP_MOVED, path);
		return 0;
	}
	stat_add(&j->stats.unlink_calls, !j->o.dry);
	if (j->o.dry || unlinkat(n->parent->fd, n->name, AT_REMOVEDIR) == 0) {
		stat_add(&j->stats.entries, 1);
		stat_add(&j->stats.dirs, 1);
		stat_add(&j->stats.bytes, n->bytes);
		return 0;
	}
	if ((errno == ENOTEMPTY || errno == EEXIST) && n->relists < RELISTS_MAX)
		return 1;
	if (errno == ENOENT)
		job_skip(j, SKIP_MISSING, n->name);
	else
		rmdir_failed(j, n, -errno);
	return 0;
}

void node_put(struct engine_job *j, struct node *n)
{
	while (n && atomic_fetch_sub(&n->refs, 1) == 1) {
		struct node *parent = n->parent;

		if (parent && node_rmdir(j, n) == 1) {
			struct task *again = task_of_one(parent, n->pins, n->pin, n->name);

			stat_add(&j->stats.relists, 1);
			if (again) {
				again->relists = n->relists + 1;
				tasks_add(j->tasks, again);
				parent = NULL; /* the task has the reference now */
			} else {
				rmdir_failed(j, n, -ENOMEM);
			}
		}
		if (n->parent) {
			unsigned before = atomic_fetch_sub(&j->nodes, 1);

			assert(before > 0);
		}
		fd_closep(&n->fd);
		free(n);
		n = parent;
	}
}
