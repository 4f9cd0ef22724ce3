/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One round through a spool, on a thread of its own: directories may lie on a disk that is slow or
 * a server that is gone, and accounts in a directory service. Nothing is shared with the thread but
 * the round itself, which is its own until it has ended. */
#pragma once

#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "base/fd.h"
#include "daemon/workers/worker-handle.h"
#include "spool-authority.h"

/* More entries are not remembered; they are found by listing again when some of these are gone. */
#define SPOOL_ENTRIES_MOST (128UL << 10)

/* An entry as it was seen. */
struct spool_stamp {
	struct identity id;
	int64_t ctime_nsec, mtime_nsec; /* CLOCK_REALTIME */
	uid_t uid;
};

struct spool_seen {
	char *name;
	int error; /* -ENOENT: it is not there */
	struct spool_stamp stamp;
	const char *why; /* static: no authority may be used for it; or NULL */
	int submitter;   /* else whose: index */
};

struct spool_round {
	/* What is to be checked; set before the start, freed with the round. */
	char *path;
	char **protect; /* NULL-terminated: further protected paths */
	bool check;     /* may it be served at all: protected paths */
	bool list;      /* that, and all entries; else: */
	char **names;
	size_t n_names;
	uint64_t number;
	bool deliver; /* for the caller */

	/* What was found. error is 0 if the spool can be served; else `why`, to follow its path. */
	int error;
	char why[256];
	struct spool_step *steps; /* as far as there are directories */
	size_t n_steps;
	bool complete; /* the last is the spool */
	struct spool_authority authority;
	int dirfd; /* for listing; -1 */
	struct spool_seen *seen;
	size_t n_seen;
	bool more; /* there were too many */
	struct credentials *submitters;
	size_t n_submitters;

	atomic_uint refs; /* the spool's and the thread's: the last one frees it */
	/* How its end is told. */
	int eventfd;
	sd_event_source *source;
	void (*ended)(struct spool_round *r, void *userdata);
	void *userdata;
};

/* Makes an empty round. NULL: out of memory. */
struct spool_round *spool_round_new(const char *path, char *const *protect);

/* Begins. `ended` is called from the event loop, and may free it. Returns 0 or a negative errno. */
int spool_round_start(struct spool_round *r, sd_event *event,
		      void (*ended)(struct spool_round *r, void *userdata), void *userdata);

/* Frees a round at any time; one that is still going on is left to its thread. Returns NULL. */
struct spool_round *spool_round_free(struct spool_round *r);

/* Names that are reclaimd's own, in a spool that is at the root of a mount. */
bool spool_name_is_ours(const char *name);
