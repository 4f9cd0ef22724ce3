/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the controller decided, told to the debug log (base/debug.h): it is pure and tells nothing
 * itself. A line for each change of the mode, for each backoff with its cause, and for a quantum or
 * a share that has changed much since the line before. */
#pragma once

#include <stdint.h>

#include "pacing/control/controller.h"

/* Embedded by its user; all zero: nothing has been told. */
struct decision_log {
	uint64_t backoffs[PACING_BACKOFFS];
	uint64_t entries, bytes;
	double share;
	enum pacing_mode mode;
	bool begun, urgent, piggyback;
};

/* Tells what has changed since the last call. `devices` names them in front of each line;
 * `cost_usec` is what the last quantum cost, its sync included. Does nothing while the log is off.
 */
void decision_log_update(struct decision_log *d, const struct controller *c, const char *devices,
			 uint64_t cost_usec);
