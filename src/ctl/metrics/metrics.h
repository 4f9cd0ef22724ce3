/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon counts, read over the bus and written for programs that collect metrics. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "ctl/common/client.h"

/* All zero: nothing has been read. */
struct metrics {
	json_t *manager;  /* all its properties, by their names */
	json_t *spools;   /* arrays, as ListSpools has them */
	json_t *devices;  /* that are in use: daemon-devices.h */
	json_t *policies; /* objects, as policy-state.h has them; NULL: not known */
	json_t *trims;    /* objects, see trim-state.h */
};

/* Reads everything. Returns 0 or an exit status; either way metrics_done frees what there is. */
int metrics_get(struct client *c, struct metrics *ret);
void metrics_done(struct metrics *m);

/* Writes them as OpenMetrics 1.0, or as Prometheus' own older text format, which is what
 * node_exporter reads. NULL: there is no daemon, which is a metric, too. */
void metrics_write(FILE *f, const struct metrics *m, bool openmetrics);
