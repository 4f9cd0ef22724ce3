/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scheduler.h"

bool scheduler_before(const struct candidate *a, const struct candidate *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->served < b->served;
}

bool scheduler_has_room(dev_t dev, uid_t account, const struct scheduler_slot *running, size_t n)
{
	unsigned same = 0, silent = 0, own = 0;

	for (size_t i = 0; i < n; i++) {
		same += running[i].dev == dev;
		silent += running[i].silent;
		own += running[i].silent && running[i].account == account;
	}
	if (same >= SCHEDULER_DEVICE_MAX || n - silent >= SCHEDULER_RUNNING_MAX)
		return false;
	if (account == 0)
		return n < SCHEDULER_ROOT_MAX;
	return n < SCHEDULER_ALL_MAX && own < SCHEDULER_SILENT_USER_MAX &&
	       (own == 0 || silent < SCHEDULER_SILENT_MAX);
}
