/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All that is measured of a filesystem and of what it stands upon: its disks, its commits, and how
 * long a small write of our own takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canary.h"
#include "commit-sensor.h"
#include "pacing/control/controller.h"
#include "disk-sensor.h"

struct devices;

struct sensors {
	struct disk_sensor *disks; /* n_disks */
	size_t n_disks;
	struct commit_sensor commits; /* fd -1: there are no figures */
	uint64_t last_commits;
	struct canary *canary; /* NULL: none */
	bool canary_gone;      /* it will tell no more */
	bool observed;         /* a disk's figures count */
};

#define SENSORS_INIT ((struct sensors){ .commits.fd = -1 })

/* s: SENSORS_INIT; sensors_close() is due also after an error. sys: as "/sys". canary_dirfd: where
 * the canary's file goes, borrowed during the call; -1: none. What cannot be opened is left out.
 * -ENOMEM. */
int sensors_open(struct sensors *s, const struct devices *d, const char *sys, int canary_dirfd);
void sensors_close(struct sensors *s);

/* Reads them all, as the controller wants it, but for what other processes did. Returns false if
 * there are disks and none of them says anything. */
bool sensors_sample(struct sensors *s, struct pacing_sample *ret);

/* Returns how many requests of all processes are in flight, and the bytes discarded so far. May be
 * called beside sensors_sample(). */
uint64_t sensors_discards(const struct sensors *s, uint64_t *ret_bytes);
