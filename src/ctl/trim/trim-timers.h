/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The timers of the service manager that have filesystems trimmed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

/* Those that are active. All zero is none. */
struct trim_timers {
	bool fstrim; /* fstrim.timer: one call for each filesystem, not paced */
	char **ours; /* names of those of reclaimd-generator, NULL-terminated; NULL: none */
	size_t n_ours;
};

/* Asks the service manager. Where there is none, or no bus to it, there is none. */
struct trim_timers trim_timers_get(void);

/* Is ours of that name among them? */
bool trim_timers_has(const struct trim_timers *t, const char *unit);

void trim_timers_done(struct trim_timers *t);
#define _cleanup_trim_timers_ _cleanup_(trim_timers_done)
