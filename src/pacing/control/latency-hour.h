/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long requests took on a set of devices in each minute of the last hour, while something was
 * deleted there and in the gaps between. Pure, and embedded by its users; all zero is the
 * beginning. Times are of one monotonic clock, in microseconds. Where nothing is deleted nothing is
 * measured, so most minutes of most hours are not there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "totals.h"

#define LATENCY_MINUTES 60

/* Requests of other processes, as far as they can be told. */
enum latency_kind {
	LATENCY_READS,
	LATENCY_SYNCS, /* while something is deleted: what one waits for a quantum; else the
			  canary's */
	LATENCY_KINDS,
};

struct latency_minute {
	uint64_t number; /* minutes since the clock began, and one more; 0: none */
	/* As in struct histogram; first in gaps, then while something was deleted. */
	uint32_t counts[LATENCY_KINDS][2][HISTOGRAM_BOUNDS + 1];
};

struct latency_hour {
	struct latency_minute minutes[LATENCY_MINUTES];
};

/* Counts `times` requests that took `usec` each. */
void latency_hour_add(struct latency_hour *h, uint64_t now_usec, enum latency_kind kind,
		      bool deleting, uint64_t usec, uint64_t times);

/* Adds what `from` has counted to `to`. Of two minutes in one place the newer one stays. */
void latency_hour_merge(struct latency_hour *to, const struct latency_hour *from);

/* What requests of one kind took in one minute. */
struct latency_figures {
	enum latency_kind kind;
	bool deleting;
	uint64_t age_usec; /* of the minute's beginning */
	uint64_t count;
	uint64_t half_usec, most_usec; /* half of them took no longer, and 99 of 100 */
};

#define LATENCY_FIGURES_MOST ((size_t)LATENCY_MINUTES * LATENCY_KINDS * 2)

/* Of all minutes of the last hour, the oldest first. Returns how many there are, at most
 * LATENCY_FIGURES_MOST, which there is room for. */
size_t latency_hour_figures(const struct latency_hour *h, uint64_t now_usec,
			    struct latency_figures *ret);

/* "reads", "syncs". */
const char *latency_kind_name(enum latency_kind kind);
