/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-round.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/staging-dir.h"
#include "base/thread.h"
#include "engine/guard/protect.h"

#define GROUPS_MOST 65536 /* NGROUPS_MAX */

bool spool_name_is_ours(const char *name)
{
	return strncmp(name, STAGING_DIR, strlen(STAGING_DIR)) == 0;
}

static int refuse(struct spool_round *r, int error, const char *why)
{
	(void)snprintf(r->why, sizeof(r->why), "%s", why);
	return error;
}

/* ---- the way to it ------------------------------------------------------------------------- */

static int stamp_read(int dirfd, const char *name, struct spool_stamp *ret)
{
	struct spool_stamp st = { 0 };
	struct statx sx;
	int k;

	/* What the kernel knows: a server is not to be waited for entry by entry, and nothing is
	 * mounted for this. */
	if (statx(dirfd, name,
		  AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, &sx) < 0)
		return -errno;
	k = fd_identity(dirfd, name, &st.id);
	if (k < 0)
		return k;
	st.ctime_nsec = sx.stx_ctime.tv_sec * 1000000000LL + sx.stx_ctime.tv_nsec;
	st.mtime_nsec = sx.stx_mtime.tv_sec * 1000000000LL + sx.stx_mtime.tv_nsec;
	st.uid = sx.stx_uid;
	*ret = st;
	return 0;
}

/* Takes a directory into the chain. Takes fd over. */
static int step_add(struct spool_round *r, int fd)
{
	struct spool_stamp st;
	int k = stamp_read(fd, "", &st);

	if (k < 0) {
		(void)close(fd);
		return refuse(r, k, strerror(-k));
	}
	r->steps[r->n_steps++] = (struct spool_step){ .uid = st.uid,
						      .mode = st.id.mode,
						      .dev = st.id.dev,
						      .ino = st.id.ino,
						      .mnt_id = st.id.mnt_id,
						      .fd = fd };
	return 0;
}

