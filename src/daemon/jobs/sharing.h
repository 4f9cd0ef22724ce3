/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs that other hosts of a fleet help with: what a run asks of the part that shares them
 * (daemon/fleet/), which sets jobs->sharing. NULL where there is none.
 *
 * While a run goes on, what its worker gives away is `given`, a unit at a time. When all that is
 * left is with other hosts, the run waits for them, and then goes through the job's names once
 * more, alone: whatever has become of the units, that run finds what is left. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fleet-name.h"

struct given_unit;
struct job;

/* A host goes on with a part of a job for so long after it began to look at the job's mark, by its
 * own clock, and no longer. It looks again in much less. */
#define MARK_HOLDS_USEC (10 * USEC_PER_SEC)

struct sharing {
	/* Is what this job deletes in staging shared? Asked when its names are begun with. */
	bool (*may)(const struct job *j, void *userdata);
	/* Its worker has begun with some of its names: run_demand says what it may give away. */
	void (*begun)(struct job *j, void *userdata);
	/* Valid in the call. */
	void (*given)(struct job *j, const struct given_unit *u, void *userdata);
	/* Nothing more is given. `ended` is called once, later or in this call, when no host has a
	 * part of the job: it has been done, or given up, or the fleet cannot be reached. */
	void (*wait)(struct job *j, void (*ended)(struct job *j), void *userdata);
	/* Other hosts are to stop with it, whether it is waited for or not. */
	void (*recall)(struct job *j, void *userdata);
	/* Its run has ended, or been stopped. */
	void (*left)(struct job *j, void *userdata);
	/* Does the database say that a host has a part of it? False: not, or it cannot be asked.
	 * Whenever that may have changed, withdrawal_look is called. */
	bool (*is_busy)(const struct job *j, void *userdata);
	void *userdata;
};

struct shared_total {
	uint64_t units, entries, bytes;
};

/* How this host stands in its fleet, and what it has shared since the daemon was started. Written
 * by the part that shares, which comes and goes with the configuration. */
struct sharing_state {
	char host[FLEET_NAME_SIZE]; /* what this host is called there; "": it is in no fleet */
	bool connected;             /* it is one of the fleet, by the database */
	uint64_t since_usec;        /* when that became so, or not so; CLOCK_REALTIME */
	char *error;                /* why it is not, in words; NULL: it is not known yet */
	uint64_t published;         /* units of jobs of this host */
	uint64_t claimed;           /* units of jobs of other hosts, by this one */
	struct shared_total done;   /* of those, here */
	struct shared_total others; /* of jobs of this host, by other hosts */
};

/* What a worker may give away from now on of this job, if it runs and is shared. job-run.c. */
void run_demand(struct job *j, unsigned units);
/* Does the job's run do nothing but wait for other hosts? */
bool run_waits_for_hosts(const struct job *j);
/* This host has deleted so much of the job. */
void run_count(struct job *j, uint64_t entries, uint64_t bytes);

/* withdrawal.c: what waits for other hosts may go on. And: the job is shared again. */
void withdrawal_look(struct job *j);
void withdrawal_forget(struct job *j);
