/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the kernel counts for a block device: Documentation/block/stat.rst. Holds the file open, so
 * that a sample looks for no name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The columns of the file, in its order. Counts since the device appeared, but for in_flight, which
 * is of now. Sectors are of 512 bytes. The times are summed over requests: ten that wait together
 * for 1 ms make 10 ms; busy_msec is the time in which there was at least one, queue_msec the sum of
 * all kinds of requests. What an older kernel does not count is 0. */
struct disk_sample {
	uint64_t reads, read_merges, read_sectors, read_msec;
	uint64_t writes, write_merges, write_sectors, write_msec;
	uint64_t in_flight, busy_msec, queue_msec;
	uint64_t discards, discard_merges, discard_sectors, discard_msec; /* since Linux 4.18 */
	uint64_t flushes, flush_msec;                                     /* since Linux 5.5 */
};

/* Embedded by its users. */
struct disk_sensor {
	int fd;
	bool has_discards, has_flushes;
};

/* Opens the counters of a device. `sys` is "/sys", but for tests. Returns 0 or a negative errno;
 * -EBADMSG if the file has something else. */
int disk_sensor_open(struct disk_sensor *s, const char *sys, dev_t dev);

/* Reads the counters. Returns 0 or a negative errno, then with *ret untouched: -ENODEV if the
 * device is gone, -EBADMSG if the text makes no sense. */
int disk_sensor_sample(const struct disk_sensor *s, struct disk_sample *ret);

/* Closes it, if it is open. */
void disk_sensor_close(struct disk_sensor *s);

/* Adds another device's counters. */
void disk_sample_add(struct disk_sample *sum, const struct disk_sample *other);

/* What happened between two samples of a device, or of the same set of them; in_flight is that of
 * `now`. The kernel's times are of 32 bits and may have wrapped once, which is put right. If a
 * count went backwards the device is another: all is zero. ret may be one of the others. */
void disk_sample_since(const struct disk_sample *now, const struct disk_sample *then,
		       struct disk_sample *ret);
