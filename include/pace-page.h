/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a process that deletes and the one that paces it talk: a page of memory that both see, for
 * the time without limits, in which no lane asks; and a conversation over a socket pair for the
 * time with limits, in which each slice is granted.
 *
 *   step != none: BEGIN -> granted or not; SPENT -> due or not; if due, SYNCED -> nothing; or, of a
 *                 slice that only flushes, SYNCED at once
 *   step == none: busy is counted up, step looked at once more, and work goes on
 *
 * Two processes, so two programs of one build: there is no version. The one that paces believes
 * nothing that stands here: numbers are for counting, never for lengths or loops. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PACE_NO_LIMITS UINT64_MAX

struct pace_page {
	/* Written by the one that paces. */
	_Atomic uint64_t step; /* from which size on files go in steps; PACE_NO_LIMITS: no limits */
	_Atomic uint64_t op_latency_usec; /* see pace.h */
	_Atomic uint32_t
		sync_wanted; /* the first lane that sees it syncs what was freed without limits */

	/* Written by the one that deletes; the counts only grow. */
	_Atomic uint32_t busy;                     /* lanes that work without having asked */
	_Atomic uint64_t own_sectors;              /* of 512 bytes, read for it */
	_Atomic uint64_t entries, bytes;           /* removed and freed, with limits or without */
	_Atomic uint64_t free_entries, free_bytes; /* of those, without limits */
	_Atomic uint64_t syncs; /* made because `due` was set, or at a job's end */
};

enum pace_kind { PACE_BEGIN, PACE_SPENT, PACE_SYNCED, PACE_KINDS };

struct pace_message {
	uint32_t kind; /* an answer has that of its question */
	uint32_t yes;  /* BEGIN: granted, else cancelled; SPENT: due */
	uint64_t entries, bytes, cost_usec;
};
