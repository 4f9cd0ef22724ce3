/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors measure on the devices of one path: now, and what has changed since a first
 * sample. devices-text.c and devices-json.c print it. */
#pragma once

#include <jansson.h>

#include "discard-setup.h"
#include "pacing/sensors/device-set.h"
#include "pacing/sensors/disk-sensor.h"
#include "pacing/sensors/pressure-sensor.h"

/* One device that counts, or the whole disk of a partition. */
struct snapshot_disk {
	const struct blockdev *of;
	bool whole;   /* the disk of a partition, not the partition itself */
	bool present; /* it has counters that can be read */
	struct disk_sensor sensor;
	struct disk_sample boot, before, span;
};

struct device_snapshot {
	const char *path; /* as given */
	struct devices d;
	char *mount; /* as the mount table has it; NULL: not seen there */
	struct discard_setup discards;
	struct snapshot_disk *disks;
	size_t n_disks;
	bool has_commits, has_pressure;
	struct commit_sample commits, commits_before;
	struct pressure_sample pressure, pressure_before;
	uint64_t began_usec, span_usec; /* span_usec is 0 before an update */
};

/* Finds the devices of a path (a final symbolic link is followed) and takes the first samples.
 * Returns 0 or a negative errno; -ENOTBLK for a block device, which is on the filesystem of /dev.
 */
int device_snapshot_begin(struct device_snapshot *l, const char *path);

/* Takes the second samples. A device that is gone by now keeps its first ones. */
void device_snapshot_update(struct device_snapshot *l);

/* Closes the sensors and frees what was found; also after a begin that failed. */
void device_snapshot_done(struct device_snapshot *l);

/* devices-json.c: for programs, as described in devices.c. After json_init. The caller owns it. */
json_t *device_snapshot_json(const struct device_snapshot *l);

/* devices-text.c: prints that on standard output, for people. */
void device_snapshot_print(const json_t *snapshot);
