/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all parts of one running engine share. Private to the engine. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/fd.h"
#include "engine-options.h"

struct tasks;
struct tree_look;

struct engine_job {
	struct engine_options o;
	struct fs_profile profile;
	const struct pace *pace; /* or NULL */
	struct stats stats;      /* only through stat_add and job_stats */
	struct tasks *tasks;
	struct tree_look *look;      /* behind a server, or NULL */
	uint64_t dev;                /* of the filesystem */
	_Atomic size_t allowance;    /* see dirlist.h */
	_Atomic size_t no_allowance; /* for lists that are not to become larger than their own */
	_Atomic bool cancelled;
	_Atomic uint64_t until_usec; /* by boot_usec: not beyond that; 0: for ever */
	_Atomic unsigned demand;     /* units that other hosts would take now */
	bool is_unit;                /* it is what another run has given away */
	const char *unsliced;        /* why something had to be unlinked; NULL: nothing */
	unsigned fds_per_lane;
	unsigned nodes_max; /* directories that lanes share may keep so many descriptors */
	_Atomic unsigned nodes;
	uint64_t ops, op_usec; /* behind a server: how many unlinks, what they took; as the stats */
	uint64_t began_usec, reported_usec; /* to the progress callback, by the caller's thread */
	pthread_mutex_t report_lock, links_lock;
};

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t stat_get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Its time is over: once it was seen to be, it stays so. */
static inline bool job_overdue(struct engine_job *j)
{
	uint64_t until = atomic_load_explicit(&j->until_usec, memory_order_relaxed);

	if (until == 0 || boot_usec() < until)
		return false;
	atomic_store(&j->cancelled, true);
	return true;
}

static inline bool job_cancelled(struct engine_job *j)
{
	return atomic_load_explicit(&j->cancelled, memory_order_relaxed) || job_overdue(j);
}

/* How many units other hosts would take now. Cheap. */
static inline unsigned job_demand(const struct engine_job *j)
{
	return atomic_load_explicit(&j->demand, memory_order_relaxed);
}

/* True while foreground I/O on the device is to be spared: the pace has limits. Cheap. */
static inline bool job_paced(const struct engine_job *j)
{
	return j->pace && j->pace->step(j->pace->userdata) != UINT64_MAX;
}

/* What an operation may take, as in the engine's options; it may change at any time. */
static inline uint64_t job_op_latency(const struct engine_job *j)
{
	if (!j->profile.server)
		return 0;
	return j->pace && j->pace->op_latency ? j->pace->op_latency(j->pace->userdata)
					      : j->o.op_latency_usec;
}

/* Copies the counters while lanes go on counting. */
void job_stats(const struct engine_job *j, struct stats *ret);

/* Calls the progress callback, if that is due or nothing will follow. */
void job_progress(struct engine_job *j, bool last);

/* Counts and reports one entry that could not be removed. `path` is raw. */
void job_error(struct engine_job *j, const char *path, const char *what, int error);

/* Counts and, unless it is routine (missing, kept, cancelled), reports an entry left on purpose. */
void job_skip(struct engine_job *j, enum skip_reason why, const char *path);
/* The same, in words of its own. */
void job_skip_as(struct engine_job *j, enum skip_reason why, const char *path, const char *words);
