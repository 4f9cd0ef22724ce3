/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "intake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/gate.h"
#include "base/lock-holder.h"
#include "base/mounts.h"
#include "base/staging-dir.h"
#include "caller-view.h"
#include "deletable.h"
#include "engine/filesystem/profile.h"
#include "engine/guard/path-intake.h"
#include "engine/guard/protect.h"
#include "identity.h"
#include "move.h"
#include "sandbox/credentials.h"
#include "wire/protocol.h"

/* So long a worker that has ended may still have to be cleared away. */
#define LOCK_TRIES 20
#define LOCK_TRY_USEC 5000

/* ---- <mount>/.reclaim, a host's part of it, and a user's directory in either: made by root, and
 * believed only if they are exactly what root would have made ---- */

/* Daemons that want the same mount at the same time. */
#define HOLDER_TRIES 8

/* Another host's change of a directory, which this one may see a moment later. */
#define SHARED_TRIES 20
#define SHARED_TRY_USEC 5000

/* A directory that has to be exactly so. */
struct wanted_dir {
	char name[NAME_MAX + 1];
	uid_t uid;
	gid_t gid;
	mode_t mode;
	bool shared; /* other hosts make it, too */
};

static const char *const acls[] = { "system.posix_acl_access", "system.posix_acl_default" };

static bool has_acl(int fd)
{
	for (size_t i = 0; i < ELEMENTSOF(acls); i++)
		if (fgetxattr(fd, acls[i], NULL, 0) >= 0)
			return true;
	return false;
}

/* A directory that is made and not finished: by us a moment ago, or before the machine went down.
 * Its parent's default ACL is not for it. The mode comes last: it shows that all is done. */
static int dir_finish(int fd, const struct wanted_dir *w)
{
	for (size_t i = 0; i < ELEMENTSOF(acls); i++)
		if (fremovexattr(fd, acls[i]) < 0 && errno != ENODATA && errno != EOPNOTSUPP)
			return -errno;
	return fchmod(fd, w->mode) < 0 ? -errno : 0;
}

/* Makes it as its owner to be, so that nothing has to be given away, for which reclaimd would need
 * CAP_CHOWN. Of root's powers only that to write in root's own directory is kept meanwhile. */
static int dir_make(int parent, const struct wanted_dir *w)
{
	int r;

	(void)setfsgid(w->gid);
	(void)setfsuid(w->uid);
	r = w->uid == 0 ? 0 : credentials_override();
	if (r >= 0 && mkdirat(parent, w->name, 0) < 0)
		r = -errno;
	/* This brings back all that is permitted. */
	(void)setfsuid(0);
	(void)setfsgid(0);
	return r;
}

static int dir_verify(int fd, const struct wanted_dir *w, uint64_t mnt_id)
{
	struct found f;
	int r = found_at(fd, "", &f);

	if (r < 0)
		return r;
	if ((f.attributes & STATX_ATTR_MOUNT_ROOT) || f.id.mnt_id != mnt_id)
		return -EPERM;
	if (f.uid != w->uid || (f.id.mode & 07777) != w->mode || has_acl(fd))
		return -EPERM;
	return 0;
}

/* Is it one that was begun, and not finished? Nothing is in such a one. The owner of the root of
 * the filesystem can call so what root has closed and filled, which has to stay closed. */
static bool is_unfinished(int fd, const struct wanted_dir *w)
{
	struct found f;

	return found_at(fd, "", &f) == 0 && f.uid == w->uid &&
	       (f.id.mode & 07777 & ~S_ISGID) == 0 && directory_is_empty(fd, ".") > 0;
}

/* What another host has made and filled may still be cached here as it was when it was begun. */
static void wait_for_host(int fd, const struct wanted_dir *w)
{
	struct statx sx;

	for (unsigned tries = 0; tries < SHARED_TRIES; tries++) {
		if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &sx) <
			    0 ||
		    sx.stx_uid != w->uid || (sx.stx_mode & 07777 & ~S_ISGID) != 0)
			return;
		(void)usleep(SHARED_TRY_USEC);
	}
}

/* Opens it, and makes it if that is wanted. The mode 0 it has until it is finished keeps every
 * user but root out, and tells it from one that another user made. */
static int dir_get(int parent, const struct wanted_dir *w, uint64_t mnt_id, bool make)
{
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (make)
		r = dir_make(parent, w);
	if (r < 0 && r != -EEXIST)
		return r;
	r = 0;
	fd = fd_open_dir(parent, w->name);
	if (fd < 0)
		return fd == -ELOOP || fd == -ENOTDIR || fd == -EXDEV ? -EPERM : fd;
	if (make && is_unfinished(fd, w))
		r = dir_finish(fd, w);
	if (r >= 0)
		r = dir_verify(fd, w, mnt_id);
	if (r == -EPERM && make && w->shared) {
		wait_for_host(fd, w);
		r = dir_verify(fd, w, mnt_id);
	}
	return r < 0 ? r : fd_take(&fd);
}