/* Walks from / to the spool, a component at a time. */
static int walk(struct spool_round *r)
{
	char component[NAME_MAX + 1];
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (const char *p = r->path;;) {
		size_t len;
		int k;

		if (fd < 0 && errno == ENOENT)
			return refuse(r, -ENOENT, "does not exist");
		if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
			return refuse(r, -ENOTDIR,
				      "leads through a symbolic link, or something else that is "
				      "no directory: configure the path that realpath prints");
		if (fd < 0)
			return refuse(r, -errno, strerror(errno));
		k = step_add(r, fd);
		if (k < 0)
			return k;
		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len == 0)
			return 0;
		(void)snprintf(component, sizeof(component), "%.*s", (int)len, p);
		p += len;
		fd = openat(r->steps[r->n_steps - 1].fd, component,
			    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
}

/* Keeps getpwent(3), which protect_new goes by, to one thread. */
static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;

static int check_protected(struct spool_round *r)
{
	const struct spool_step *last = &r->steps[r->n_steps - 1];
	_cleanup_free_ char *culprit = NULL;
	const char *reason = "is the root directory";
	struct protect *p = NULL;
	struct identity id;
	int k;

	(void)pthread_mutex_lock(&accounts);
	k = protect_new(&p, (const char *const *)r->protect, &culprit);
	(void)pthread_mutex_unlock(&accounts);
	if (k < 0) {
		(void)snprintf(r->why, sizeof(r->why),
			       "cannot be served, as %s cannot be looked at: %s",
			       culprit ? culprit : "what is protected", strerror(-k));
		return k;
	}
	k = fd_identity(last->fd, "", &id);
	if (k >= 0 && r->n_steps > 1)
		reason = protect_check(p, r->steps[r->n_steps - 2].fd, strrchr(r->path, '/') + 1,
				       &id, /* staged= */ false);
	protect_free(p);
	if (k < 0)
		return refuse(r, k, strerror(-k));
	return reason ? refuse(r, -EPERM, reason) : 0;
}

static int arrive(struct spool_round *r)
{
	size_t components = 2;
	int k;

	for (const char *p = r->path; *p; p++)
		components += *p == '/';
	r->steps = calloc(components, sizeof(*r->steps));
	if (!r->steps)
		return refuse(r, -ENOMEM, "cannot be checked: out of memory");
	k = walk(r);
	if (k < 0)
		return k;
	r->complete = true;
	r->authority = spool_authority(r->steps, r->n_steps);
	if (r->authority.rule == RULE_NONE)
		return refuse(r, -EPERM,
			      "can be exchanged for another directory by several users, so that "
			      "it is not known who submits: let only root, or only its owner, "
			      "write the directories above it");
	return r->check || r->list ? check_protected(r) : 0;
}

/* ---- what is in it ------------------------------------------------------------------------- */

static int stat_entry(struct spool_round *r, const char *name)
{
	struct spool_seen *s = array_add(&r->seen, &r->n_seen, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct spool_seen){ .name = strdup(name), .submitter = -1 };
	s->error = stamp_read(r->dirfd, name, &s->stamp);
	return s->name ? 0 : -ENOMEM;
}

static int stat_names(struct spool_round *r)
{
	int k = 0;

	for (size_t i = 0; i < r->n_names && k >= 0; i++)
		k = stat_entry(r, r->names[i]);
	return k;
}

static int stat_all(struct spool_round *r)
{
	struct dirent *d;
	int k = 0, fd = fcntl(r->dirfd, F_DUPFD_CLOEXEC, 3);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir) {
		k = -errno;
		fd_closep(&fd);
		return k;
	}
	while (k >= 0 && (errno = 0, d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    spool_name_is_ours(d->d_name))
			continue;
		if (r->n_seen >= SPOOL_ENTRIES_MOST) {
			r->more = true;
			break;
		}
		k = stat_entry(r, d->d_name);
	}
	/* An error is not the end of the directory: what was not seen is not gone. */
	if (k >= 0 && !r->more && errno != 0)
		k = -errno;
	(void)closedir(dir);
	return k;
}

/* ---- whose it is --------------------------------------------------------------------------- */

static int groups_of(const char *name, struct credentials *s)
{
	int n = 64;

	for (int tries = 0; tries < 3; tries++) {
		gid_t *v;

		n = CLAMP(n, 1, GROUPS_MOST);
		v = realloc(s->groups, (size_t)n * sizeof(gid_t));
		if (!v)
			return -ENOMEM;
		s->groups = v;
		if (getgrouplist(name, s->gid, v, &n) >= 0) {
			s->n_groups = (size_t)n;
			return 0;
		}
	}
	return -E2BIG;
}

/* Finds the credentials of a user. Returns the index; -ENOENT: no account. */
static int submitter_find(struct spool_round *r, uid_t uid)
{
	struct credentials s = { .uid = uid }, *v;
	struct passwd pw, *found = NULL;
	char buf[4096];
	int k = 0;

	for (size_t i = 0; i < r->n_submitters; i++)
		if (r->submitters[i].uid == uid)
			return (int)i;
	if (uid != 0) {
		k = -getpwuid_r(uid, &pw, buf, sizeof(buf), &found);
		if (!found)
			return k < 0 ? k : -ENOENT;
		s.gid = pw.pw_gid;
		k = groups_of(pw.pw_name, &s);
	}
	v = k < 0 ? NULL : array_add(&r->submitters, &r->n_submitters, sizeof(*v));
	if (!v) {
		free(s.groups);
		return k < 0 ? k : -ENOMEM;
	}
	*v = s;
	return (int)r->n_submitters - 1;
}

