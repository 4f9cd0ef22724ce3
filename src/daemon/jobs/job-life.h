/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The life of a job, as data: its phases, which can follow which, what is durable in each, and what
 * a start of the daemon does with a job that it finds there. Pure. job.c goes by it (job_enter),
 * recovery does, and so do the test and the page that shows it.
 *
 * A phase is the state that users see and, where that is not enough, what goes on besides. */
#pragma once

#include <stdbool.h>

#include "store/store.h"

enum job_phase {
	PHASE_UNKNOWN,  /* it is not known which of its names are in staging */
	PHASE_MOVING,   /* its names are being moved into staging, as the last part of its submit */
	PHASE_LISTING,  /* staging is listed for its names */
	PHASE_HELD,     /* its time of undo is not over */
	PHASE_QUEUED,   /* it waits for its turn, or for a time to be tried again */
	PHASE_RUNNING,  /* its names are being deleted */
	PHASE_LEAVING,  /* its run has ended, and what follows is decided in the same call */
	PHASE_CLEARING, /* names that its run could not delete are put back */
	PHASE_PAUSED,
	PHASE_RETURNING,   /* cancelled or restored: its names are put back */
	PHASE_FREEING,     /* its names are back; the remainder of a large file is freed */
	PHASE_FREE_WAITS,  /* the same, while everything pauses */
	PHASE_FREE_PAUSED, /* the same, while it pauses */
	PHASE_DONE,
	PHASE_PARTIAL,
	PHASE_FAILED,
	PHASE_CANCELLED,
	PHASE_RESTORED,
	PHASES
};

/* What a start of the daemon does with a job that is on record in a phase. */
enum job_start {
	START_LIST,      /* lists staging for its names, then queues it */
	START_QUEUE,     /* holds or queues it */
	START_NOTHING,   /* leaves it: it pauses, or has ended */
	START_TAKE_BACK, /* goes on putting its names back */
};

struct job_phase_row {
	const char *name;     /* one word, for messages and pages */
	enum job_state state; /* that users see, and that is on record */
	unsigned from;        /* 1 << phase, of all that it may follow */
	enum job_start start; /* where it was not on its way back */
	const char *durable;  /* what is on disk at the latest in this phase */
	const char *then;     /* what a start does, in words */
};

extern const struct job_phase_row job_phases[PHASES];
/* The phase in which a job on record begins: nothing goes on with it yet. */
enum job_phase job_life_loaded(enum job_state state);

/* What a start does with it. resume: the state that it was on its way to. */
enum job_start job_life_start(enum job_phase phase, enum job_state resume);

static inline bool job_phase_is(enum job_phase phase, unsigned phases)
{
	return 1U << phase & phases;
}
#define IN_PHASE(name) (1U << PHASE_##name)
/* Nothing goes on with it, and it has not ended. */
#define PHASES_AT_REST (IN_PHASE(HELD) | IN_PHASE(QUEUED) | IN_PHASE(PAUSED))
#define PHASES_FREEING (IN_PHASE(FREEING) | IN_PHASE(FREE_WAITS) | IN_PHASE(FREE_PAUSED))
#define PHASES_ENDED                                                                               \
	(IN_PHASE(DONE) | IN_PHASE(PARTIAL) | IN_PHASE(FAILED) | IN_PHASE(CANCELLED) |             \
	 IN_PHASE(RESTORED))
