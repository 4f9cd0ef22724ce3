/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The operations of the API, once, for D-Bus, the private socket and Varlink, which only translate.
 *
 * An operation checks its arguments and the caller, begins, and answers through its callback:
 * exactly once, in this call or later, on the event loop, also when the client is gone by then (the
 * translators drop the answer). What was answered stays accepted; a submit that could not be is
 * withdrawn (job-submit.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "daemon/context/failure.h"
#include "daemon/jobs/job-control.h"
#include "daemon/jobs/job-submit.h"
#include "daemon/jobs/sharing.h"

struct context;
struct field;
struct fleet;
struct grant;
struct job_record;
struct jobs;
struct listener;
struct operations;
struct pacers;

typedef void (*operation_done_t)(const struct failure *f, void *userdata);

/* Accepts names for deletion. Answers when the record is durable and the names are out of the way.
 * Groups, their names and descriptors are only needed during the call. */
void operation_submit(struct operations *o, const struct caller *c,
		      const struct intake_group *groups, size_t n, const struct submit_options *how,
		      submit_done_t done, void *userdata);

/* One piece of an answer that is a list; its fields are `fields`. */
typedef void (*piece_seen_t)(const struct field *fields, const void *piece, void *userdata);

enum act { ACT_CANCEL, ACT_PAUSE, ACT_RESUME, ACT_PAUSE_ALL, ACT_RESUME_ALL, ACT_RELOAD };

/* The first three are on jobs, all or none; the others on no job. */
void operation_act(struct operations *o, const struct caller *c, enum act act, const uint64_t *ids,
		   size_t n, operation_done_t done, void *userdata);
/* Of these jobs, all or none. */
void operation_change(struct operations *o, const struct caller *c, const struct job_change *to,
		      const uint64_t *ids, size_t n, operation_done_t done, void *userdata);
/* to_fd -1: where it was. Another place is for the job's owner and root only, because it is the
 * owner's authority that is used there. */
void operation_restore(struct operations *o, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata);

/* How a policy is, as the daemon knows it. */
struct policy_view {
	const char *name, *path, *schedule; /* schedule: "" if none. The configuration's */
	char **match;
	double max_delete;
	uint64_t undo_usec;
	uint64_t job;       /* the last one of it that has not ended; 0: none */
	uint64_t next_usec; /* when its timer elapses, which the buses find out; 0: not known */
	/* Of the last run, 0 and "" if there was none: when it began, how it ended ("done",
	 * "partial", "failed"), its job, entries that could not be deleted, or not in this run, and
	 * why; and when one that did all it was to do had ended, and the oldest that was kept. */
	uint64_t last_usec, last_job, refused, excess, success_usec, oldest_usec;
	const char *last_result;
	const char *const *why;
	bool watched; /* runs by itself when space is short, or much is there */
	bool running;
};

/* Fills at most n; returns how many there are. They live until the next turn of the loop. */
size_t operation_policies(struct operations *o, struct policy_view *views, size_t n);

/* What it would keep and delete now, and why, entry by entry: an object in JSON, as reclaimctl
 * policy plan has it. For root, and where polkit agrees, as are runs. */
typedef void (*policy_planned_t)(const struct failure *f, const char *plan, void *userdata);
void operation_policy_plan(struct operations *o, const struct caller *c, const char *name,
			   policy_planned_t done, void *userdata);
/* Has it run. Answers with the number of its job once that is accepted, or with 0 if there was
 * nothing to delete. */
typedef void (*policy_ran_t)(const struct failure *f, uint64_t job, void *userdata);
void operation_policy_run(struct operations *o, const struct caller *c, const char *name,
			  policy_ran_t done, void *userdata);

/* Reading. Records live during the callback. Jobs that the caller may not know of are not there:
 * -ENOENT, as for those that never were. Unfinished jobs answer at once; history comes from the
 * store. */
typedef void (*job_seen_t)(const struct job_record *r, void *userdata);

struct job_query {
	uint32_t states; /* 1 << enum job_state; 0: all unfinished, with `finished` all */
	bool finished;
	bool brief; /* no more of each than a line of a list has: no mount, staging, message ... */
	bool one_uid;
	uid_t uid;
	uint64_t since_id;
	uint32_t limit;
	const uint64_t *ids; /* only these, if n_ids > 0 */
	size_t n_ids;
};

void operation_list(struct operations *o, const struct caller *c, const struct job_query *q,
		    job_seen_t seen, operation_done_t done, void *userdata);
/* One job's names, its problems, or those of its names that were not deleted and are in their
 * place: at most 1000 at once (limit 0: as many). */
enum pieces_of { PIECES_ENTRIES, PIECES_PROBLEMS, PIECES_KEPT };
void operation_pieces(struct operations *o, const struct caller *c, uint64_t id, enum pieces_of of,
		      uint64_t offset, uint64_t limit, piece_seen_t seen, operation_done_t done,
		      void *userdata);

/* What happens is told to l from then on (context.h). l is the caller's, and stays where it is. */
void operation_listen(struct operations *o, struct listener *l);
/* One that does not listen is accepted. */
void operation_ignore(struct operations *o, struct listener *l);

/* What there is to tell about the daemon itself. */
struct daemon_view {
	const char *version;
	const char *const *features; /* what this build and kernel have, NULL-terminated; or NULL */
	bool paused;
	/* The pacing window in force, "" if none; its rate, 0 if it pauses; and when that changes,
	 * 0 if never. */
	const char *window;
	uint64_t window_rate, window_until_usec;
	const char *configuration_error, *store_error; /* "" if none */
	uint64_t jobs[JOB_STATES];                     /* unfinished ones */
	/* Since the daemon was started. */
	uint64_t entries_freed, bytes_freed, interruptions;
	uint64_t finished[JOB_STATES];
	uint64_t errors[ERROR_KINDS]; /* entries that could not be deleted, by errno; 0: others */
	uint64_t orphans;             /* job directories in staging that are of no job on record */
	struct sharing_state fleet;
};

void operation_view(struct operations *o, struct daemon_view *ret);
struct pacers *operation_pacers(struct operations *o);

/* A process of the caller has deleted so much by itself on the filesystem of this directory, and
 * may not write back what that leaves: has it done here, and answers when it is. The descriptor is
 * only needed during the call. Every user may ask: the same could be had with sync(2), though not
 * in steps. */
void operation_settle(struct operations *o, int dirfd, uint64_t entries, uint64_t bytes,
		      operation_done_t done, void *userdata);

/* reload reads the configuration again; it returns a negative errno where it stays as it was. */
int operations_new(struct operations **ret, struct jobs *jobs, int (*reload)(void *userdata),
		   void *userdata);
/* NULL is accepted; returns NULL. */
struct operations *operations_free(struct operations *o);
