/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A mark says that a job of a host of a fleet is on its way, its undo over, and on whose authority:
 * other hosts may help with it then. They believe nothing else.
 *
 *   <mount>/.reclaim/@HOST/marks   root's, 0700
 *   .../JOB                        the same; what it says are the names of the directories in it:
 *       mark=1                         or mark=0: the mark is withdrawn
 *       space=TEXT                 which uid space the numbers are of
 *       owner=UID.GID.N            and N supplementary groups
 *       groups.I=GID,GID,...       of those the I-th twenty
 *       directory=INO.BTIME        which the job's directory in staging is
 *       name=TEXT                  and how it is called
 *
 * So what makes one needs no right to write to files, or to remove them. It is made aside and
 * renamed, and good only if it has exactly the names that would be made of what it says.
 *
 * A mark that is withdrawn is as good as none to other hosts, which look again and again while they
 * help. Their owner keeps it until it is certain that none of them does any more: so also a daemon
 * that has been started since knows that it has to wait for them. It is read, not looked up, that a
 * mark is withdrawn: what other hosts remember of names is not asked.
 */
#include "intake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/gate.h"
#include "base/staging-dir.h"
#include "wire/protocol.h"

#define MARKS_DIR "marks"
#define MARK_GOOD "mark=1"
#define MARK_WITHDRAWN "mark=0"
#define TEXT_MOST 200

/* Groups in one name: ten digits each, and what is between them. */
#define GROUPS_IN_NAME 20

struct mark {
	char space[TEXT_MOST + 1];
	char dir_name[TEXT_MOST + 1];
	uid_t uid;
	gid_t gid;
	gid_t groups[PROTOCOL_MARK_GROUPS];
	size_t n_groups;
	uint64_t ino;
	int64_t btime_nsec;
};

/* The names of a mark. */
struct names {
	char v[5 + PROTOCOL_MARK_GROUPS / GROUPS_IN_NAME + 1][NAME_MAX + 1];
	size_t n;
};

/* ---- what a mark says, as names ------------------------------------------------------------ */

static bool text_is_good(const char *text)
{
	size_t len = strlen(text);

	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/')
			return false;
	return len > 0 && len <= TEXT_MOST;
}

static void groups_format(const struct mark *m, size_t first, char *buf, size_t size)
{
	size_t end = MIN(first + GROUPS_IN_NAME, m->n_groups);
	int n = snprintf(buf, size, "groups.%zu=", first / GROUPS_IN_NAME);

	for (size_t i = first; i < end; i++)
		n += snprintf(buf + n, size - (size_t)n, "%s%u", i == first ? "" : ",",
			      (unsigned)m->groups[i]);
}

static void mark_format(const struct mark *m, struct names *ret)
{
	size_t size = sizeof(ret->v[0]);

	ret->n = 0;
	(void)snprintf(ret->v[ret->n++], size, MARK_GOOD);
	(void)snprintf(ret->v[ret->n++], size, "space=%s", m->space);
	(void)snprintf(ret->v[ret->n++], size, "owner=%u.%u.%zu", (unsigned)m->uid,
		       (unsigned)m->gid, m->n_groups);
	(void)snprintf(ret->v[ret->n++], size, "directory=%" PRIu64 ".%" PRId64, m->ino,
		       m->btime_nsec);
	(void)snprintf(ret->v[ret->n++], size, "name=%s", m->dir_name);
	for (size_t i = 0; i < m->n_groups; i += GROUPS_IN_NAME)
		groups_format(m, i, ret->v[ret->n++], size);
}

static void groups_parse(struct mark *m, const char *text)
{
	unsigned group, chunk;
	size_t at;
	int n = 0;

	if (sscanf(text, "groups.%u=%n", &chunk, &n) < 1 || n == 0 ||
	    chunk > PROTOCOL_MARK_GROUPS / GROUPS_IN_NAME)
		return;
	text += n;
	for (at = (size_t)chunk * GROUPS_IN_NAME;
	     at < PROTOCOL_MARK_GROUPS && sscanf(text, "%u%n", &group, &n) == 1; at++) {
		m->groups[at] = group;
		text += n + (text[n] == ',');
	}
}

static bool has(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i], name) == 0)
			return true;
	return false;
}

