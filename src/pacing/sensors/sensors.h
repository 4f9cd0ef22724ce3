/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All that is measured of a filesystem and of what it stands upon: its disks, its commits, and how
 * long a small write of our own takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canary.h"
#include "device-set.h"
#include "disk-sensor.h"
#include "pacing/control/controller.h"

struct sensors {
	const struct devices *devices;
	struct disk_sensor disks[BLOCKDEVS_MOST];
	size_t n_disks;
	uint64_t last_commits;
	struct canary *canary; /* NULL: none */
	bool canary_gone;      /* it will tell no more */
	bool observed;         /* a disk's figures count */
};

/* devices: borrowed until sensors_close. sys: as "/sys". canary_dirfd: where the canary's file
 * goes, borrowed during the call; -1: none. What cannot be opened is left out. */
void sensors_open(struct sensors *s, const struct devices *devices, const char *sys,
		  int canary_dirfd);
/* The canary's file goes into that directory from now on, borrowed during the call; -1: no canary,
 * and the filesystem can be unmounted. Not beside sensors_sample(). */
void sensors_canary(struct sensors *s, int canary_dirfd);
/* All zero is accepted. */
void sensors_close(struct sensors *s);

/* Reads them all, as the controller wants it, but for what other processes did. Returns false if
 * there are disks and none of them says anything. */
bool sensors_sample(struct sensors *s, struct pacing_sample *ret);

/* Returns how many requests of all processes are in flight, and the bytes discarded so far. May be
 * called beside sensors_sample(). */
uint64_t sensors_discards(const struct sensors *s, uint64_t *ret_bytes);
