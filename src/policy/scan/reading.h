/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A reading: what a scan does between asking the pace for leave and telling it what that took.
 *
 * Where nobody else is on the device it goes on until somebody is, and costs nothing. Where
 * somebody is, it is over after a millisecond or the one request that took longer: others never
 * wait for more of ours than what is under way already. What it took is the time that it waited;
 * what was in memory disturbs nobody. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pace.h"

/* Embedded by its users; all zero is a closed one without a pace. */
struct reading {
	const struct pace *pace; /* or NULL: nobody is to be spared */
	bool open;
	bool limited; /* it was granted while somebody was there */
	uint64_t began_usec, cpu_usec;
};

/* Before anything that may have to be read: waits until it may be. */
void reading_go_on(struct reading *r);
/* Ends it, if it is open. */
void reading_end(struct reading *r);