/* What does not say exactly what would be written is none. */
static int mark_parse(const struct names *found, struct mark *ret)
{
	struct names wanted;

	*ret = (struct mark){ .uid = UID_NONE };
	for (size_t i = 0; i < found->n; i++) {
		const char *name = found->v[i];

		(void)sscanf(name, "space=%200s", ret->space);
		(void)sscanf(name, "name=%200s", ret->dir_name);
		(void)sscanf(name, "owner=%u.%u.%zu", &ret->uid, &ret->gid, &ret->n_groups);
		(void)sscanf(name, "directory=%" SCNu64 ".%" SCNd64, &ret->ino, &ret->btime_nsec);
		groups_parse(ret, name);
	}
	if (ret->uid == UID_NONE || ret->gid == (gid_t)-1 || ret->ino == 0 ||
	    ret->n_groups > PROTOCOL_MARK_GROUPS || !text_is_good(ret->space) ||
	    !text_is_good(ret->dir_name) || !is_component(ret->dir_name))
		return -EPERM;
	mark_format(ret, &wanted);
	for (size_t i = 0; i < wanted.n; i++)
		if (!has(found, wanted.v[i]))
			return -EPERM;
	return wanted.n == found->n ? 0 : -EPERM;
}

/* ---- on the filesystem --------------------------------------------------------------------- */

/* Opens the directory of a host's marks, which is made only beneath what is there. */
static int marks_open(const struct mark_place *p, bool make, uint64_t *ret_mnt_id)
{
	_cleanup_close_ int root = -1, top = -1, part = -1;
	char name[STAGING_PART_SIZE];
	int r;

	if (p->job[0] == '.' || strlen(p->job) == NAME_MAX || !fleet_name_is_valid(p->host))
		return -EINVAL;
	staging_part_format(name, p->host);
	root = staging_mount_open(p->mount_path, p->mnt_id, ret_mnt_id);
	if (root < 0)
		return root;
	top = staging_root_dir(root, STAGING_DIR, 0711, *ret_mnt_id, /* make= */ false);
	if (top < 0)
		return top;
	part = staging_root_dir(top, name, 0711, *ret_mnt_id, /* make= */ false);
	r = part < 0 ? part : p->holder ? staging_held_check(part, *ret_mnt_id, p->holder) : 0;
	if (r < 0)
		return r;
	return staging_root_dir(part, MARKS_DIR, 0700, *ret_mnt_id, make);
}

/* Reads the names in a mark: more than one can have are none of a mark's. */
static int names_read(int fd, struct names *ret)
{
	int own = fd_open_dir(fd, "."), r = 0;
	DIR *d = own >= 0 ? fdopendir(own) : NULL;
	const struct dirent *e;

	ret->n = 0;
	if (!d) {
		r = own < 0 ? own : -ENOMEM;
		fd_closep(&own);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (!is_component(e->d_name))
			continue;
		if (ret->n == ELEMENTSOF(ret->v))
			r = -EPERM;
		else
			(void)snprintf(ret->v[ret->n++], sizeof(ret->v[0]), "%s", e->d_name);
	}
	if (r == 0)
		r = -errno;
	(void)closedir(d);
	return r;
}

