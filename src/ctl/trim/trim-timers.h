/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The timers of the service manager that have filesystems trimmed. */
#pragma once

#include <stdbool.h>

struct trim_timers {
	bool fstrim; /* fstrim.timer is active: one call for each filesystem, not paced */
	bool ours;   /* reclaimd-trim-scheduled.timer is */
};

/* Asks the service manager. Where there is none, or no bus to it, neither is. */
struct trim_timers trim_timers_get(void);
