/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How reclaimctl tells its results: the choices of its options, and its exit statuses. */
#pragma once

enum json_mode { JSON_OFF, JSON_SHORT, JSON_PRETTY };
enum switch_mode { SWITCH_AUTO, SWITCH_ON, SWITCH_OFF };

/* reclaimctl(1), "Exit status". */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PARTLY = 3,
	EXIT_NOT_AUTHORIZED = 4,
	EXIT_NO_DAEMON = 5,
};
