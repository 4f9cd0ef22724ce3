/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remainder.h"

#include <fcntl.h>
#include <inttypes.h>

#include "daemon/context/log.h"
#include "base/fd.h"

/* Each is a process. A job that is stopped beyond that leaves its file to the kernel. */
#define REMAINDERS_MOST 64
#define REMAINDERS_USER 16

uint64_t remainder_bytes(const struct remainder *r)
{
	struct run_progress now;

	worker_progress(r->worker, &now);
	return now.bytes > r->before ? now.bytes - r->before : 0;
}

/* Counts what it has come to, and frees it. Returns its job. */
static struct job *remainder_end(struct remainder *r)
{
	uint64_t bytes = remainder_bytes(r);
	struct job *j = r->job;

	r->jobs->bytes_freed += bytes;
	if (j) {
		j->r.bytes_freed += bytes;
		j->remainder = NULL;
		j->frees = NULL;
	}
	LIST_REMOVE(r, link);
	worker_free(r->worker);
	fd_closep(&r->dirfd);
	free(r);
	return j;
}

static void on_gone(struct worker *w, const char *how, void *userdata)
{
	struct remainder *r = userdata;
	void (*gone)(struct job * j, void *userdata) = r->gone;
	void *gone_userdata = r->userdata;
	bool early = r->held && !r->released;
	struct job *j = remainder_end(r);

	(void)w;
	if (!j)
		return;
	if (early)
		log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r,
			"What was left of a large file of job %" PRIu64
			" is not held any more: the process has ended (%s)",
			j->r.id, how);
	job_save(j, NULL, NULL);
	if (gone)
		gone(j, gone_userdata);
}

static bool have_room(const struct jobs *jobs, const struct job *j)
{
	unsigned all = 0, user = 0;
	const struct remainder *r;

	LIST_FOREACH(r, &jobs->remainders, link)
	{
		all++;
		user += r->job && r->job->r.uid == j->r.uid;
	}
	return all < REMAINDERS_MOST && user < REMAINDERS_USER;
}

/* The mount that this is on, if it is one of our namespace; or 0. */
static uint64_t mount_of(struct jobs *jobs, int fd)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	struct identity id;

	if (!mounts || fd_whereabouts(fd, "", 0, &id) < 0 || !mounts_by_id(mounts, id.mnt_id))
		return 0;
	return id.mnt_id;
}

void remainder_new(struct job *j, struct worker *w, int dirfd, uint64_t bytes)
{
	struct remainder *r = have_room(j->jobs, j) && !j->remainder ? calloc(1, sizeof(*r)) : NULL;

	if (!r) {
		worker_free(w);
		return;
	}
	*r = (struct remainder){
		.jobs = j->jobs, .job = j, .worker = w, .before = bytes, .held = true
	};
	r->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	r->mnt_id = mount_of(j->jobs, dirfd);
	worker_give(w, on_gone, r);
	LIST_INSERT_HEAD(&j->jobs->remainders, r, link);
	j->remainder = r;
	j->frees = w;
	j->frees_from_bytes = bytes;
}

void remainder_watch(struct remainder *r, void (*gone)(struct job *j, void *userdata),
		     void *userdata)
{
	r->gone = gone;
	r->userdata = userdata;
}

void remainder_free_paced(struct remainder *r)
{
	r->held = false;
	worker_remainders_free(r->worker);
}

void remainder_hold(struct remainder *r)
{
	r->held = true;
	worker_urgent(r->worker, false);
	worker_remainders_stop(r->worker, /* keep= */ true);
}

void remainder_release(struct remainder *r)
{
	r->released = true;
	worker_remainders_stop(r->worker, /* keep= */ false);
}

void remainder_abandon(struct job *j)
{
	struct remainder *r = j->remainder;

	if (!r)
		return;
	j->remainder = NULL;
	j->frees = NULL;
	r->job = NULL;
	remainder_release(r);
}

void remainders_check_mounts(struct jobs *jobs)
{
	const struct mounts *mounts =
		LIST_EMPTY(&jobs->remainders) ? NULL : context_mounts(jobs->context);
	struct remainder *r, *next;

	for (r = LIST_FIRST(&jobs->remainders); r && mounts; r = next) {
		next = LIST_NEXT(r, link);
		if (r->released || r->mnt_id == 0 || mounts_by_id(mounts, r->mnt_id))
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
