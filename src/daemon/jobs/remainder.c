/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remainder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/context/log.h"
#include "base/fd.h"
#include "shrinking.h"

/* Workers that hold one, as each is a process. A job that is stopped beyond that has none: what is
 * kept of its files (shrinking.h) is enough. */
#define REMAINDERS_MOST 64
#define REMAINDERS_USER 16

/* Workers in a row that end without having freed anything. */
#define TRIES_MOST 3

uint64_t remainder_bytes(const struct remainder *r)
{
	struct run_progress now = { 0 };

	if (r->worker)
		worker_progress(r->worker, &now);
	return now.bytes > r->before ? now.bytes - r->before : 0;
}

int remainder_fd(const struct remainder *r)
{
	const struct shrinking_file *f = r->job ? SLIST_FIRST(&r->job->shrinking) : NULL;

	return r->dirfd >= 0 ? r->dirfd : f ? f->fd : -1;
}

/* Counts what its worker has come to, and lets go of that. */
static void worker_end(struct remainder *r)
{
	uint64_t bytes = remainder_bytes(r);
	struct job *j = r->job;

	r->jobs->bytes_freed += bytes;
	if (bytes > 0)
		r->tries = 0;
	r->before = 0;
	r->worker = worker_free(r->worker);
	if (!j)
		return;
	j->r.bytes_freed += bytes;
	j->frees = NULL;
	shrinking_counted(j, /* names= */ true);
}

/* Frees it. Returns its job. */
static struct job *remainder_end(struct remainder *r)
{
	struct job *j = r->job;

	worker_end(r);
	if (j)
		j->remainder = NULL;
	LIST_REMOVE(r, link);
	fd_closep(&r->dirfd);
	free(r);
	return j;
}

/* Nothing is left of it, or what is left is the kernel's. */
static void finish(struct remainder *r)
{
	void (*gone)(struct job * j, void *userdata) = r->gone;
	void *userdata = r->userdata;
	struct job *j = remainder_end(r);

	if (!j)
		return;
	if (!j->jobs->context->stopping) {
		j->r.bytes_freed += shrinking_bytes(j);
		shrinking_drop(j);
	}
	job_save(j, NULL, NULL);
	if (gone)
		gone(j, userdata);
}

static int worker_begin(struct remainder *r);

static void on_gone(struct worker *w, const char *how, void *userdata)
{
	struct remainder *r = userdata;
	bool early = r->held && !r->released;

	(void)w;
	worker_end(r);
	if (r->job && !r->released && shrinking_is_left(r->job)) {
		job_save(r->job, NULL, NULL);
		/* Held, it needs none. */
		if (r->held || r->jobs->context->stopping ||
		    (++r->tries < TRIES_MOST && worker_begin(r) >= 0))
			return;
	} else if (r->job && early) {
		log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &r->job->r,
			"What was left of a large file of job %" PRIu64
			" is not held any more: the process has ended (%s)",
			r->job->r.id, how);
	}
	finish(r);
}

/* One that has what is kept of the job's files, and frees it. Returns 0 or a negative errno. */
static int worker_begin(struct remainder *r)
{
	const struct shrinking_file *f = SLIST_FIRST(&r->job->shrinking);
	struct job *j = r->job;
	struct worker *w;
	int k;

	if (!f)
		return -ENOENT;
	/* What a sync costs is measured in the staging directory, if that is open. */
	k = staging_area_deleter_for(j->area, j->submitter,
				     j->area->staging_fd >= 0 ? j->area->staging_fd : f->fd, &w);
	if (k < 0)
		return k;
	worker_give(w, on_gone, r);
	SLIST_FOREACH(f, &j->shrinking, link)
		k = k < 0 ? k : worker_remainder_take(w, f->fd);
	if (k < 0) {
		worker_free(w);
		return k;
	}
	r->worker = w;
	j->frees = w;
	j->frees_from_bytes = 0;
	worker_remainders_free(w);
	return 0;
}

static bool have_room(const struct jobs *jobs, const struct job *j)
{
	unsigned all = 0, user = 0;
	const struct remainder *r;

	LIST_FOREACH(r, &jobs->remainders, link) {
		all += r->worker != NULL;
		user += r->worker && r->job && r->job->r.uid == j->r.uid;
	}
	return all < REMAINDERS_MOST && user < REMAINDERS_USER;
}

