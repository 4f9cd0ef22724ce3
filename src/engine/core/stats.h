/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a job has done so far. Counted by the lanes, read by any thread at any time. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Why an entry was left without an error of the filesystem. */
enum skip_reason {
	SKIP_MISSING,   /* another process was faster, or a listed name never existed */
	SKIP_MOUNT,     /* a mount point: never crossed (I4) */
	SKIP_CHANGED,   /* not what it was when it was looked at (I3) */
	SKIP_MOVED,     /* moved out of the tree while it was being deleted */
	SKIP_KEPT,      /* a directory kept because something in it was */
	SKIP_CANCELLED, /* not reached before the job was stopped */
	SKIP_REASONS
};

/* The words of the --json output: "missing", "mount", ... */
const char *skip_reason_name(enum skip_reason why);

struct stats {
	uint64_t entries; /* removed, directories included */
	uint64_t dirs;    /* of those, directories */
	uint64_t bytes;   /* st_blocks * 512 of what was weighed and whose last link went */
	uint64_t errors;  /* entries that could not be removed */
	uint64_t skipped[SKIP_REASONS];
	uint64_t subvolumes; /* of dirs, destroyed as a whole */
	uint64_t sliced;     /* of entries, removed by a server, many at once */
	uint64_t shrunk;     /* large files made smaller in steps */
	uint64_t whole;      /* large files unlinked whole where others are shrunk */
	uint64_t unlink_calls;
	uint64_t getdents_calls;
	uint64_t stat_calls;
	uint64_t relists; /* directories read again */
	int first_error;  /* negative errno, 0 if none */
};

static inline uint64_t stats_skipped(const struct stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < SKIP_REASONS; i++)
		n += i == SKIP_KEPT ? 0 : s->skipped[i];
	return n;
}
