/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "stats.h"

const char *skip_reason_name(enum skip_reason why)
{
	static const char *const names[SKIP_REASONS] = {
		[SKIP_MISSING] = "missing", [SKIP_MOUNT] = "mount", [SKIP_CHANGED] = "changed",
		[SKIP_MOVED] = "moved",     [SKIP_KEPT] = "kept",   [SKIP_CANCELLED] = "cancelled",
	};

	return names[why];
}