/* The name of the only directory in `lock`: 1, 0 if there is none, or a negative errno. */
static int lock_read(int top_fd, uint64_t mnt_id, char name[NAME_MAX + 1])
{
	const struct wanted_dir lock = { .name = HOLDER_DIR, .mode = 0700 };
	_cleanup_close_ int fd = fd_open_dir(top_fd, HOLDER_DIR);
	const struct dirent *e;
	int r;
	DIR *d;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = dir_verify(fd, &lock, mnt_id);
	if (r < 0)
		return r;
	d = fdopendir(fd);
	if (!d)
		return -ENOMEM;
	(void)fd_take(&fd);
	while ((errno = 0, e = readdir(d)) && !is_component(e->d_name))
		;
	r = e ? 1 : -errno;
	if (e)
		(void)snprintf(name, NAME_MAX + 1, "%s", e->d_name);
	(void)closedir(d);
	return r;
}

/* Returns 0, -EEXIST if another was quicker, or another negative errno. */
static int lock_make(int top_fd, const char *holder)
{
	char made[64], in_it[NAME_MAX + 72];
	int r = 0;

	(void)snprintf(made, sizeof(made), HOLDER_DIR ".%d.%" PRIx64, (int)getpid(), now_usec());
	(void)snprintf(in_it, sizeof(in_it), "%s/%s", made, holder);
	if (mkdirat(top_fd, made, 0700) < 0)
		return -errno;
	if (mkdirat(top_fd, in_it, 0700) < 0) {
		r = -errno;
		(void)unlinkat(top_fd, made, AT_REMOVEDIR);
		return r;
	}
	/* Never over one with something in it. */
	if (renameat(top_fd, made, top_fd, HOLDER_DIR) == 0)
		return 0;
	r = errno == ENOTEMPTY ? -EEXIST : -errno;
	(void)unlinkat(top_fd, in_it, AT_REMOVEDIR);
	(void)unlinkat(top_fd, made, AT_REMOVEDIR);
	return r;
}

static int lock_take_over(int top_fd, const char *from, const char *holder)
{
	char old[NAME_MAX + 8], own[NAME_MAX + 8];

	(void)snprintf(old, sizeof(old), HOLDER_DIR "/%s", from);
	(void)snprintf(own, sizeof(own), HOLDER_DIR "/%s", holder);
	if (renameat2(top_fd, old, top_fd, own, 0) == 0)
		return 0;
	return errno == ENOENT ? -EEXIST : -errno;
}

/* Takes the lock of the mount for this daemon if the directory is made, or if it is used and
 * somebody has removed the lock; otherwise only checks that no other daemon has it. Returns 0,
 * -EBUSY if another daemon has it, or another negative errno. Without `make`, the lock of a host's
 * part must show that this state directory has had the part: a missing lock may mean that another
 * host is making it. */
static int lock_get(int top_fd, const struct make_staging_message *w, uint64_t mnt_id)
{
	char found[NAME_MAX + 1];
	int r = -EEXIST;

	for (unsigned tries = 0; r == -EEXIST && tries < HOLDER_TRIES; tries++) {
		enum holder_is is;

		r = lock_read(top_fd, mnt_id, found);
		if (r < 0)
			return r;
		if (w->host && !w->make)
			return r > 0 && holder_is_same_state(w->holder, found) ? 0 : -EBUSY;
		is = r > 0 ? holder_compare(w->holder, found) : HOLDER_ENDED;
		if (is == HOLDER_OTHER)
			return -EBUSY;
		/* An ended daemon's lock is left until names are moved here: a frozen filesystem
		 * could keep this waiting. */
		if (is == HOLDER_OWN || !(w->make || (w->uses && r == 0)))
			return 0;
		r = r > 0 ? lock_take_over(top_fd, found, w->holder) : lock_make(top_fd, w->holder);
	}
	return r == -EEXIST ? -EBUSY : r;
}

int staging_held_check(int top_fd, uint64_t mnt_id, const char *holder)
{
	char found[NAME_MAX + 1];
	int r = lock_read(top_fd, mnt_id, found);

	if (r < 0)
		return r;
	return r > 0 && holder_compare(holder, found) == HOLDER_OWN ? 0 : -EBUSY;
}