static void find_submitter(struct spool_round *r, struct spool_seen *s, uid_t *unknown)
{
	uid_t uid = 0;

	s->why = spool_authority_entry(&r->authority, s->stamp.uid, s->stamp.id.mode, &uid);
	if (s->why)
		return;
	/* Thousands of entries of a user without an account do not cause thousands of queries. */
	s->submitter = uid != 0 && uid == *unknown ? -ENOENT : submitter_find(r, uid);
	if (s->submitter == -ENOENT) {
		*unknown = uid;
		s->why = "belongs to a user id without an account, so that it is not known what it "
			 "may delete: submit it with reclaimctl";
	} else if (s->submitter < 0) {
		s->why = "belongs to a user whose groups cannot be found out just now: it stays "
			 "until it changes, or reclaimd is reloaded";
	}
}

static void scan(struct spool_round *r)
{
	uid_t unknown = 0;

	r->error = arrive(r);
	if (r->error < 0 || (!r->list && r->n_names == 0))
		return;
	r->dirfd = openat(r->steps[r->n_steps - 1].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r->error = r->dirfd < 0 ? -errno : r->list ? stat_all(r) : stat_names(r);
	if (r->error < 0) {
		(void)refuse(r, r->error, strerror(-r->error));
		return;
	}
	for (size_t i = 0; i < r->n_seen; i++)
		if (r->seen[i].error >= 0)
			find_submitter(r, &r->seen[i], &unknown);
}

/* ---- the thread ---------------------------------------------------------------------------- */

struct spool_round *spool_round_new(const char *path, char *const *protect)
{
	struct spool_round *r = calloc(1, sizeof(*r));
	size_t n = 0;
	int k = 0;

	if (!r)
		return NULL;
	r->dirfd = r->eventfd = -1;
	atomic_init(&r->refs, 1);
	r->path = strdup(path);
	for (; protect && *protect && k >= 0; protect++)
		k = strings_add(&r->protect, &n, strdup(*protect));
	return r->path && k >= 0 ? r : spool_round_free(r);
}

static void round_unref(struct spool_round *r)
{
	if (atomic_fetch_sub(&r->refs, 1) > 1)
		return;
	for (size_t i = 0; r->protect && r->protect[i]; i++)
		free(r->protect[i]);
	for (size_t i = 0; i < r->n_names; i++)
		free(r->names[i]);
	for (size_t i = 0; i < r->n_steps; i++)
		fd_closep(&r->steps[i].fd);
	for (size_t i = 0; i < r->n_seen; i++)
		free(r->seen[i].name);
	for (size_t i = 0; i < r->n_submitters; i++)
		free(r->submitters[i].groups);
	free(r->submitters);
	free(r->seen);
	free(r->steps);
	free(r->names);
	free(r->protect);
	free(r->path);
	fd_closep(&r->dirfd);
	fd_closep(&r->eventfd);
	free(r);
}

static void *round_main(void *arg)
{
	struct spool_round *r = arg;
	const uint64_t one = 1;

	scan(r);
	(void)!write(r->eventfd, &one, sizeof(one));
	round_unref(r);
	return NULL;
}

static int round_over(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct spool_round *r = userdata;
	uint64_t ended;

	(void)source;
	(void)revents;
	(void)!read(fd, &ended, sizeof(ended));
	r->source = sd_event_source_disable_unref(r->source);
	r->ended(r, r->userdata);
	return 0;
}

int spool_round_start(struct spool_round *r, sd_event *event,
		      void (*ended)(struct spool_round *r, void *userdata), void *userdata)
{
	pthread_t thread;
	int k;

	r->ended = ended;
	r->userdata = userdata;
	r->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->eventfd < 0)
		return -errno;
	k = sd_event_add_io(event, &r->source, r->eventfd, EPOLLIN, round_over, r);
	if (k < 0)
		return k;
	atomic_fetch_add(&r->refs, 1);
	k = thread_start(&thread, round_main, r);
	if (k < 0)
		atomic_fetch_sub(&r->refs, 1);
	else
		(void)pthread_detach(thread);
	return k;
}

struct spool_round *spool_round_free(struct spool_round *r)
{
	if (!r)
		return NULL;
	r->source = sd_event_source_disable_unref(r->source);
	round_unref(r);
	return NULL;
}
