/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon counts, read over the bus and written for programs that collect metrics. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/common/client.h"
#include "ctl/devices/daemon-devices.h"

struct metrics_histogram {
	uint64_t sum_usec;
	const uint64_t *counts; /* one more than there are bounds */
};

enum metrics_latency { METRICS_READS, METRICS_SYNCS, METRICS_QUANTA, METRICS_LATENCIES };

struct metrics_device {
	char *name; /* "sda", or "sda+sdb" */
	uint64_t entries, bytes;
	struct counts backoffs;
	struct metrics_histogram latencies[METRICS_LATENCIES];
};

struct metrics_spool {
	char *path; /* escaped */
	bool watched;
	uint64_t waiting;
};

struct metrics {
	sd_bus_message *manager, *spool_list; /* the answers; strings and counts point into them */
	const char *version, *configuration_error, *store_error;
	int paused;
	uint64_t entries_freed, bytes_freed, interruptions, orphans;
	struct counts jobs, finished, errors;
	const uint64_t *bounds_usec;
	size_t n_bounds;
	struct metrics_device *devices; /* that were paced since the daemon was started */
	size_t n_devices;
	struct daemon_devices live; /* that are in use */
	struct metrics_spool *spools;
	size_t n_spools;
};

/* Reads everything. Returns 0 or an exit status; either way metrics_done frees what there is. */
int metrics_get(struct client *c, struct metrics *ret);
void metrics_done(struct metrics *m);

/* What a device set is called: the names of its devices in /dev in place of their numbers, where
 * they can be had. malloc'ed; NULL if memory is out. */
char *metrics_device_name(const char *key);

/* Writes them as OpenMetrics 1.0, or as Prometheus' own older text format, which is what
 * node_exporter reads. NULL: there is no daemon, which is a metric, too. */
void metrics_write(FILE *f, const struct metrics *m, bool openmetrics);