int staging_mount_open(const char *mount_path, uint64_t mnt_id, uint64_t *ret_mnt_id)
{
	_cleanup_close_ int fd = -1;
	const char *why;
	struct found f;
	int r;

	if (mount_path[0] != '/')
		return -EINVAL;
	fd = intake_open_dir(mount_path, &why);
	if (fd < 0)
		return fd;
	r = found_at(fd, "", &f);
	if (r < 0)
		return r;
	if (!(f.attributes & STATX_ATTR_MOUNT_ROOT) || (mnt_id && mnt_id != f.id.mnt_id))
		return -EXDEV;
	*ret_mnt_id = f.id.mnt_id;
	return fd_take(&fd);
}

int staging_root_dir(int parent, const char *name, mode_t mode, uint64_t mnt_id, bool make)
{
	struct wanted_dir w = { .mode = mode, .shared = true };

	if (snprintf(w.name, sizeof(w.name), "%s", name) >= (int)sizeof(w.name))
		return -ENAMETOOLONG;
	return dir_get(parent, &w, mnt_id, make);
}

/* Opens .reclaim, or the host's part of it, in the root of a mount. */
static int top_get(int root, const struct make_staging_message *w, uint64_t mnt_id)
{
	struct wanted_dir top = { .name = STAGING_DIR, .mode = 0711, .shared = w->host };
	char part[STAGING_PART_SIZE];
	_cleanup_close_ int fd = dir_get(root, &top, mnt_id, w->make);

	if (fd < 0 || !w->host)
		return fd_take(&fd);
	staging_part_format(part, w->host);
	(void)snprintf(top.name, sizeof(top.name), "%s", part);
	top.shared = false;
	return dir_get(fd, &top, mnt_id, w->make);
}

/* Returns a descriptor of the submitter's own directory, open for listing, or a negative errno:
 * -EXDEV if that path is no root of that mount, -EPERM if something there is not as it should be,
 * -EBUSY if another daemon has the mount. */
static int staging_get(const struct make_staging_message *w)
{
	struct wanted_dir own = { .uid = w->uid, .gid = w->gid, .mode = 0700 };
	_cleanup_close_ int root = -1, top_fd = -1;
	uint64_t mnt_id;
	int fd, r;

	if (w->host && !fleet_name_is_valid(w->host))
		return -EINVAL;
	root = staging_mount_open(w->mount_path, w->mnt_id, &mnt_id);
	if (root < 0)
		return root;
	top_fd = top_get(root, w, mnt_id);
	if (top_fd < 0)
		return top_fd;
	r = w->holder ? lock_get(top_fd, w, mnt_id) : 0;
	/* Jobs whose names are there go on, whoever has the lock now. */
	if (r < 0 && !(w->uses && !w->make))
		return r;
	(void)snprintf(own.name, sizeof(own.name), "%u", (unsigned)w->uid);
	fd = dir_get(top_fd, &own, mnt_id, w->make);
	/* systemd-tmpfiles passes by a directory that is locked. This lock ends when reclaimd
	 * closes the descriptor; on a network filesystem that could wait for a server. */
	if (fd >= 0 && w->uses && profile_is_local(fd))
		(void)flock(fd, LOCK_SH | LOCK_NB);
	return fd;
}

/* ---- requests ----------------------------------------------------------------------------- */

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

typedef bool (*compare_t)(const struct lasting_identity *is, const struct lasting_identity *known);

static bool is_on_filesystem(const struct lasting_identity *is,
			     const struct lasting_identity *known)
{
	return is->fsid != 0 && is->fsid == known->fsid;
}

/* The directory that an absolute path, or one component beneath at_fd, names. */
static int dir_open(int at_fd, const char *path, const struct lasting_identity *id, compare_t is)
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
	return id && !is(&now, id) ? -ESTALE : fd_take(&fd);
}

int staging_open_dir(struct serving *s)
{
	const struct open_dir_message *m = &s->m.open_dir_message;
	compare_t is = m->filesystem ? is_on_filesystem
		       : m->foreign  ? lasting_matches
				     : lasting_equal;

	return opened_tell(s, dir_open(m->at, m->path, m->checks ? &m->id : NULL, is));
}

/* Opens the directory that the entry was in. Returns -ESTALE if the directory is gone or is another
 * one. */
static int origin_open(const struct restore_message *m)
{
	int fd = dir_open(-1, m->dir_path, &m->dir_id, lasting_equal);

	return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
}

/* Returns true if `staging` is certainly on the filesystem that the thing was on. If the filesystem
 * has no lasting id, the directory that the thing was in decides. */
