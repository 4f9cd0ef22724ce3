/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "stale-marks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/staging-dir.h"
#include "wire/protocol.h"
#include "withdrawal.h"

#define MARKS_DIR "marks"
#define NUMBER_SIZE 24

/* What fails is left to another start. */
struct stale_marks {
	struct jobs *jobs;
	char *mount, *dir; /* dir: the host's part */
	char host[FLEET_NAME_SIZE];
	int part_fd, marks_fd;
	uint64_t *marked; /* jobs that are not here */
	size_t n, at;
	/* What the mark says that is looked at: whose its directory is, and how it is called. */
	char user[16], name[NAME_MAX + 1];
	bool empty;
	void (*done)(void *userdata);
	void *userdata;
};

static struct stale_marks *stale_marks_free(struct stale_marks *m)
{
	fd_closep(&m->part_fd);
	fd_closep(&m->marks_fd);
	free(m->marked);
	free(m->mount);
	free(m->dir);
	free(m);
	return NULL;
}

static void end(struct stale_marks *m)
{
	void (*done)(void *userdata) = m->done;
	void *userdata = m->userdata;

	stale_marks_free(m);
	done(userdata);
}

static int root_intake(const struct stale_marks *m, struct worker **ret)
{
	return submitter_intake(m->jobs->submitters->root, FILESYSTEM_MANY, ret);
}

static int open_beneath(struct stale_marks *m, int fd, const char *path,
			void (*opened)(int r, int fd, void *userdata))
{
	struct worker *root;
	int r = root_intake(m, &root);

	return r < 0 ? r : worker_open_dir(root, fd, path, NULL, opened, m);
}

static int list(struct stale_marks *m, const char *dir,
		void (*entry)(const char *name, const struct lasting_identity *id, void *userdata),
		void (*listed)(int r, void *userdata))
{
	struct worker *root;
	int r = root_intake(m, &root);

	return r < 0 ? r : worker_list_staging(root, m->marks_fd, dir, entry, listed, m);
}

/* ---- one mark ------------------------------------------------------------------------------ */

static void next_mark(struct stale_marks *m);

static void remove_mark(const struct stale_marks *m)
{
	uint64_t job = m->marked[m->at];

	/* The number may be given again where the store is an older copy. */
	if (job_table_find(&m->jobs->table, job))
		return;
	debug_log("fleet: the mark of job %" PRIu64 ", which has ended, is removed from %s", job,
		  m->dir);
	withdrawals_remove(m->jobs, m->mount, m->host, job);
}

static void on_looked(int r, int fd, void *userdata)
{
	struct stale_marks *m = userdata;

	fd_closep(&fd);
	if (r == -ENOENT)
		remove_mark(m);
	m->at++;
	next_mark(m);
}

static void on_user_dir(int r, int fd, void *userdata)
{
	_cleanup_close_ int own = fd;
	struct stale_marks *m = userdata;

	if (r >= 0)
		r = open_beneath(m, own, m->name, on_looked);
	if (r < 0)
		on_looked(r, -1, m);
}

static void on_text(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct stale_marks *m = userdata;
	const char *text = strrchr(name, '/');

	(void)id;
	text = text ? text + 1 : name;
	m->empty = false;
	(void)sscanf(text, "owner=%15[0-9].", m->user);
	(void)sscanf(text, "name=%200s", m->name);
}

static void on_texts(int r, void *userdata)
{
	struct stale_marks *m = userdata;

	if (r == 0 && m->empty) /* what is left of one */
		r = -ENOENT;
	else if (r == 0 && (!*m->user || !is_component(m->name)))
		r = -EBADMSG;
	if (r == 0)
		r = open_beneath(m, m->part_fd, m->user, on_user_dir);
	if (r < 0)
		on_looked(r, -1, m);
}

static void next_mark(struct stale_marks *m)
{
	char number[NUMBER_SIZE];

	for (; m->at < m->n && !m->jobs->context->stopping; m->at++) {
		(void)snprintf(number, sizeof(number), "%" PRIu64, m->marked[m->at]);
		m->user[0] = m->name[0] = '\0';
		m->empty = true;
		if (list(m, number, on_text, on_texts) >= 0)
			return;
	}
	end(m);
}

/* ---- all of them --------------------------------------------------------------------------- */

static void on_mark(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct stale_marks *m = userdata;
	uint64_t job, *marked;
	char more;

	(void)id;
	if (sscanf(name, "%" SCNu64 "%c", &job, &more) != 1 || job_table_find(&m->jobs->table, job))
		return;
	/* Without memory it is looked at by another start. */
	marked = array_add(&m->marked, &m->n, sizeof(*marked));
	if (marked)
		*marked = job;
}

static void on_marks(int r, void *userdata)
{
	struct stale_marks *m = userdata;

	if (r < 0)
		end(m);
	else
		next_mark(m);
}

static void on_marks_dir(int r, int fd, void *userdata)
{
	struct stale_marks *m = userdata;

	m->marks_fd = fd;
	if (r >= 0)
		r = list(m, NULL, on_mark, on_marks);
	if (r < 0)
		end(m);
}

static void on_part(int r, int fd, void *userdata)
{
	struct stale_marks *m = userdata;

	m->part_fd = fd;
	if (r >= 0)
		r = open_beneath(m, fd, MARKS_DIR, on_marks_dir);
	if (r < 0)
		end(m);
}

/* Root's own directory of users need not be there: that is said only of a part that is ours. */
static void on_ours(int r, int fd, void *userdata)
{
	struct stale_marks *m = userdata;

	fd_closep(&fd);
	if (r >= 0 || r == -ENOENT)
		r = open_beneath(m, -1, m->dir, on_part);
	if (r < 0)
		end(m);
}

int stale_marks_remove(struct jobs *jobs, const char *mount, const char *host,
		       void (*done)(void *userdata), void *userdata)
{
	struct stale_marks *m = calloc(1, sizeof(*m));
	struct worker *root;
	int r;

	if (!m)
		return -ENOMEM;
	*m = (struct stale_marks){ .jobs = jobs,
				   .mount = strdup(mount),
				   .dir = staging_dir_path(mount, host),
				   .part_fd = -1,
				   .marks_fd = -1,
				   .done = done,
				   .userdata = userdata };
	fleet_name_copy(m->host, host);
	r = m->mount && m->dir ? root_intake(m, &root) : -ENOMEM;
	if (r >= 0)
		r = worker_make_staging(
			root,
			&(struct make_staging_message){ .mount_path = m->mount,
							.holder = jobs->context->holder,
							.host = m->host },
			on_ours, m);
	if (r < 0)
		stale_marks_free(m);
	return r;
}
