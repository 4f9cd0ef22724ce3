/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which of those that wait goes next. Pure: knows no jobs, no clocks.
 *
 * Higher priority first; among equals the user whose last job began longest ago. At most eight jobs
 * at a time and two on a device: more of them only take turns at the same budget, and each is a
 * process. That a user has one job at a time on a filesystem is the queues' shape (place.h).
 *
 * A job that gets no further, because its filesystem hangs, takes no part of the budget: others run
 * in its stead. Of such jobs a user has at most eight; and where there are many, only who has none
 * may begin another job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SCHEDULER_RUNNING_MAX 8
#define SCHEDULER_DEVICE_MAX 2
#define SCHEDULER_SILENT_USER_MAX 8
#define SCHEDULER_SILENT_MAX 48
/* Of any kind; and as many as root may have beyond that. */
#define SCHEDULER_ALL_MAX 64
#define SCHEDULER_ROOT_MAX 128

struct candidate {
	unsigned priority; /* more is sooner */
	uint64_t served;   /* when its user was last served, on a count */
};

/* Whether a goes before b. */
bool scheduler_before(const struct candidate *a, const struct candidate *b);

/* One that is running. */
struct scheduler_slot {
	dev_t dev;
	uid_t account;
	bool silent; /* gets no further */
};

/* Whether one more of that user may run on dev while these n are running. */
bool scheduler_has_room(dev_t dev, uid_t account, const struct scheduler_slot *running, size_t n);
