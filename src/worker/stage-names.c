/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "intake.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deletable.h"
#include "move.h"
#include "session.h"
#include "base/array.h"
#include "base/gate.h"

struct staging {
	struct serving *s;
	const struct session *session;
	bool always; /* stage_message */
	int job_fd;
	struct lasting_identity job_id;
	struct staged_range *ranges; /* names from..to, all moved or all left for the same reason */
	size_t n;
	struct failure_text f;
	uint32_t dir; /* that is open as dirfd; UINT32_MAX: none */
	int dirfd;
};

static int refuse(struct staging *st, enum error_cause cause, const struct session_entry *e,
		  const char *why)
{
	const struct session *s = st->session;

	failure_fill(&st->f, cause, s->dirs[e->dir].path, s->arena + e->name, why);
	return error_entry(cause)->error;
}

static int range_add(struct staging *st, uint64_t seq, int error)
{
	struct staged_range *last = st->n > 0 ? &st->ranges[st->n - 1] : NULL;

	if (last && last->to + 1 == seq && last->error == error) {
		last->to = seq;
		return 0;
	}
	last = array_add(&st->ranges, &st->n, sizeof(*last));
	if (!last)
		return -ENOMEM;
	*last = (struct staged_range){ seq, seq, error };
	return 0;
}

static char *number(char buf[24], uint64_t seq)
{
	(void)snprintf(buf, 24, "%" PRIu64, seq);
	return buf;
}

static int back(int job_fd, uint64_t seq, int dirfd, const char *name)
{
	char n[24];

	return move_back(job_fd, number(n, seq), dirfd, name);
}

static void dir_close(struct staging *st)
{
	if (st->dir != UINT32_MAX && st->dirfd != st->session->dirs[st->dir].fd)
		fd_closep(&st->dirfd);
	st->dir = UINT32_MAX;
	st->dirfd = -1;
}

/* Lists name the entries of a directory together: it is opened once for them all. */
static int dir_open(struct staging *st, uint32_t dir)
{
	if (st->dir == dir)
		return 0;
	dir_close(st);
	st->dirfd = session_dir_open(&st->session->dirs[dir]);
	if (st->dirfd < 0)
		return st->dirfd;
	st->dir = dir;
	return 0;
}

/* Between that last look and the rename it may have been filled, and what is in it must not go. It
 * is the same directory, so the other names can be taken in all the same. */
static int moved_empty(struct staging *st, const struct session_entry *e, uint64_t seq)
{
	const char *name = st->session->arena + e->name;
	bool filled;
	char n[24];

	gate("staged", name);
	filled = st->session->rmdir && directory_is_empty(st->job_fd, number(n, seq)) == 0;
	/* What cannot go back is kept by the run, and told. */
	if (filled && back(st->job_fd, seq, st->dirfd, name) == 0)
		return range_add(st, seq, -ENOTEMPTY);
	return range_add(st, seq, 0);
}

/* Makes sure that what has been moved is what was looked at: between the last look and the rename
 * another process may have put something else there, which then goes back. */
static int moved_check(struct staging *st, const struct session_entry *e, uint64_t seq)
{
	const char *name = st->session->arena + e->name;
	struct identity id;
	char n[24];
	int r = fd_identity(st->job_fd, number(n, seq), &id);

	if (r >= 0 && session_entry_is(st->session, e, &id))
		return moved_empty(st, e, seq);
	r = back(st->job_fd, seq, st->dirfd, name);
	if (r < 0)
		(void)range_add(st, seq, 0);
	return refuse(st, ERROR_IDENTITY_CHANGED, e, "became something else while it was taken in");
}

/* Why a name that is still what it was could not be renamed. */
static int unmoved(struct staging *st, const struct session_entry *e, uint64_t seq, int error)
{
	const struct session_dir *d = &st->session->dirs[e->dir];
	const char *why = NULL;

	if (error == -EACCES || error == -EPERM)
		why = directory_closed(st->dirfd, &d->found);
	if (why)
		return refuse(st, ERROR_NOT_AUTHORIZED, e, why);
	return range_add(st, seq, error);
}

static int entry_move(struct staging *st, uint64_t seq)
{
	const struct session_entry *e = &st->session->entries[seq - 1];
	const char *name = st->session->arena + e->name;
	struct identity id;
	char n[24];
	int r;

	assert(seq >= 1 && seq <= st->session->n_entries && e->dir < st->session->n_dirs);
	r = dir_open(st, e->dir);
	if (r < 0)
		return refuse(st, ERROR_IDENTITY_CHANGED, e,
			      "lies in a directory that is not there any more");
	r = fd_identity(st->dirfd, name, &id);
	if (r == -ENOENT)
		return range_add(st, seq, r);
	if (r < 0)
		return refuse(st, error_from_errno(r, ERROR_AT_PATH), e, strerror(-r));
	if (!session_entry_is(st->session, e, &id))
		return refuse(st, ERROR_IDENTITY_CHANGED, e,
			      "is not any more what it was when it was looked at");
	gate("stage", name);
	r = move_out(st->dirfd, name, st->job_fd, number(n, seq), st->always);
	return r == 0 ? moved_check(st, e, seq) : unmoved(st, e, seq, r);
}

