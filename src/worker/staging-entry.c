/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "staging-entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "directory.h"
#include "engine/guard/path-intake.h"
#include "engine/guard/protect.h"
#include "identity.h"
#include "serving.h"
#include "staging-make.h"
#include "base/gate.h"
#include "base/mounts.h"
#include "caller-view.h"

/* So long a worker that has ended may still have to be cleared away. */
#define LOCK_TRIES 20
#define LOCK_TRY_USEC 5000

static int done_tell(struct serving *s, int error)
{
	return answer(s, ANSWER_DONE, &(struct done_message){ error });
}

/* Takes over fd, if there is one. */
static int opened_tell(struct serving *s, int fd)
{
	_cleanup_close_ int own = fd;

	return answer(s, ANSWER_OPENED, &(struct opened_message){ MIN(fd, 0), MAX(fd, -1) });
}

int staging_make(struct serving *s)
{
	gate("staging", "get");
	return opened_tell(s, staging_get(&s->m.make_staging_message));
}

/* The directory that an absolute path, or one component beneath at_fd, names. */
static int dir_open(int at_fd, const char *path, const struct lasting_identity *id)
{
	const char *why;
	_cleanup_close_ int fd = -1;
	struct lasting_identity now;
	int r;

	if (at_fd >= 0)
		fd = is_component(path) ? fd_open_beneath(at_fd, path, O_PATH | O_DIRECTORY)
					: -EINVAL;
	else
		fd = path[0] == '/' ? intake_open_dir(path, &why) : -EINVAL;
	if (fd < 0)
		return fd;
	r = lasting_at(fd, "", &now);
	if (r < 0)
		return r;
	return id && !lasting_equal(id, &now) ? -ESTALE : fd_take(&fd);
}

int staging_open_dir(struct serving *s)
{
	const struct open_dir_message *m = &s->m.open_dir_message;

	return opened_tell(s, dir_open(m->at, m->path, m->checks ? &m->id : NULL));
}

/* Where something was. -ENOENT is said of the thing itself. */
static int origin_open(const struct restore_message *m)
{
	int fd = dir_open(-1, m->dir_path, &m->dir_id);

	return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
}

static int restore(const struct restore_message *m)
{
	_cleanup_close_ int job_fd = fd_open_beneath(m->staging, m->job_dir, O_PATH | O_DIRECTORY);
	_cleanup_close_ int dir_fd = -1;
	struct lasting_identity now;
	char number[24];
	int r;

	if (job_fd < 0)
		return job_fd;
	(void)snprintf(number, sizeof(number), "%" PRIu64, m->seq);
	r = lasting_at(job_fd, number, &now);
	if (r < 0)
		return r;
	if (!lasting_equal(&now, &m->id))
		return -ESTALE;
	if (m->to < 0) {
		dir_fd = origin_open(m);
		if (dir_fd < 0)
			return dir_fd;
	}
	gate("restore", m->name);
	return renameat2(job_fd, number, m->to < 0 ? dir_fd : m->to,
			 m->to_name ? m->to_name : m->name, RENAME_NOREPLACE) < 0
		       ? -errno
		       : 0;
}

/* May the process that asks write where this was? Its mounts are read once for all that it has put
 * back at a time. */
static int view_check(struct serving *s, const struct restore_message *m)
{
	_cleanup_free_ char *culprit = NULL;
	_cleanup_close_ int fd = -1;
	const struct protect *p;
	struct location at;
	int r = 0;

	p = serving_protect(s, &culprit, &r);
	if (!p)
		return r;
	if (!s->view || s->view_number != m->view_number) {
		s->view = view_free(s->view);
		r = view_new(&s->view, m->view, protect_mounts(p));
		s->view_number = m->view_number;
	}
	if (r < 0)
		return r;
	fd = origin_open(m);
	if (fd < 0)
		return fd;
	if (protect_locate(p, fd, &at) < 0)
		return -ESTALE;
	return view_writable(s->view, &at) ? 0 : -EROFS;
}

/* Where it is to go was opened by another process, maybe in another mount namespace. */
static void mount_translate(int *to_fd, int staging_fd)
{
	struct found to, staging;

	if (found_at(*to_fd, "", &to) >= 0 && found_at(staging_fd, "", &staging) >= 0 &&
	    to.id.mnt_id != staging.id.mnt_id)
		directory_here(to_fd, &to);
}

int staging_restore(struct serving *s)
{
	struct restore_message *m = &s->m.restore_message;
	_cleanup_close_ int to = wire_keep_fd(&s->in, m->to);
	struct statvfs v;
	int r = 0;

	if (m->to_name && !is_component(m->to_name))
		return done_tell(s, -EINVAL);
	/* As it was handed over: here its filesystem may be writable. */
	if (m->to >= 0 && (fstatvfs(m->to, &v) < 0 || (v.f_flag & ST_RDONLY)))
		return done_tell(s, -EROFS);
	if (to >= 0)
		mount_translate(&to, m->staging);
	else if (m->view >= 0)
		r = view_check(s, m);
	m->to = to;
	return done_tell(s, r < 0 ? r : restore(m));
}

int staging_remove(struct serving *s)
{
	const struct remove_staging_message *m = &s->m.remove_staging_message;

	gate("staging", "remove");
	return done_tell(s, unlinkat(m->staging, m->job_dir, AT_REMOVEDIR) < 0 ? -errno : 0);
}

static int listing_tell(struct serving *s, DIR *d)
{
	struct wire_out *o = answer_begin(s, ANSWER_LISTING);
	struct lasting_identity id;
	struct dirent *e;
	int r = 0;

	while (r >= 0 && (errno = 0, e = readdir(d))) {
		if (!is_component(e->d_name) || lasting_at(dirfd(d), e->d_name, &id) < 0)
			continue;
		protocol_put_item(o, &(struct listing_item){ e->d_name, id });
		r = answer_flush(s, ANSWER_LISTING, 512);
	}
	if (r >= 0 && errno)
		return errno;
	return r < 0 || o->len == sizeof(struct wire_header) ? r : answer_send(s);
}

/* A worker that moves names there has it locked (stage-names.c). Returns 0 where there are no
 * locks. */
static int wait_for_lock(int fd)
{
	for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			return 0;
		(void)usleep(LOCK_TRY_USEC);
	}
	return -EINPROGRESS;
}

int staging_list(struct serving *s)
{
	const struct list_staging_message *m = &s->m.list_staging_message;
	_cleanup_close_ int fd = -1;
	int r;
	DIR *d;

	gate("staging", "list");
	fd = fd_open_dir(m->staging, m->job_dir ? m->job_dir : ".");
	r = fd >= 0 && m->job_dir ? wait_for_lock(fd) : MIN(fd, 0);
	if (r < 0)
		return done_tell(s, r);
	d = fdopendir(fd);
	if (!d)
		return done_tell(s, -ENOMEM);
	(void)fd_take(&fd);
	r = listing_tell(s, d);
	(void)closedir(d);
	/* A positive one is that of listing. */
	return r < 0 ? r : done_tell(s, -r);
}
