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
	struct wire_out *o = answer_begin(s, ANSWER_DONE);

	wire_put_error(o, error);
	return answer_send(s);
}

/* Takes over fd, if there is one. */
static int opened_tell(struct serving *s, int fd)
{
	_cleanup_close_ int own = fd;
	struct wire_out *o = answer_begin(s, ANSWER_OPENED);

	wire_put_error(o, MIN(fd, 0));
	if (own >= 0)
		wire_put_fd(o, own);
	return answer_send(s);
}

int staging_make(struct serving *s)
{
	struct staging_wanted w = { .mount_path = wire_get_string(&s->in) };
	int r;

	w.mnt_id = wire_get(&s->in);
	w.uid = (uid_t)wire_get_most(&s->in, UINT32_MAX - 1);
	w.gid = (gid_t)wire_get_most(&s->in, UINT32_MAX - 1);
	w.make = wire_get_most(&s->in, 1);
	w.holder = wire_get_string_or_null(&s->in);
	r = wire_end(&s->in);
	if (r < 0)
		return r;
	gate("staging", "get");
	return opened_tell(s, staging_get(&w));
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
	const char *path = wire_get_string(&s->in);
	uint64_t flags = wire_get_most(&s->in, OPEN_AT | OPEN_IDENTITY);
	struct lasting_identity id = wire_get_identity(&s->in);
	_cleanup_close_ int at_fd = flags & OPEN_AT ? wire_get_fd(&s->in) : -1;
	int r = wire_end(&s->in);

	if (r < 0)
		return r;
	return opened_tell(s, dir_open(at_fd, path, flags & OPEN_IDENTITY ? &id : NULL));
}

struct restoring {
	const char *job_dir, *name, *dir_path, *to_name;
	uint64_t seq;
	struct lasting_identity dir_id, id;
	int staging_fd, to_fd;
};

static int restore(const struct restoring *w)
{
	_cleanup_close_ int job_fd =
		fd_open_beneath(w->staging_fd, w->job_dir, O_PATH | O_DIRECTORY);
	_cleanup_close_ int dir_fd = -1;
	struct lasting_identity now;
	char number[24];
	int r;

	if (job_fd < 0)
		return job_fd;
	(void)snprintf(number, sizeof(number), "%" PRIu64, w->seq);
	r = lasting_at(job_fd, number, &now);
	if (r < 0)
		return r;
	if (!lasting_equal(&now, &w->id))
		return -ESTALE;
	if (w->to_fd < 0) {
		dir_fd = dir_open(-1, w->dir_path, &w->dir_id);
		/* -ENOENT is said of the thing itself. */
		if (dir_fd < 0)
			return dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP ? -ESTALE
											   : dir_fd;
	}
	gate("restore", w->name);
	if (renameat2(job_fd, number, w->to_fd < 0 ? dir_fd : w->to_fd,
		      w->to_name ? w->to_name : w->name, RENAME_NOREPLACE) < 0)
		return -errno;
	return 0;
}

/* May the process that asks write where this was? Its mounts are read once for all that it has put
 * back at a time. */
static int view_check(struct serving *s, uint64_t number, int view_fd, const char *dir_path,
		      const struct lasting_identity *dir_id)
{
	_cleanup_free_ char *culprit = NULL;
	_cleanup_close_ int fd = -1;
	const struct protect *p;
	struct location at;
	int r = 0;

	p = serving_protect(s, &culprit, &r);
	if (!p)
		return r;
	if (!s->view || s->view_number != number) {
		s->view = view_free(s->view);
		r = view_new(&s->view, view_fd, protect_mounts(p));
		s->view_number = number;
	}
	if (r < 0)
		return r;
	fd = dir_open(-1, dir_path, dir_id);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
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
	uint64_t flags = wire_get_most(&s->in, RESTORE_TO);
	struct restoring w = { .to_fd = -1 };
	_cleanup_close_ int staging_fd = -1, to_fd = -1, view_fd = -1;
	struct statvfs v;
	uint64_t view;
	int r;

	w.job_dir = wire_get_component(&s->in);
	w.seq = wire_get(&s->in);
	w.name = wire_get_component(&s->in);
	w.dir_path = wire_get_string(&s->in);
	w.dir_id = wire_get_identity(&s->in);
	w.id = wire_get_identity(&s->in);
	w.to_name = wire_get_string_or_null(&s->in);
	view = wire_get(&s->in);
	staging_fd = wire_get_fd(&s->in);
	if (flags & RESTORE_TO)
		to_fd = wire_get_fd(&s->in);
	if (view > 0)
		view_fd = wire_get_fd(&s->in);
	r = wire_end(&s->in);
	if (r < 0)
		return r;
	/* As it was handed over: here its filesystem may be writable. */
	if (to_fd >= 0 && (fstatvfs(to_fd, &v) < 0 || (v.f_flag & ST_RDONLY)))
		return done_tell(s, -EROFS);
	if (to_fd >= 0)
		mount_translate(&to_fd, staging_fd);
	else if (view > 0)
		r = view_check(s, view, view_fd, w.dir_path, &w.dir_id);
	if (r < 0)
		return done_tell(s, r);
	w.staging_fd = staging_fd;
	w.to_fd = to_fd;
	return done_tell(s, w.to_name && !is_component(w.to_name) ? -EINVAL : restore(&w));
}

int staging_remove(struct serving *s)
{
	const char *job_dir = wire_get_component(&s->in);
	_cleanup_close_ int staging_fd = wire_get_fd(&s->in);
	int r = wire_end(&s->in);

	if (r < 0)
		return r;
	gate("staging", "remove");
	return done_tell(s, unlinkat(staging_fd, job_dir, AT_REMOVEDIR) < 0 ? -errno : 0);
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
		wire_put_string(o, e->d_name);
		wire_put_identity(o, &id);
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
	const char *job_dir = wire_get_string_or_null(&s->in);
	_cleanup_close_ int staging_fd = wire_get_fd(&s->in);
	int fd, r = wire_end(&s->in);
	DIR *d;

	if (r < 0)
		return r;
	if (job_dir && !is_component(job_dir))
		return done_tell(s, -EINVAL);
	gate("staging", "list");
	fd = fd_open_dir(staging_fd, job_dir ? job_dir : ".");
	if (fd < 0)
		return done_tell(s, fd);
	r = job_dir ? wait_for_lock(fd) : 0;
	if (r < 0) {
		fd_closep(&fd);
		return done_tell(s, r);
	}
	d = fdopendir(fd);
	if (!d) {
		fd_closep(&fd);
		return done_tell(s, -ENOMEM);
	}
	r = listing_tell(s, d);
	(void)closedir(d);
	/* A positive one is that of listing. */
	return r < 0 ? r : done_tell(s, -r);
}
