/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A reading: what a scan does between asking the pace for leave and telling it what that took.
 *
 * Without foreign I/O on the device it goes on until there is some, and costs nothing. With foreign
 * I/O it is over after a millisecond or the one request that took longer: that never waits for more
 * of ours than what is under way already. What it took is the time that it waited;
 * what was in memory disturbs no process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pace.h"

/* Embedded by its users; all zero is a closed one without a pace. */
struct scan_reading {
	const struct pace *pace; /* or NULL: no limits */
	bool open;
	bool limited; /* it was granted while there was foreign I/O */
	uint64_t began_usec, cpu_usec;
};

/* Before anything that may have to be read: waits until it may be. */
void reading_go_on(struct scan_reading *r);
/* Ends it, if it is open. */
void reading_end(struct scan_reading *r);
