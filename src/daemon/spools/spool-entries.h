/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is known of the entries of one spool, by name: a bounded number. Owns the entries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fd.h"

/* More are not remembered; they are found by listing again when some of these are gone. */
#define SPOOL_ENTRIES_MOST (128UL << 10)

enum spool_entry_state {
	SPOOL_NEW,     /* not checked yet */
	SPOOL_WAITING, /* until it has not changed for long enough */
	SPOOL_OFFERED, /* in a batch that is not answered */
	SPOOL_TAKEN,   /* there is a job for it */
	SPOOL_REFUSED, /* until it changes */
};

/* An entry as it was seen. */
struct spool_stamp {
	struct identity id;
	int64_t ctime_nsec, mtime_nsec; /* CLOCK_REALTIME */
	uid_t uid;
};

struct spool_entry {
	enum spool_entry_state state;
	bool touched;       /* something happened to it */
	bool later;         /* SPOOL_WAITING: for another attempt */
	uint32_t part;      /* entries of different parts are not submitted together */
	uint64_t batch;     /* SPOOL_OFFERED */
	uint64_t round;     /* in which it was seen last */
	int64_t since_usec; /* CLOCK_MONOTONIC: unchanged since; may be before the start */
	int submitter;      /* SPOOL_WAITING: index of the last round, or -1 */
	struct spool_stamp stamp;
	char name[];
};

struct spool_entries {
	void *tree;
	size_t n, n_touched;
};

void spool_entries_done(struct spool_entries *e);
/* The entry of this name, or NULL. */
struct spool_entry *spool_entries_find(const struct spool_entries *e, const char *name);
/* The same, made as SPOOL_NEW if need be. NULL if there are too many (or out of memory). */
struct spool_entry *spool_entries_get(struct spool_entries *e, const char *name);
void spool_entries_forget(struct spool_entries *e, struct spool_entry *entry);
void spool_entry_set_touched(struct spool_entries *e, struct spool_entry *entry, bool touched);

/* Calls `visit` for each; it may change entries, but neither add nor remove any. */
void spool_entries_walk(const struct spool_entries *e,
			void (*visit)(struct spool_entry *entry, void *userdata), void *userdata);

/* All that `choose` wants, as a malloc'ed array. Returns how many, or -ENOMEM. */
ssize_t spool_entries_choose(const struct spool_entries *e,
			     bool (*choose)(const struct spool_entry *entry, const void *userdata),
			     const void *userdata, struct spool_entry ***ret);
