/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The staging area of a user on a mount: <mount>/.reclaim/<uid>, or, where hosts of a fleet share
 * the filesystem, <mount>/.reclaim/@<host>/<uid>; the worker that deletes beneath it, and the queue
 * of jobs for it, of which one runs at a time.
 *
 * The staging directory's descriptor and the delete worker keep the filesystem busy. They are let
 * go a second after their last use, so that it can be unmounted: jobs that are held or paused keep
 * nothing of it open, and when they go on, all is opened and compared anew. */
#pragma once

#include <sys/queue.h>

#include "base/fleet-name.h"
#include "submitter.h"
#include "daemon/workers/worker-handle.h"

#define PRIORITIES 3

struct job;
struct job_stub;
struct unflushed;

TAILQ_HEAD(job_list, job_stub);

/* Jobs of a staging area that have run, and are not durable yet: the state of durability.h. */
STAILQ_HEAD(unflushed_list, unflushed);
struct flush_group {
	struct unflushed_list waiting, covered; /* covered: by the flush that is under way */
	unsigned n;                             /* that wait */
	uint64_t since_usec;                    /* the first of them */
	bool urgent, under_way;
	sd_event_source *timer;
};

typedef void (*staging_area_opened_t)(int r, int fd, void *userdata);

struct staging_area {
	LIST_ENTRY(staging_area) link;
	struct submitters *submitters;
	unsigned refs, users;        /* users: of the descriptor and the worker */
	struct submitter *submitter; /* the first one: its uid and gid are the directory's */
	char *mount;                 /* mount point in our namespace, or "" if it has none */
	char *host, *dir;            /* base/staging-dir.h; "": of no fleet */
	dev_t dev;
	int staging_fd;
	bool absent;         /* the mount or its staging directory is not there: jobs wait */
	bool short_of_space; /* its jobs run in a pacing window that pauses, too */
	struct worker *deleter;
	struct submitter *deleter_submitter;
	bool stale; /* the worker is to be replaced */
	sd_event_source *idle;
	struct job *running;
	bool waking; /* true while the record of the next job is being read */
	struct job_list queues[PRIORITIES];
	struct flush_group flush; /* jobs that have run, and are not durable yet */
};

/* So many jobs wait for a flush that the next job has to wait, too. */
static inline bool staging_area_flush_is_full(const struct staging_area *area)
{
	return area->flush.n >= WORKER_FLUSH;
}

/* The host whose part of staging names on that mount are put into from now on; "" for .reclaim
 * itself. Those that are there stay where they are. */
void staging_host(const struct context *c, const char *mount, char ret[FLEET_NAME_SIZE]);

/* The staging area of that user on that mount, and in the part of that host if it is not "", made
 * if there is none. Drop it with staging_area_unref. */
int staging_area_get(struct staging_area **ret, struct submitters *submitters,
		     struct submitter *submitter, const char *mount, const char *host, dev_t dev);
struct staging_area *staging_area_ref(struct staging_area *area);
/* Is its filesystem mounted, where it has a mount point? */
bool staging_area_is_mounted(const struct staging_area *area);
/* What it is on, for its intake workers. */
filesystem_t staging_area_filesystem(const struct staging_area *area);
/* That submitter's intake worker for it; errors as those of submitter_intake. */
int staging_area_intake(const struct staging_area *area, struct submitter *submitter,
			struct worker **ret);
struct staging_area *staging_area_unref(struct staging_area *area);
static inline void staging_area_unrefp(struct staging_area **area)
{
	(void)staging_area_unref(*area);
}

/* Opens the staging directory, and makes it first if `make`. Calls done once, later or in this
 * call.
 *
 * Every use of the area begins with this, because other programs and people may have removed or
 * renamed the directory or the daemon's lock since. What has the directory's name is used then, and
 * the lock is taken again. -EBUSY: another daemon has the lock, so no more names may be moved here.
 * -ENOENT: without `make`, the directory is gone. -EAGAIN: its mount was detached, and other jobs
 * still use the open descriptor: each has to release it before it tries again.
 *
 * The descriptor is the area's. It is open from staging_area_use(), which comes before this, to
 * staging_area_release(), but may be that of another directory after another call of this. */
void staging_area_open(struct staging_area *area, bool make, staging_area_opened_t done,
		       void *userdata);
/* Why it could not be opened, in words. */
const char *staging_area_error(int error);
void staging_area_use(struct staging_area *area);
void staging_area_release(struct staging_area *area);

/* The worker that deletes in the staging directory (which must be open) as that submitter. */
int staging_area_deleter(struct staging_area *area, struct submitter *submitter,
			 struct worker **ret);
/* The deleter belongs to the caller from now on. */
void staging_area_detach_deleter(struct staging_area *area);
/* A worker that deletes in another directory; the caller's. */
int staging_area_deleter_for(struct staging_area *area, struct submitter *submitter,
			     int landlock_fd, struct worker **ret);

/* Removes a job's own directory in staging, if it is empty. It is not waited for. */
void staging_tidy(struct staging_area *area, struct submitter *submitter, const char *job_dir);

/* What their workers were told does not hold any more: others are started at their next use, which
 * is at the latest when the names of the next directory are begun with. */
void staging_areas_renew(struct submitters *s);
/* Frees what is left of them at the end. */
void staging_areas_done(struct submitters *s);