/* The mount that this is on, if it is one of our namespace, or else its device. */
static void mount_find(struct remainder *r, int fd)
{
	const struct mounts *mounts = context_mounts(r->jobs->context);
	struct identity id;

	if (!mounts || fd_whereabouts(fd, "", 0, &id) < 0)
		return;
	if (mounts_by_id(mounts, id.mnt_id))
		r->mnt_id = id.mnt_id;
	else if (mounts_by_dev(mounts, (dev_t)id.dev))
		r->dev = (dev_t)id.dev;
}

static struct remainder *remainder_make(struct job *j)
{
	struct remainder *r = j->remainder ? NULL : calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct remainder){ .jobs = j->jobs, .job = j, .held = true, .dirfd = -1 };
	LIST_INSERT_HEAD(&j->jobs->remainders, r, link);
	j->remainder = r;
	return r;
}

void remainder_new(struct job *j, struct worker *w, int dirfd, uint64_t bytes)
{
	struct remainder *r = have_room(j->jobs, j) ? remainder_make(j) : NULL;

	if (!r) {
		worker_free(w);
		(void)remainder_of(j);
		return;
	}
	r->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	mount_find(r, dirfd);
	worker_give(w, on_gone, r);
	r->worker = w;
	r->before = bytes;
	j->frees = w;
	j->frees_from_bytes = bytes;
}

struct remainder *remainder_of(struct job *j)
{
	struct remainder *r;

	if (j->remainder || !shrinking_is_left(j))
		return j->remainder;
	r = remainder_make(j);
	if (r)
		mount_find(r, remainder_fd(r));
	else
		shrinking_drop(j);
	return r;
}

void remainder_watch(struct remainder *r, void (*gone)(struct job *j, void *userdata),
		     void *userdata)
{
	r->gone = gone;
	r->userdata = userdata;
}

void remainder_free_paced(struct remainder *r)
{
	int k;

	r->held = false;
	if (r->worker) {
		worker_remainders_free(r->worker);
		return;
	}
	k = worker_begin(r);
	if (k >= 0)
		return;
	if (k != -ENOENT)
		log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &r->job->r,
			"What is left of a large file of job %" PRIu64
			" is left to the kernel, which frees it at once: no process can be started "
			"that would free it (%s)",
			r->job->r.id, strerror(-k));
	finish(r);
}

void remainder_hold(struct remainder *r)
{
	r->held = true;
	if (!r->worker)
		return;
	worker_urgent(r->worker, false);
	worker_remainders_stop(r->worker, /* keep= */ true);
}

void remainder_release(struct remainder *r)
{
	r->released = true;
	if (!r->worker) {
		finish(r);
		return;
	}
	/* The worker's is the last one then. */
	if (r->job)
		shrinking_drop(r->job);
	worker_remainders_stop(r->worker, /* keep= */ false);
}

void remainder_abandon(struct job *j)
{
	struct remainder *r = j->remainder;

	shrinking_drop(j);
	if (!r)
		return;
	j->remainder = NULL;
	j->frees = NULL;
	r->job = NULL;
	remainder_release(r);
}

static bool is_mounted(const struct remainder *r, const struct mounts *mounts)
{
	const struct mount *m = r->job ? mounts_by_path(mounts, r->job->area->mount) : NULL;

	if (r->mnt_id || r->dev)
		return r->mnt_id ? mounts_by_id(mounts, r->mnt_id) != NULL
				 : mounts_by_dev(mounts, r->dev) != NULL;
	/* A subvolume of btrfs has a device that no mount has. */
	return !r->job || (m && strcmp(m->target, r->job->area->mount) == 0);
}

void remainders_check_mounts(struct jobs *jobs)
{
	const struct mounts *mounts =
		LIST_EMPTY(&jobs->remainders) ? NULL : context_mounts(jobs->context);
	struct remainder *r, *next;

	for (r = LIST_FIRST(&jobs->remainders); r && mounts; r = next) {
		next = LIST_NEXT(r, link);
		if (r->released || is_mounted(r, mounts))
			continue;
		log_line(LOG_NOTICE, "A filesystem was unmounted on which a large file was still "
				     "held: it is let go of");
		remainder_release(r);
	}
}

void remainders_end(struct jobs *jobs)
{
	struct remainder *r, *next;

	for (r = LIST_FIRST(&jobs->remainders); r; r = next) {
		struct job *j;

		next = LIST_NEXT(r, link);
		j = remainder_end(r);
		if (j)
			job_save(j, NULL, NULL);
	}
}
