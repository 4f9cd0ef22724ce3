/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices a filesystem lives on, and where its figures are: what the sensors are opened by,
 * and what jobs share a controller by. Looked up once for a filesystem; holds nothing open. */
#pragma once

#include "blockdevs.h"
#include "commit-sensor.h"

/* Embedded by its users. */
struct devices {
	/* The devices the filesystem is on (`top`), what they consist of, and of that the last ones
	 * (`leaf`). One device may be both. */
	struct blockdevs b;
	const char *none;    /* why there are no devices, a static text; NULL if there are */
	bool served;         /* without devices, as a server or a process answers */
	char *key;           /* the disks of the leaves, sorted: "8:0+8:16"; without: "none:0:45" */
	char type[32];       /* filesystem type as mounted; "" where the mount is out of sight */
	char upper_type[32]; /* of an overlay: that of the filesystem its upper directory is on */
	char uuid[40];       /* of a btrfs, as text; else "" */
	bool discards_async; /* a btrfs which discards by itself, minutes later */
	enum commit_kind commit_kind; /* COMMIT_NONE where the filesystem tells nothing */
	char *commit_path;            /* for commit_sample, or NULL */
};

/* Finds the devices of the filesystem that fd is on. fd is any descriptor, O_PATH ones included.
 * `sys` and `proc` are "/sys" and "/proc", but for tests. Having no device (a filesystem in memory,
 * on a server, in FUSE) is a success: b is empty and `none` says why. Returns 0 or a negative
 * errno, then without anything to free. */
int devices_find(struct devices *d, const char *sys, const char *proc, int fd);

/* Frees what it holds and makes it empty. All zero is accepted. */
void devices_done(struct devices *d);