/* Puts everything back. What cannot be is left in `ranges`. */
static void undo(struct staging *st)
{
	struct staged_range *all = st->ranges;
	size_t n = st->n;

	st->ranges = NULL;
	st->n = 0;
	for (size_t i = 0; i < n; i++)
		for (uint64_t seq = all[i].from; all[i].error == 0 && seq <= all[i].to; seq++) {
			const struct session_entry *e = &st->session->entries[seq - 1];
			int r = dir_open(st, e->dir);

			if (r >= 0)
				r = back(st->job_fd, seq, st->dirfd, st->session->arena + e->name);
			if (r < 0)
				(void)range_add(st, seq, 0);
			(void)answer_alive(st->s);
		}
	free(all);
}

/* All names stay where they are, for the same reason. */
static int all_stay(struct staging *st, int error)
{
	int r = range_add(st, st->session->n_entries, error);

	if (r >= 0)
		st->ranges[0].from = 1;
	return r;
}

/* Takes the job's own directory, which may be one that an attempt before left. */
static int job_open(struct staging *st, int staging_fd, const char *name)
{
	struct found f;
	int r;

	st->job_fd = fd_open_dir(staging_fd, name);
	if (st->job_fd < 0)
		return st->job_fd;
	r = found_at(st->job_fd, "", &f);
	if (r < 0)
		return r;
	if (f.uid != geteuid() || (f.id.mode & 07777 & ~S_ISGID) != 0700)
		return -EPERM;
	return lasting_at(st->job_fd, "", &st->job_id);
}

/* A rename that waits in the kernel cannot be ended, and may outlive reclaimd. As long as this
 * process is there, the directory is locked, so that the next reclaimd does not take what it sees
 * in it for all that will be there (staging_list). Where there are no such locks, it has to. */
static int job_lock(const struct staging *st)
{
	return flock(st->job_fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK ? -EBUSY : 0;
}

static int all_move(struct staging *st, int staging_fd, const char *name)
{
	int r = mkdirat(staging_fd, name, 0700) < 0 && errno != EEXIST ? -errno : 0;

	/* A full filesystem or quota has no room for a directory, and is what most needs something
	 * deleted: the job works in place, as where there is no staging at all. */
	if (r < 0 && r != -ENOMEM)
		return all_stay(st, r);
	if (r >= 0)
		r = job_open(st, staging_fd, name);
	if (r >= 0)
		r = job_lock(st);
	if (r < 0) {
		failure_fill(&st->f, error_from_errno(r, ERROR_AT_DAEMON), "staging", name,
			     r == -EPERM   ? "is not the submitter's own directory"
			     : r == -EBUSY ? "is locked by another process"
					   : strerror(-r));
		return r;
	}
	for (uint64_t seq = 1; r >= 0 && seq <= st->session->n_entries; seq++) {
		r = entry_move(st, seq);
		if (r == -ENOMEM)
			failure_fill(&st->f, ERROR_FAILED, "staging", name, strerror(-r));
		if (r >= 0)
			r = answer_alive(st->s);
	}
	if (st->f.cause) {
		undo(st);
		if (st->n == 0)
			(void)unlinkat(staging_fd, name, AT_REMOVEDIR);
	}
	dir_close(st);
	return r;
}

static int ranges_tell(struct staging *st)
{
	struct wire_out *o = answer_begin(st->s, ANSWER_RANGES);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < st->n; i++) {
		protocol_put_item(o, &st->ranges[i]);
		r = answer_flush(st->s, ANSWER_RANGES, 64);
	}
	return r < 0 || st->n == 0 ? r : answer_send(st->s);
}

int stage(struct serving *s)
{
	const struct stage_message *m = &s->m.stage_message;
	struct staging st = {
		.s = s, .always = m->always, .job_fd = -1, .dir = UINT32_MAX, .dirfd = -1
	};
	struct staged_message told = { .dir = -1 };
	int error, r;

	st.session = session_get(&s->sessions, m->session, false);
	if (!st.session)
		return -EBADMSG;
	error = all_move(&st, m->staging, m->name);
	told.staging_id = st.job_id;
	told.cause = st.f.cause;
	if (st.f.cause) {
		told.text = st.f.text.line;
	} else if (m->wants_dir && st.job_id.ino != 0) {
		/* All is moved, and reclaimd may keep this for a while. */
		(void)flock(st.job_fd, LOCK_UN);
		told.dir = st.job_fd;
	}
	/* Failed only if the other end is gone. */
	r = error < 0 && !st.f.cause ? error : ranges_tell(&st);
	if (r >= 0)
		r = answer(s, ANSWER_STAGED, &told);
	free(st.ranges);
	fd_closep(&st.job_fd);
	return r;
}
