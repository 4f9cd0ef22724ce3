/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors say of one path's devices: now, and what has changed since a moment ago.
 * devices-text.c and devices-json.c say it. */
#pragma once

#include <jansson.h>

#include "pacing/sensors/device-set.h"
#include "pacing/sensors/disk-sensor.h"
#include "pacing/sensors/pressure-sensor.h"

/* One device that counts, or the whole disk of a partition. */
struct look_disk {
	const struct blockdev *of;
	bool whole;   /* the disk of a partition, not the partition itself */
	bool present; /* it has counters that can be read */
	bool counts;  /* and they move */
	struct disk_sensor sensor;
	struct disk_sample boot, before, span;
};

struct look {
	const char *path; /* as given */
	struct devices d;
	struct look_disk *disks;
	size_t n_disks;
	bool has_commits, has_pressure;
	struct commit_sensor commit;
	struct commit_sample commits, commits_before;
	struct pressure_sensor pressing;
	struct pressure_sample pressure, pressure_before;
	uint64_t began_usec, span_usec; /* span_usec is 0 if it has been looked at only once */
};

/* Finds the devices of a path (a final symbolic link is followed) and takes the first samples.
 * Returns 0 or a negative errno; -ENOTBLK for a block device, which is on the filesystem of /dev.
 */
int look_begin(struct look *l, const char *path);

/* Takes the second samples. */
void look_again(struct look *l);
void look_done(struct look *l);

/* The word for where a disk's name is from: of->name, or of->disk_name. */
const char *look_disk_name(const struct look_disk *d);

/* How many commits there were between the two samples. */
uint64_t look_commits_now(const struct look *l);

/* devices-text.c: for people. */
void look_print(const struct look *l);

/* devices-json.c: for programs, as described in devices.c. After json_init. */
json_t *look_json(const struct look *l);
