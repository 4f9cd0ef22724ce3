/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libreclaim: hand files and trees over to reclaimd, which deletes them and spares the I/O of
 * other programs. See reclaim(3).
 *
 * Functions return 0 (or what they say) or a negative errno, and then leave outputs as they were;
 * reclaim_error() has words for people. A handle is for one thread at a time; different ones know
 * nothing of each other. The library keeps nothing but its handles, logs nothing, changes no signal
 * and deletes nothing itself: if a file cannot be handed over, the caller decides what to do.
 *
 * Structures begin with their size, so that they can grow: use their ..._INIT. */
#ifndef RECLAIM_H
#define RECLAIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RECLAIM_FOREVER UINT64_MAX

/* ---- connection --------------------------------------------------------------------------- */

struct reclaim;

/* Flags of reclaim_open. */
#define RECLAIM_NO_START 1U /* Do not have the bus start a daemon that does not run. */

/* Connects to the daemon on its private socket or, where that cannot be reached, on the system bus,
 * on which nothing can be submitted. Where RECLAIMD_RUNTIME_DIRECTORY is set, only on the socket in
 * that directory. */
int reclaim_open(struct reclaim **ret, unsigned flags);

/* Closes; callbacks that are outstanding are not called any more. Takes NULL. Returns NULL. */
struct reclaim *reclaim_close(struct reclaim *r);

/* Why the last function on this handle has failed, in words, without a newline; never NULL. As long
 * as no other function is called on it. */
const char *reclaim_error(const struct reclaim *r);

/* ---- handing over ------------------------------------------------------------------------- */

enum reclaim_priority { RECLAIM_PRIORITY_NORMAL, RECLAIM_PRIORITY_LOW, RECLAIM_PRIORITY_HIGH };

#define RECLAIM_UNDO_DEFAULT UINT64_MAX /* as the daemon's configuration says */

struct reclaim_options {
	uint64_t size;
	uint64_t undo_usec;    /* how long it can be taken back */
	uint64_t by_usec;      /* CLOCK_REALTIME by which it should have ended; 0: no matter */
	uint64_t timeout_usec; /* how long to wait for the answer */
	uint32_t priority;     /* enum reclaim_priority */
	uint32_t reserved;     /* 0 */
};

#define RECLAIM_OPTIONS_INIT                                                                       \
	{                                                                                          \
		sizeof(struct reclaim_options), RECLAIM_UNDO_DEFAULT, 0, RECLAIM_FOREVER,          \
			RECLAIM_PRIORITY_NORMAL, 0                                                 \
	}

/* Hands over what is called `name`, a single component, in a directory (AT_FDCWD: the current one).
 * Options may be NULL. When it returns 0 the job is on record, and the name is out of the way
 * unless the job has to work in place. *ret_job (may be NULL) is the job's number.
 *
 * What is there at the call is meant, whatever is called so later: after -ETIMEDOUT or -ECONNRESET
 * it may or may not have been accepted, but nothing else ever will be. */
int reclaim_submit_at(struct reclaim *r, int dirfd, const char *name,
		      const struct reclaim_options *options, uint64_t *ret_job);

/* Called with 0 and the number of the job, or with a negative errno. Must not
 * close or process the handle, or wait. */
typedef void (*reclaim_submitted_fn)(struct reclaim *r, int error, uint64_t job, void *userdata);

/* The same without waiting: reclaim_process() calls back. Failures that are known at once are
 * returned, and not called back. */
int reclaim_submit_at_async(struct reclaim *r, int dirfd, const char *name,
			    const struct reclaim_options *options, reclaim_submitted_fn callback,
			    void *userdata);

struct reclaim_plan {
	uint64_t size;
	uint64_t length_bytes; /* of the file; 0 of anything else */
	uint64_t frees_bytes;  /* of the file; 0 where it has other names, or is a tree */
	uint64_t links;        /* names that it has */
	uint32_t mode;         /* type and permissions, as stat(2) has them */
	uint32_t reserved;
};

#define RECLAIM_PLAN_INIT                                                                          \
	{                                                                                          \
		sizeof(struct reclaim_plan), 0, 0, 0, 0, 0                                         \
	}

/* Has the daemon check everything as for reclaim_submit_at, and accept nothing. Returns 0 if it
 * would have been accepted, or as that would have failed. */
int reclaim_plan(struct reclaim *r, int dirfd, const char *name, struct reclaim_plan *ret);

/* ---- jobs --------------------------------------------------------------------------------- */

enum reclaim_state {
	RECLAIM_ACCEPTED,
	RECLAIM_HELD,
	RECLAIM_QUEUED,
	RECLAIM_RUNNING,
	RECLAIM_PAUSED,
	RECLAIM_DONE, /* from here on it has ended */
	RECLAIM_PARTIAL,
	RECLAIM_FAILED,
	RECLAIM_CANCELLED,
	RECLAIM_RESTORED
};

struct reclaim_status {
	uint64_t size;
	uint64_t job;
	uint64_t entries; /* 0: not known yet */
	uint64_t entries_done;
	uint64_t bytes; /* 0: not known yet */
	uint64_t bytes_freed;
	uint64_t errors;
	uint64_t created_usec; /* CLOCK_REALTIME; 0: not yet */
	uint64_t held_until_usec;
	uint64_t started_usec;
	uint64_t finished_usec;
	uint32_t state; /* enum reclaim_state */
	uint32_t uid;
};

#define RECLAIM_STATUS_INIT                                                                        \
	{                                                                                          \
		sizeof(struct reclaim_status), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                  \
	}

int reclaim_get(struct reclaim *r, uint64_t job, struct reclaim_status *ret);

/* Waits until it has ended, however; *ret (may be NULL) is how. -ETIMEDOUT if it has not by then.
 */
int reclaim_wait(struct reclaim *r, uint64_t job, uint64_t timeout_usec,
		 struct reclaim_status *ret);

/* Takes a job back: what has not been deleted is put where it was. */
int reclaim_cancel(struct reclaim *r, uint64_t job);

/* A job that the caller may know of has ended; state is an enum reclaim_state. Must not close
 * or process the handle, or wait. */
typedef void (*reclaim_finished_fn)(struct reclaim *r, uint64_t job, unsigned state,
				    void *userdata);

/* Tells of each job that ends from now on, by reclaim_process() and reclaim_wait(). A NULL callback
 * ends that. */
int reclaim_on_finished(struct reclaim *r, reclaim_finished_fn callback, void *userdata);

/* ---- the caller's own event loop ----------------------------------------------------------- */

/* What poll(2) wants to know: the descriptor, which remains the handle's; the events; and until
 * when, in microseconds of CLOCK_MONOTONIC (RECLAIM_FOREVER: for ever). The latter two change with
 * each call of reclaim_process. */
int reclaim_fd(struct reclaim *r);
int reclaim_events(struct reclaim *r);
int reclaim_timeout(struct reclaim *r, uint64_t *ret_usec);

/* Does what can be done without waiting, and calls back. -ECONNRESET if the daemon is gone. */
int reclaim_process(struct reclaim *r);

#ifdef __cplusplus
}
#endif

#endif
