/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scheduler.h"

bool scheduler_before(const struct candidate *a, const struct candidate *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->served < b->served;
}

bool scheduler_has_room(dev_t dev, const dev_t *running, size_t n)
{
	unsigned same = 0;

	for (size_t i = 0; i < n; i++)
		same += running[i] == dev;
	return n < SCHEDULER_RUNNING_MAX && same < SCHEDULER_DEVICE_MAX;
}
