/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One trim of a filesystem, on a thread of its own, as its steps wait for their turn and for the
 * device. FITRIM is called by another process (trim/trim-process.h): one that the service manager
 * starts (reclaimd-trim.socket), or, where there is no such socket, one that is forked here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct pacer;
struct trim_task;

struct trim_task_options {
	int fd;              /* of that root, open for reading; only needed during the call */
	const char *mount;   /* mount point; only needed during the call */
	dev_t dev;           /* st_dev of its root: another filesystem there is left alone */
	uint64_t min_bytes;  /* what is free in smaller pieces is left as it is */
	struct pacer *pacer; /* must live until trim_task_free; NULL: as fast as it goes */
	const char *socket;  /* of the unit; only needed during the call */
};

struct trim_task_progress {
	uint64_t trimmed_bytes;
	uint64_t longest_step_usec;
	uint64_t first_mib_usec; /* trim/trim.h */
};

/* error: 0, or a negative errno: -ECANCELED if it was stopped before it came to the end, or what
 * trim_run says (trim/trim.h). why (static): what there is to say of it in words, or "". */
typedef void (*trim_task_ended_t)(int error, const char *why, void *userdata);

/* Begins. `ended` is called once, on the event loop and not in this call, unless trim_task_free
 * comes before. Returns 0 or a negative errno: -ENOMEM, or what making a thread says. */
int trim_task_new(struct trim_task **ret, sd_event *event, const struct trim_task_options *o,
		  trim_task_ended_t ended, void *userdata);

/* It ends within a step. */
void trim_task_stop(struct trim_task *t);

void trim_task_progress(struct trim_task *t, struct trim_task_progress *ret);

/* Waits until the thread has ended, which takes no longer than a look at the device. NULL is
 * accepted; returns NULL. */
struct trim_task *trim_task_free(struct trim_task *t);