static bool is_its_staging(const struct restore_message *m)
{
	_cleanup_close_ int dir_fd = -1;
	struct lasting_identity staging;
	struct stat of_dir, of_staging;

	if (lasting_at(m->staging, "", &staging) < 0)
		return false;
	if (staging.fsid != 0 && m->id.fsid != 0)
		return staging.fsid == m->id.fsid;
	dir_fd = origin_open(m);
	return dir_fd >= 0 && fstat(dir_fd, &of_dir) == 0 && fstat(m->staging, &of_staging) == 0 &&
	       of_dir.st_dev == of_staging.st_dev;
}

/* Opens the job's directory in staging, in which the thing has the number `number`. Returns a
 * descriptor or a negative errno: -ENOENT if there is no such thing, -EUCLEAN if something else has
 * its number. */
static int staged_find(const struct restore_message *m, char number[24])
{
	_cleanup_close_ int job_fd = -1;
	struct lasting_identity now;
	int r;

	(void)snprintf(number, 24, "%" PRIu64, m->seq);
	if (m->absent)
		return -ENOENT;
	job_fd = fd_open_beneath(m->staging, m->job_dir, O_PATH | O_DIRECTORY);
	if (job_fd < 0)
		return job_fd == -ENOTDIR || job_fd == -ELOOP ? -EUCLEAN : job_fd;
	r = lasting_at(job_fd, number, &now);
	if (r < 0)
		return r;
	return lasting_equal(&now, &m->id) ? fd_take(&job_fd) : -EUCLEAN;
}

static bool is_there(const struct restore_message *m, int dir_fd, const char *name)
{
	struct lasting_identity now;

	return dir_fd >= 0 && lasting_at(dir_fd, name, &now) >= 0 && lasting_equal(&now, &m->id);
}

/* Returns 0 if the thing is where it was to go, because a worker or the daemon died before that was
 * on record, or where it was, because it was never moved. Otherwise returns `error`, which says why
 * it is not in staging; or -ENODEV if that may be the staging directory of another filesystem. */
static int restored_before(const struct restore_message *m, int error)
{
	_cleanup_close_ int origin_fd = origin_open(m);

	if (is_there(m, m->to, m->to_name ? m->to_name : m->name) ||
	    is_there(m, origin_fd, m->name))
		return 0;
	return is_its_staging(m) ? error : -ENODEV;
}

static int restore(const struct restore_message *m, int job_fd, const char *number)
{
	_cleanup_close_ int origin_fd = m->to < 0 ? origin_open(m) : -1;

	if (m->to < 0 && origin_fd < 0)
		return origin_fd;
	gate("restore", m->name);
	return move_back(job_fd, number, m->to < 0 ? origin_fd : m->to,
			 m->to_name ? m->to_name : m->name);
}

/* Returns 0 if the process that asks may write where the thing was, or a negative errno. The mounts
 * of the process are read once for all that it has put back at a time. */
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
	_cleanup_close_ int job_fd = -1;
	char number[24];
	struct statvfs v;
	int r = 0;

	if (m->to_name && !is_component(m->to_name))
		return done_tell(s, -EINVAL);
	/* As it was handed over: here its filesystem may be writable. */
	if (m->to >= 0 && (fstatvfs(m->to, &v) < 0 || (v.f_flag & ST_RDONLY)))
		return done_tell(s, -EROFS);
	if (to >= 0)
		mount_translate(&to, m->staging);
	m->to = to;
	job_fd = staged_find(m, number);
	if (job_fd == -ENOENT || job_fd == -EUCLEAN)
		return done_tell(s, restored_before(m, job_fd));
	if (job_fd >= 0 && to < 0 && m->view >= 0)
		r = view_check(s, m);
	if (job_fd < 0 || r < 0)
		return done_tell(s, job_fd < 0 ? job_fd : r);
	return done_tell(s, restore(m, job_fd, number));
}

int staging_remove(struct serving *s)
{
	const struct remove_staging_message *m = &s->m.remove_staging_message;

	gate("staging", "remove");
	return done_tell(s, unlinkat(m->staging, m->job_dir, AT_REMOVEDIR) < 0 ? -errno : 0);
}

static int listing_tell(struct serving *s, DIR *d, uint64_t names)
{
	struct wire_out *o = answer_begin(s, ANSWER_LISTING);
	struct lasting_identity id = { 0 };
	struct dirent *e;
	uint64_t n = 0;
	int r = 0;

	while (r >= 0 && (errno = 0, e = readdir(d))) {
		if (!is_component(e->d_name) ||
		    (names == 0 && lasting_at(dirfd(d), e->d_name, &id) < 0))
			continue;
		if (names > 0 && n++ == names)
			return E2BIG;
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
	r = listing_tell(s, d, m->names);
	(void)closedir(d);
	/* A positive one is that of listing. */
	return r < 0 ? r : done_tell(s, -r);
}
