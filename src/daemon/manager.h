/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The daemon's state, as its parts see it. Everything here belongs to the thread of the event loop;
 * only the store's queue, the pacers and their threads live beside it.
 *
 *   operations.c, query.c   what callers ask for           (operations.h, for the buses)
 *   grant.c                 what a caller may do because polkit says so
 *   job-submit.c                names in, a job out
 *   job-recover.c               jobs of the last time, and what lies in staging without a record
 *   schedule.c              which job runs next            (schedule-order.h is the pure part)
 *   job-run.c, job-restore.c        deleting a job's names; putting them back
 *   durability.c                 the ends of small jobs are made durable together
 *   remainder.c                  what is left of large files when a run is stopped in their midst
 *   boost.c                 speed before latency, where time or space is short (urgency.h)
 *   name-chunk.c                 a job's names, read from the store
 *   spool-jobs.c              what spools offer becomes jobs   (spool.h)
 *   watermarks.c            policies that run when space gets short
 *   submitter.c                 a submitter and its intake worker
 *   staging-area.c                 a submitter on a mount: staging directory, delete worker, queue
 *   job.c, deadlines.c            jobs in memory; when held ones are due
 *   configuration.c         the files, and what is protected besides
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/jobs/deadlines.h"
#include "daemon/jobs/job.h"
#include "daemon/api/operations.h"
#include "daemon/submitters/submitter.h"
#include "daemon/submitters/staging-area.h"
#include "daemon/jobs/remainder.h"
#include "store/store-queue.h"
#include "base/lock-holder.h"
#include "base/mounts.h"

struct bus;
struct spools;
struct watermarks;
struct config;

struct manager_options {
	const char *state_dir, *runtime_dir, *config_dir, *worker_program;
	const char *reclaimctl; /* runs policies where there are no units */
	bool no_bus;
	const char *const *features; /* NULL-terminated */
};

struct manager {
	struct manager_options o;
	sd_event *event;
	struct config *config;
	struct store_queue *store;
	char holder[HOLDER_SIZE]; /* who this is where several daemons meet */
	struct pacers *pacers;
	struct bus *bus;
	struct spools *spools;
	struct watermarks *watermarks;

	struct job_table jobs;
	struct due due;
	int64_t clock_offset; /* by which windows are reckoned: schedule_clock */
	sd_event_source *due_timer;
	uint64_t counts[JOB_STATES];
	struct owner_list owners;
	struct user_list users;
	struct held held; /* of all but root */
	struct place_list places;
	struct busy_mount_list busy_mounts;
	struct rest_list rests;
	int worker_fd; /* reclaim-worker, as it was when we began */
	char *worker_program;
	struct owner *root; /* whose intake worker makes staging directories */

	struct mounts mounts; /* of our namespace; empty until asked for */
	sd_event_source *mounts_source;
	int mounts_fd;

	sd_event_source *schedule_source; /* deferred: one choice for many changes */
	unsigned running;
	uint64_t views;  /* counts those of callers, for their numbers */
	uint64_t served; /* counts the jobs that have begun, for fairness */

	sd_event_source *hurry_timer; /* while something runs */
	sd_event_source *retry_timer; /* while the store refuses */
	sd_event_source *stop_timer;
	sd_event_source *purge_timer;
	bool paused, stopping;
	bool ended;     /* no more workers are started */
	unsigned flows; /* what must come to an end before the daemon does */

	char *configuration_error, *store_error;
	uint64_t entries_freed, bytes_freed, orphans;
	uint64_t entries_told, bytes_told; /* what running jobs have done, too */
	uint64_t finished[JOB_STATES];     /* since we began, by how they ended */
	uint64_t finished_last;            /* no job with a larger number has finished; 0: none */
	uint64_t interruptions;            /* of jobs, by workers that died or could not begin */
	uint64_t errors[ERROR_KINDS];      /* by errno; 0: all others */
	sd_event_source *store_source;
	struct manager_events events;
};

int manager_new(struct manager **ret, const struct manager_options *o);
struct manager *manager_free(struct manager *m);
static inline void manager_freep(struct manager **m)
{
	(void)manager_free(*m);
}
/* Recovery begins, the sockets listen, and the loop runs until the daemon is to end. */
int manager_run(struct manager *m);

/* Reads the configuration again and swaps it in, or keeps the old one and says why. */
int manager_reload(struct manager *m);

/* Something that must not be cut short begins or ends. */
void manager_flow_begins(struct manager *m);
void manager_flow_ends(struct manager *m);

/* What the store answered last; 0: it works. */
void manager_store_says(struct manager *m, int r);

/* The mount table, read again if it has changed. NULL if it cannot be had. */
const struct mounts *manager_mounts(struct manager *m);

/* STATUS= of the service: what is going on. */
void manager_status(struct manager *m);

/* Tells the buses. */
void manager_tell(struct manager *m, const char *property);

/* Microseconds of CLOCK_REALTIME, as records have them. */
uint64_t manager_clock(void);

/* How far that is from CLOCK_BOOTTIME, which is never set: it changes when the wall clock is. */
int64_t manager_clock_offset(void);
