/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A user on a mount: <mount>/.reclaim/<uid>, the worker that deletes beneath it, and the queue of
 * jobs for it, of which one runs at a time.
 *
 * The staging directory's descriptor and the delete worker keep the filesystem busy. They are let
 * go ten seconds after their last use, so that it can be unmounted. */
#pragma once

#include <sys/queue.h>

#include "submitter.h"
#include "daemon/workers/worker-handle.h"

#define PRIORITIES 3

struct job;
struct unflushed;

TAILQ_HEAD(job_list, job);

/* Jobs of a place that have run, and are not durable yet: the state of durability.h. */
STAILQ_HEAD(unflushed_list, unflushed);
struct flush_group {
	struct unflushed_list waiting, covered; /* covered: by the flush that is under way */
	unsigned n;                             /* that wait */
	uint64_t since_usec;                    /* the first of them */
	bool hurry, under_way;
	sd_event_source *timer;
};

typedef void (*place_staging_t)(int r, int fd, void *userdata);

struct place_waiter;

struct place {
	LIST_ENTRY(place) link;
	struct submitters *submitters;
	unsigned refs, users; /* users: of the descriptor and the worker */
	struct owner *owner;  /* who came first: the user's uid and gid for the directory */
	char *mount;          /* mount point in our namespace, or "" if it has none */
	dev_t dev;
	int staging_fd;
	bool ours; /* more may be put there: no other daemon has the mount */
	bool making;
	char *lock_path;
	int lock_fd; /* while it is asked who that is */
	bool absent; /* the mount or its staging directory is not there: jobs wait */
	struct place_waiter *waiters;
	struct worker *deleter;
	struct owner *deleter_owner;
	bool stale; /* the worker is to be replaced */
	sd_event_source *idle;
	struct job *running;
	struct job_list queues[PRIORITIES];
	struct flush_group flush; /* jobs that have run, and are not durable yet */
};

/* A mount that another daemon has, which has been said. */
struct busy_mount {
	LIST_ENTRY(busy_mount) link;
	char mount[];
};

/* So many jobs wait for a flush that the next job has to wait, too. */
static inline bool place_flush_is_full(const struct place *p)
{
	return p->flush.n >= WORKER_FLUSH;
}

/* The place of that user on that mount, made if there is none. Drop it with place_unref. */
int place_get(struct place **ret, struct submitters *submitters, struct owner *o, const char *mount,
	      dev_t dev);
struct place *place_ref(struct place *p);
/* What it is on, for its intake workers. */
filesystem_t place_filesystem(const struct place *p);
struct place *place_unref(struct place *p);
static inline void place_unrefp(struct place **p)
{
	(void)place_unref(*p);
}

/* Opens the staging directory, and makes it first if `make`. Answers in this call or later. The
 * descriptor is the place's, and is not closed between place_use and place_rest. */
void place_staging(struct place *p, bool make, place_staging_t done, void *userdata);
void place_use(struct place *p);
void place_rest(struct place *p);

/* The worker that deletes in the staging directory (which must be open) as that owner. */
int place_deleter(struct place *p, struct owner *o, struct worker **ret);
/* The worker was told what does not hold any more: another is started at its next use, which is at
 * the latest when the names of the next directory are begun with. */
void place_renew(struct place *p);
/* The worker is somebody else's from now on. */
void place_part(struct place *p);
/* A worker that deletes in another directory; the caller's. */
int place_deleter_for(struct place *p, struct owner *o, int landlock_fd, struct worker **ret);

/* Removes a job's own directory in staging, if it is empty. It is not waited for. */
void staging_tidy(struct place *p, struct owner *o, const char *job_dir);

/* What their workers were told does not hold any more. */
void places_renew(struct submitters *s);
/* Frees what is left of them at the end. */
void places_done(struct submitters *s);
