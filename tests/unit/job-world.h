/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs with all that they need and no bus: the event loop, a store in a scratch directory, real
 * workers, and a tmpfs on which the names are. Needs root and a mount namespace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/jobs/job-control.h"
#include "daemon/jobs/jobs.h"
#include "support.h"

#define HOUR_USEC (3600 * USEC_PER_SEC)

struct job_world {
	char dir[64];      /* scratch */
	char mount[80];    /* the tmpfs */
	char path[5][256]; /* of job_world_path, in turn */
	unsigned paths;
	struct context context;
	struct submitters submitters;
	struct jobs jobs;
	sd_event_source *store_source;
	struct listener listener;
	/* What was answered last. */
	bool answered;
	struct failure failure;
	uint64_t id;
	/* The job that has finished last. */
	uint64_t finished;
	enum job_state state;
	char message[1024];
};

/* A daemon that begins with an empty store; and its end. */
void job_world_open(struct job_world *w);
void job_world_close(struct job_world *w);
/* What the daemon has in memory is gone, as are its workers; the next one reads the store. Between
 * the two, `change` (or NULL) is called with the store. */
void job_world_restart(struct job_world *w, void (*change)(struct store *s, uint64_t id),
		       uint64_t id);

/* Beneath the tmpfs. The text lives for five more calls. */
const char *job_world_path(struct job_world *w, const char *name);
/* Where the first name of a job is in staging. */
const char *job_world_staged(struct job_world *w, uint64_t id);
bool job_world_has(struct job_world *w, const char *name);

/* Submits one name for uid NOBODY; returns the job's id, or 0 with w->failure. The other one
 * returns before it is answered. */
uint64_t job_world_submit(struct job_world *w, const char *name, uint64_t undo_usec);
void job_world_submit_begin(struct job_world *w, const char *name, uint64_t undo_usec);
/* Returns why it failed, or ERROR_NONE. The other one returns before it is answered. */
enum error_cause job_world_control(struct job_world *w, enum control_verb verb, uint64_t id);
void job_world_control_begin(struct job_world *w, enum control_verb verb, uint64_t id,
			     const struct restore_target *to);

enum error_cause job_world_change(struct job_world *w, const struct job_change *to, uint64_t id);

/* Returns the job, woken if it rests, until the event loop runs again; NULL if it has finished. */
struct job *job_world_job(struct job_world *w, uint64_t id);
void job_world_wait_finished(struct job_world *w, uint64_t id);

/* umount -l of what the names are on, and the same mounted there again; or both at once. */
void job_world_unmount(struct job_world *w);
void job_world_mount(struct job_world *w);
void job_world_mount_again(struct job_world *w);

/* A signal for all workers, or for all but those of root. Returns how many there are. */
unsigned job_world_signal(const struct job_world *w, int sig);
unsigned job_world_signal_users(int sig);

/* Runs the loop until a condition holds; fails if nothing happens for a minute. */
#define job_world_until(w, condition)                                                              \
	while (!(condition)) {                                                                     \
		int run_ = sd_event_run((w)->context.event, 60 * USEC_PER_SEC);                    \
		ck_assert_msg(run_ > 0, "%s: nothing happens", #condition);                        \
	}

/* Each test has a world in w. Returns the exit status for main. */
int job_world_run(const char *name, struct job_world *w, const TTest *const *tests, size_t n);
