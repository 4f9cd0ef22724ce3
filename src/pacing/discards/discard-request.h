/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaim-discards is told: messages of a SOCK_SEQPACKET socket, which is its descriptor
 * SPAWN_FD (base/spawn.h). The first names the filesystem; a later one has another target. The
 * deleter closes the socket when all is deleted; closed before a request, it means: recover. It
 * says nothing itself, and closes its end where it can do nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DISCARD_DISKS_MOST 16

/* Where it keeps what it has to put back, in a file for each filesystem, and how these begin. */
#define DISCARD_RUN "/run"
#define DISCARD_KEPT "reclaim-discards."

struct discard_request {
	char uuid[40];        /* of the btrfs, as text */
	uint64_t target_usec; /* what a foreign request may wait for a discard; 0: not known */
	uint64_t n_disks;
	dev_t disks[DISCARD_DISKS_MOST]; /* that it is on: they count discards */
};
