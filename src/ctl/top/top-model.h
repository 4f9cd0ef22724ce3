/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What top shows, made of what the daemon says again and again: rates, what is left, and how the
 * cost of deleting went on each device. No terminal and no connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/jobs/job-list.h"
#include "ctl/metrics/metrics.h"

/* The states of unfinished jobs, in the order in which they are shown. */
enum top_state { TOP_RUNNING, TOP_QUEUED, TOP_PAUSED, TOP_HELD, TOP_ACCEPTED, TOP_STATES };
extern const char *const top_state_names[TOP_STATES];

#define TOP_HISTORY 60

struct top_job {
	const struct job_line *line;
	double share;       /* of it that is done; negative: not known */
	uint64_t left_usec; /* 0: not known */
	/* Of running jobs, lately, a second; negative: not known yet. */
	double entries_rate, bytes_rate;
	uint64_t since_usec; /* they are known; 0: not */
};

struct top_device {
	const json_t *now; /* as daemon-devices.h has it */
	/* What a quantum cost as a share of what it may, newest last; 0: none was done. */
	double history[TOP_HISTORY];
};

/* All zero is one that knows nothing yet. */
struct top_model {
	struct metrics metrics;
	struct job_list lists[TOP_STATES];
	uint64_t usec; /* when */
	struct top_job *jobs;
	size_t n_jobs;
	struct top_device *devices;
	size_t n_devices;
};

/* Takes over what the daemon has said at this moment; what is given is emptied. Returns 0 or
 * -ENOMEM, and then the model is as it was. */
int top_model_update(struct top_model *m, struct metrics *metrics,
		     struct job_list lists[TOP_STATES], uint64_t now_usec);
void top_model_done(struct top_model *m);

/* Where the job with this number is among the jobs, or else, as it is gone, the nearest place to
 * where it was. */
size_t top_model_place(const struct top_model *m, uint64_t id, size_t was);
