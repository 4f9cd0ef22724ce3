/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which of those that wait goes next. Pure: knows no jobs, no clocks.
 *
 * Higher priority first; among equals the user whose last job began longest ago. At most eight jobs
 * at a time, seven of a user and two on a device: more of them only take turns at the same budget,
 * and each is a process. That a user has one job at a time on a filesystem is the queues' shape
 * (staging-area.h).
 *
 * A job that gets no further, because its filesystem hangs or its process is stopped, takes no part
 * of these: others run in its stead. Of such jobs a user has at most eight, two of them on a
 * device; and where there are many, only a user who has none may begin another job.
 *
 * Root's jobs and those of all users are counted apart. A user can make the own jobs go on as
 * slowly as it likes, by a filesystem that is served by a program or by signals to the process that
 * deletes; whichever user that is, root's jobs go on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SCHEDULER_RUNNING_MAX 8
#define SCHEDULER_USER_MAX 7
#define SCHEDULER_DEVICE_MAX 2
#define SCHEDULER_SILENT_USER_MAX 8
#define SCHEDULER_SILENT_DEVICE_MAX 16
#define SCHEDULER_SILENT_MAX 48
/* Of any kind; and of root's and of users' together. */
#define SCHEDULER_ALL_MAX 64
#define SCHEDULER_BOTH_MAX (2 * SCHEDULER_ALL_MAX)

struct candidate {
	unsigned priority; /* more is sooner */
	uint64_t served;   /* when its user was last served, on a count */
};

/* Whether a goes before b. */
bool scheduler_before(const struct candidate *a, const struct candidate *b);

/* One that is running, or would. */
struct scheduler_slot {
	dev_t dev;
	uid_t account; /* 0: root */
	bool silent;   /* gets no further */
};

/* Whether that one may run as well while these n are running. */
bool scheduler_has_room(const struct scheduler_slot *one, const struct scheduler_slot *running,
			size_t n);
