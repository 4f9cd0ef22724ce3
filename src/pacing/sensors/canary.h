/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an fdatasync of another process costs: a process of our own that now and then appends 4 KiB
 * to a nameless file and syncs it. The file is never larger than 1 MiB. All functions may be called
 * from any thread and none of them waits for the disk. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct canary;

/* Times are of CLOCK_MONOTONIC, as now_usec has it. */
struct canary_sample {
	uint64_t count;        /* how many have ended well */
	uint64_t last_usec;    /* what the last of these took, write and fdatasync together */
	uint64_t ended_usec;   /* when it ended; 0: there was none yet */
	uint64_t started_usec; /* when the one under way began; 0: none is */
	uint64_t failures;     /* how many failed */
	int error;             /* negative errno of the last one if that failed, or 0 */
	bool gone;             /* its process has ended: there will be no more */
};

/* Makes a canary, not yet enabled, with its file in the directory open as dirfd, which the caller
 * keeps. Returns 0 or a negative errno. Where nameless files are not supported, that is its
 * first and last failure (-EOPNOTSUPP). Where its process is killed, that is its last one (-EPIPE).
 */
int canary_new(struct canary **ret, int dirfd);

/* While enabled it syncs once a second, the first time at once. Does not interrupt one under way.
 */
void canary_enable(struct canary *c, bool on);

/* Asks for one soon, even if the second is not over, but at the earliest 200 ms after the last one
 * began. Does nothing while it is not enabled. */
void canary_poke(struct canary *c);

/* What is known of it by now. Never waits. */
void canary_sample(struct canary *c, struct canary_sample *ret);

/* Ends it; NULL is accepted. Returns NULL. If the disk hangs, its process and file are left
 * behind and go when it does not any more. */
struct canary *canary_free(struct canary *c);
