/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The operations of the API, once, for D-Bus, the private socket and Varlink, which only translate.
 *
 * An operation checks what it is given and who asks, begins, and answers through its callback:
 * exactly once, in this call or later, on the event loop, also when the client is gone by then (the
 * translators drop the answer). What was answered stays accepted; a submit that could not be is
 * withdrawn (job-submit.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "base/error-table.h"
#include "base/escape.h"
#include "daemon/workers/worker-handle.h"

struct manager;
struct job;
struct grant;

/* Of Linux there are fewer. */
#define ERROR_KINDS 160

/* Who asks: from the socket or the bus, never from /proc or the user database. */
struct caller {
	struct submitter id;
	bool is_us; /* reclaimd asks for itself: its own mounts count */
	/* The process, and a descriptor that stands for it; 0 and -1 where it is not known. */
	pid_t pid;
	int pidfd;
	/* By which polkit can be asked whether the caller may act on others' jobs; NULL where that
	 * cannot be asked, which means no. root always may. */
	const char *bus_name;
	const struct grant *grant; /* what polkit has said, for this one operation; or NULL */
};

struct failure {
	enum error_cause cause; /* ERROR_NONE: no failure */
	struct safe_text text;  /* what, which, why, what to do */
	/* It takes authority over jobs that are not the caller's, or there is no such job: which of
	 * the two, only who has that authority learns. Nothing was done. */
	bool others;
};

struct submit_options {
	bool has_undo;
	uint64_t undo_usec;
	uint64_t by_usec;
	enum job_priority priority;
	bool dry_run;
	const char *origin; /* NULL: "submit" */
	/* NULL: nobody waits for an answer, as with spools. Else whether the caller still does,
	 * with the userdata of `done`: a submit that cannot be answered any more is withdrawn. */
	bool (*is_awaited)(void *userdata);
	/* What has been moved out of the way by then stays accepted: the caller, who has gone, may
	 * have seen that the name is gone. */
	bool keep_moved;
	/* NULL, or whether a name that was found is the one that is meant: if not, the submit is
	 * refused as IdentityChanged. Called in the order of names, before it is answered. */
	bool (*is_expected)(const struct entry_record *e, void *userdata);
	void *expected_userdata;
};

struct submitted {
	uint64_t id; /* 0: dry run */
	uint64_t accepted, missing;
	bool interrupted; /* a worker died, and nothing was accepted: the same may go well */
};

/* f->cause is ERROR_NONE on success. */
typedef void (*submit_done_t)(const struct failure *f, const struct submitted *s, void *userdata);
typedef void (*operation_done_t)(const struct failure *f, void *userdata);

/* Accepts names for deletion. Answers when the record is durable and the names are out of the way.
 * Groups, their names and descriptors are only needed during the call. */
void operation_submit(struct manager *m, const struct caller *c, const struct intake_group *groups,
		      size_t n, const struct submit_options *o, submit_done_t done, void *userdata);

void operation_cancel(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		      operation_done_t done, void *userdata);
void operation_pause(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		     operation_done_t done, void *userdata);
void operation_resume(struct manager *m, const struct caller *c, const uint64_t *ids, size_t n,
		      operation_done_t done, void *userdata);
void operation_pause_all(struct manager *m, const struct caller *c, bool pause,
			 operation_done_t done, void *userdata);
/* to_fd -1: where it was. Another place is for the job's owner and root only, because it is the
 * owner's authority that is used there. */
void operation_restore(struct manager *m, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata);
void operation_reload(struct manager *m, const struct caller *c, operation_done_t done,
		      void *userdata);

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

void operation_list(struct manager *m, const struct caller *c, const struct job_query *q,
		    job_seen_t seen, operation_done_t done, void *userdata);
void operation_problems(struct manager *m, const struct caller *c, uint64_t id, uint64_t offset,
			uint32_t limit,
			void (*seen)(const struct problem_record *p, void *userdata),
			operation_done_t done, void *userdata);
void operation_entries(struct manager *m, const struct caller *c, uint64_t id, uint64_t offset,
		       uint32_t limit,
		       void (*seen)(const char *path, enum entry_state state, void *userdata),
		       operation_done_t done, void *userdata);

/* May the caller see this job at all? For object paths and signals. */
bool operation_may_see(const struct caller *c, const struct job_record *r);

/* What the buses tell their peers about: set by the bus, and taken away (all NULL) when it is
 * freed. A callback that is NULL is not called. */
struct manager_events {
	void (*job_new)(const struct job_record *r, void *userdata);
	/* State changes at once; progress at most every half second for a job. */
	void (*job_changed)(const struct job_record *r, void *userdata);
	void (*job_finished)(const struct job_record *r, void *userdata);
	void (*manager_changed)(const char *property, void *userdata);
	void *userdata;
};

/* What there is to tell about the daemon itself. */
struct manager_view {
	bool paused;
	const char *configuration_error, *store_error; /* "" if none */
	uint64_t jobs[JOB_STATES];
	/* Since the daemon was started. */
	uint64_t entries_freed, bytes_freed, interruptions;
	uint64_t finished[JOB_STATES];
	uint64_t errors[ERROR_KINDS]; /* entries that could not be deleted, by errno; 0: others */
	uint64_t orphans;             /* job directories in staging that are of no job on record */
};

void manager_listen(struct manager *m, const struct manager_events *e);
void manager_look(struct manager *m, struct manager_view *ret);
struct pacers *manager_pacers(struct manager *m);
