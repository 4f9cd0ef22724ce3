/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors said and what was done, as lines of text: written by `run --trace`, and fed to
 * the controller again by its tests.
 *
 *   o USEC LATENCY_USEC RATE_MIN PRESUMED_BUSY OBSERVED DISCARDS
 *       what it began with
 *
 *   s USEC READS SECTORS READ_USEC FLUSHES REQUESTS IN_FLIGHT OWN_SECTORS CANARIES CANARY_USEC BUSY
 *     COMMITS DISCARDS DISCARD_USEC FLUSH_USEC
 *       a sample of all sensors
 *
 *   w USEC ENTRIES BYTES COST_USEC MODE
 *       a slice of work has ended
 *
 *   y USEC ENTRIES BYTES COST_USEC MODE
 *       it was synced; quanta may now have so many of each
 *
 *   d USEC STEP_BYTES BYTES COST_USEC MODE
 *       a step has written back BYTES of what is dirty; the next may have STEP_BYTES
 */
#pragma once

#include <stdio.h>

#include "pacing/control/controller.h"

struct trace_line {
	char kind;                                /* 'o', 's', 'w', 'y' or 'd' */
	struct controller_options options;        /* of 'o' */
	struct pacing_sample sample;              /* of 's' */
	uint64_t usec, entries, bytes, cost_usec; /* of 'd', `entries` is the next step's bytes */
	enum pacing_mode mode;
};

/* Each writes one line; trace_work, of all but 'o' and 's', that of now. */
void trace_options(FILE *f, const struct controller_options *o, uint64_t now_usec);
void trace_sample(FILE *f, const struct pacing_sample *s);
void trace_work(FILE *f, char kind, enum pacing_mode mode, uint64_t entries, uint64_t bytes,
		uint64_t cost_usec);

/* Reads a line. Returns 0, or -EBADMSG if it is none. */
int trace_parse(const char *text, struct trace_line *ret);