/* Removes the mark `name`, even if it is incomplete. Returns 0 if there is none. */
static int remove_named(int marks, const char *name)
{
	_cleanup_close_ int fd = fd_open_dir(marks, name);
	struct names names;
	int r = fd < 0 ? fd : names_read(fd, &names);

	if (fd == -ENOENT)
		return 0;
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		if (unlinkat(fd, names.v[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
			r = -errno;
	if (r >= 0 && unlinkat(marks, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

/* Makes a withdrawn mark good again if its other names are the same. The mark is not removed first,
 * because it may be the only record that other hosts have a part of the job. Returns 1 if the mark
 * is good now, 0 if there is none or it has other names, or a negative errno. */
static int write_again(int marks, uint64_t mnt_id, const char *job, const struct names *names)
{
	_cleanup_close_ int fd = staging_root_dir(marks, job, 0700, mnt_id, /* make= */ false);
	struct names found;
	int r = fd < 0 ? fd : names_read(fd, &found);

	if (r == -ENOENT || r == -EPERM)
		return 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < names->n; i++)
		if (!has(&found, names->v[i]) && strcmp(names->v[i], MARK_GOOD) != 0)
			return 0;
	if (found.n != names->n)
		return 0;
	if (!has(&found, MARK_WITHDRAWN))
		return has(&found, MARK_GOOD);
	return renameat(fd, MARK_WITHDRAWN, fd, MARK_GOOD) < 0 || fsync(fd) < 0 ? -errno : 1;
}

/* Makes it aside, and calls it by its name when it is whole. */
static int write_named(int marks, uint64_t mnt_id, const char *job, const struct names *names)
{
	_cleanup_close_ int fd = -1;
	char aside[NAME_MAX + 1];
	int r = write_again(marks, mnt_id, job, names);

	if (r != 0)
		return MIN(r, 0);
	(void)snprintf(aside, sizeof(aside), ".%s", job);
	r = remove_named(marks, aside);
	if (r >= 0)
		r = remove_named(marks, job);
	if (r < 0)
		return r;
	if (mkdirat(marks, aside, 0700) < 0)
		return -errno;
	fd = fd_open_dir(marks, aside);
	r = MIN(fd, 0);
	for (size_t i = 0; r >= 0 && i < names->n; i++)
		r = mkdirat(fd, names->v[i], 0700) < 0 ? -errno : 0;
	gate("mark", job);
	if (r >= 0 && renameat(marks, aside, marks, job) < 0)
		r = -errno;
	if (r < 0)
		(void)remove_named(marks, aside);
	return r;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int mark_take(const struct write_mark_message *m, struct mark *ret)
{
	size_t n = m->groups.len / sizeof(gid_t);

	if (!text_is_good(m->space) || !text_is_good(m->dir_name) || !is_component(m->dir_name) ||
	    m->groups.len % sizeof(gid_t) != 0 || m->dir.ino == 0 || m->dir.type != S_IFDIR)
		return -EINVAL;
	if (n > PROTOCOL_MARK_GROUPS)
		return -E2BIG;
	*ret = (struct mark){ .uid = m->uid,
			      .gid = m->gid,
			      .n_groups = n,
			      .ino = m->dir.ino,
			      .btime_nsec = m->dir.btime_nsec };
	(void)snprintf(ret->space, sizeof(ret->space), "%s", m->space);
	(void)snprintf(ret->dir_name, sizeof(ret->dir_name), "%s", m->dir_name);
	if (n > 0)
		memcpy(ret->groups, m->groups.data, m->groups.len);
	return 0;
}

static struct mark_place place_of(const struct write_mark_message *m)
{
	return (struct mark_place){ m->mount_path, m->mnt_id, m->host, m->holder, m->job };
}

int mark_write(struct serving *s)
{
	const struct write_mark_message *m = &s->m.write_mark_message;
	const struct mark_place place = place_of(m);
	_cleanup_close_ int marks = -1;
	struct names names;
	struct mark mark;
	uint64_t mnt_id;
	int r = mark_take(m, &mark);

	if (r >= 0)
		r = marks = marks_open(&place, /* make= */ true, &mnt_id);
	if (r >= 0) {
		mark_format(&mark, &names);
		r = write_named(marks, mnt_id, m->job, &names);
	}
	return answer(s, ANSWER_DONE, &(struct done_message){ MIN(r, 0) });
}

int mark_remove(struct serving *s)
{
	const struct mark_place *place = &s->m.mark_place;
	uint64_t mnt_id;
	_cleanup_close_ int marks = marks_open(place, /* make= */ false, &mnt_id);
	int r = marks == -ENOENT ? 0 : marks;

	if (marks >= 0)
		r = remove_named(marks, place->job);
	return answer(s, ANSWER_DONE, &(struct done_message){ MIN(r, 0) });
}

static int withdraw_named(const struct mark_place *place)
{
	uint64_t mnt_id;
	_cleanup_close_ int marks = marks_open(place, /* make= */ false, &mnt_id), fd = -1;

	if (marks < 0)
		return marks;
	fd = staging_root_dir(marks, place->job, 0700, mnt_id, /* make= */ false);
	if (fd < 0)
		return fd;
	/* -ENOENT: the mark is withdrawn already, or incomplete. */
	if (renameat(fd, MARK_GOOD, fd, MARK_WITHDRAWN) < 0 && errno != ENOENT)
		return -errno;
	/* What follows is on record somewhere else, and a power cut must not bring the good one
	 * back. */
	return fsync(fd) < 0 ? -errno : 0;
}

int mark_withdraw(struct serving *s)
{
	return answer(s, ANSWER_DONE, &(struct done_message){ withdraw_named(&s->m.mark_place) });
}

static int read_named(const struct mark_place *place, struct mark *ret)
{
	uint64_t mnt_id;
	_cleanup_close_ int marks = marks_open(place, /* make= */ false, &mnt_id), fd = -1;
	struct names names;
	int r;

	if (marks < 0)
		return marks;
	fd = staging_root_dir(marks, place->job, 0700, mnt_id, /* make= */ false);
	if (fd < 0)
		return fd;
	r = names_read(fd, &names);
	if (r < 0)
		return r;
	return has(&names, MARK_WITHDRAWN) ? -ENOENT : mark_parse(&names, ret);
}

int mark_read(struct serving *s)
{
	struct mark mark = { 0 };
	struct mark_message m = { .error = read_named(&s->m.mark_place, &mark),
				  .space = "",
				  .dir_name = "" };

	if (m.error == 0)
		m = (struct mark_message){
			.space = mark.space,
			.uid = mark.uid,
			.gid = mark.gid,
			.groups = { mark.groups, mark.n_groups * sizeof(gid_t) },
			.dir_name = mark.dir_name,
			.dir = { .ino = mark.ino, .btime_nsec = mark.btime_nsec, .type = S_IFDIR },
		};
	return answer(s, ANSWER_MARK, &m);
}
