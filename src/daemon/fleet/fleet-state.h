/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the fleet share. Private to them. */
#pragma once

#include <sys/queue.h>

#include "base/fleet-name.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/sharing.h"
#include "fleet-link.h"

struct given_unit;

struct fleet_filesystem {
	char *path, *name;
	char id[65];       /* "": not known, and not shared until it is */
	bool asked;        /* for it just now */
	unsigned demand;   /* units that other hosts would take */
	uint64_t rate;     /* of all hosts together, as it is configured; 0: unlimited */
	unsigned capacity; /* that was told; UINT_MAX: nothing was */
	bool works;        /* the same */
	uint64_t rate_told;
};

struct shared_job;
LIST_HEAD(shared_job_list, shared_job);
struct unit_run;
LIST_HEAD(unit_run_list, unit_run);

struct fleet {
	struct jobs *jobs;
	struct fleet_link *link; /* NULL: not started yet */
	bool joined;
	bool join_waits;       /* for units that still stop */
	uint64_t lease_usec;   /* by boot_usec: no other host is given before what this one has */
	sd_event_source *look; /* at the marks of units */
	char host[FLEET_NAME_SIZE];
	char uid_space[FLEET_NAME_SIZE]; /* which numbers users have; hosts with another refuse */
	char *database, *program;
	struct fleet_filesystem *filesystems;
	size_t n_filesystems;
	unsigned asking; /* for ids of filesystems */
	LIST_HEAD(, asking) asked;
	struct shared_job_list shared;
	struct unit_run_list units;
	unsigned units_read; /* they are being gone through: none is freed */
	bool units_wait;     /* to begin, when they are not any more */
	uint64_t *forgotten; /* jobs that have ended while the database could not be reached */
	size_t n_forgotten;
	/* Since when, and how often, the database was told to forget jobs that are not here. */
	uint64_t left_usec;
	unsigned n_left;
	char *trouble; /* that was logged last, or NULL */
	struct listener listener;
	struct sharing sharing;
	bool ends;
	uint64_t refused_job; /* whose refusal was logged last */
	char refused_host[FLEET_NAME_SIZE];
};

struct fleet_filesystem *fleet_filesystem_named(struct fleet *f, const char *name);
struct fleet_filesystem *fleet_filesystem_at(struct fleet *f, const char *path);
/* Of root, for a filesystem of the fleet; with the id of what is mounted there. -ENODEV. */
int fleet_root_intake(struct fleet *f, const struct fleet_filesystem *fs, struct worker **ret,
		      uint64_t *ret_mnt_id);
/* What this host would take may have changed. */
void fleet_capacity_check(struct fleet *f);
/* Units have ended: with the last one, a new life of this host may begin. */
void fleet_units_ended(struct fleet *f);

/* ---- shared-jobs.c ---- */

void shared_jobs_begin(struct fleet *f);
void shared_jobs_end(struct fleet *f);
/* The database can be reached, or not any more. */
void shared_jobs_joined(struct fleet *f);
void shared_jobs_lost(struct fleet *f);
void shared_jobs_demand(struct fleet *f, struct fleet_filesystem *fs);
void shared_job_published(struct fleet *f, uint64_t job, bool published);
void shared_job_report(struct fleet *f, const struct job_message *m);
void shared_job_finished(struct fleet *f, uint64_t job);

/* Says PUBLISH for a unit: of a job of this host (owner NULL), or of one that is done here. Returns
 * false if it could not be said. */
bool fleet_publish(struct fleet *f, const struct publish_message *m, const struct given_unit *u);

/* ---- unit-run.c ---- */

size_t units_count(const struct fleet *f, const struct fleet_filesystem *fs);

/* The message is read to its end. Returns 0 or -EBADMSG. */
int unit_claimed(struct fleet *f, struct wire_in *in);
void unit_revoked(struct fleet *f, const struct revoked_message *m);
/* Those of a job of this host. */
void units_of_job_stop(struct fleet *f, uint64_t job);
/* There is a new lease. */
void units_renewed(struct fleet *f);
/* Other hosts would take parts of one that is done here. */
void units_demand(struct fleet *f, struct fleet_filesystem *fs);
/* All of them stop, and are given back. */
void units_stop(struct fleet *f);
/* The same, and nothing is said of them any more. */
void units_drop(struct fleet *f);
