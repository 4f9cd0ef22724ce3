/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Paces the lanes that delete on one set of devices: opens the sensors, samples them on a thread of
 * its own, and lets lanes go on as the controller says.
 *
 *   sensors --sample--> controller --grant--> lanes of the engine (include/pace.h)
 *                            ^------ cost of each quantum ------|
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pacing/control/controller.h"

struct devices;
struct pace;
struct pacer;
struct payer_view;
struct pacer_peer;

struct pacer_options {
	uint64_t latency_usec; /* what a foreign request may take; 0: find out */
	uint64_t rate_min;     /* bytes per second, as in controller_options; 0: none */
	uint64_t rate_max;     /* the same; 0: unlimited */
	bool discards;         /* the filesystem discards what is freed as it goes */
	bool reads_only;       /* nothing is removed: a scan */
	bool debt;             /* what is left to be written back is paid in steps (debt/payer.h) */
	bool off;              /* foreign I/O is not spared: rate_max is all that holds */
	bool diskless; /* wanted without a disk, too: for rate_max, and for a server's sake */
	FILE *trace;   /* borrowed; a line for each sample and each quantum (trace.h), or NULL */
	const char *sys, *proc; /* borrowed; NULL: "/sys", "/proc" */
};

struct pacer_view {
	struct pacing_view controller;
	const char *devices; /* "8:0+8:16", or "none:0:45" where there is no disk; the pacer's */
	bool observed;       /* the devices have counters */
	uint64_t entries, bytes, elapsed_usec; /* since the last snapshot: for rates */
	uint64_t owed_bytes; /* dirty on the devices, as of the last look: to be written back */
};

/* Opens the sensors and starts the thread. fd is any descriptor on the filesystem; canary_dirfd a
 * directory on it in which nameless files may be made, or -1. Both are only needed during the call.
 * Sensors that cannot be opened are done without. Where there is no disk, *ret is NULL and 0 is
 * returned, unless o->diskless. Returns 0 or a negative errno: -ENOMEM, what finding the devices
 * says (devices_find), or what starting a thread says (-EAGAIN). */
int pacer_new(struct pacer **ret, const struct pacer_options *o, int fd, int canary_dirfd);

/* No lane may be in one of its functions, and all peers are freed. NULL is accepted; returns
 * NULL. */
struct pacer *pacer_free(struct pacer *p);

/* Is there a disk to be watched? */
bool pacer_has_disks(const struct pacer *p);

/* What engine_options.pace takes. The pacer's, as long as it lives. */
const struct pace *pacer_pace(struct pacer *p);

/* Speed first: no limits until it is switched off again. Any thread. */
void pacer_urgent(struct pacer *p, bool on);

/* No lane will ask for anything until it is resumed: no samples are taken meanwhile. Any thread. */
void pacer_suspend(struct pacer *p, bool on);

/* Other bounds from now on, as in the options. Any thread. */
void pacer_limits(struct pacer *p, uint64_t latency_usec, uint64_t rate_min, uint64_t rate_max);

/* When the next flush at a job's end may be made, of CLOCK_MONOTONIC; 0: at any time. Any thread.
 */
uint64_t pacer_flush_from(struct pacer *p);

/* Another filesystem on these devices is deleted from, too: what that leaves is paid as well. Any
 * thread. */
void pacer_pay_for(struct pacer *p, const struct devices *d);

/* Another process, whose deletions this pacer did not see, has deleted so much there: what that
 * leaves is paid as well. Any thread. */
void pacer_owe(struct pacer *p, uint64_t entries, uint64_t bytes);

/* The canary's file goes into that directory from now on, which is only needed during the call; -1:
 * no canary, and nothing of the pacer keeps the filesystem from being unmounted. It takes place
 * soon afterwards. Any thread. */
void pacer_canary(struct pacer *p, int canary_dirfd);

/* What is deleted from now on is discarded as it goes. Any thread. */
void pacer_discards(struct pacer *p);

/* Was so much deleted that there is something to pay, and is it to be paid? Any thread. */
bool pacer_owes(struct pacer *p);

/* Waits until all that was deleted so far is paid (debt/payer.h), where that is known to matter and
 * can be paid, or *cancelled. Any thread but the pacer's. */
void pacer_settle(struct pacer *p, const _Atomic bool *cancelled);

/* The same without waiting: asks for it, and tells whether all is paid that was asked for. Any
 * thread. */
void pacer_settle_ask(struct pacer *p);
bool pacer_is_settled(struct pacer *p);

/* What is owed and was paid; all zero where nothing is paid. Any thread. */
void pacer_debt(struct pacer *p, struct payer_view *ret);

/* A step that trims free space: waits until it may begin, of at most so many bytes. False, and
 * nothing has begun, if *cancelled. Any thread but the pacer's; one step at a time. */
bool pacer_trim_begin(struct pacer *p, const _Atomic bool *cancelled, uint64_t *ret_bytes);
/* It has trimmed so many bytes in calls that took `cost_usec`. Waits until the device has done with
 * them, as the calls of some filesystems do not (XFS). Returns what the step took, this included.
 */
uint64_t pacer_trim_end(struct pacer *p, uint64_t bytes, uint64_t cost_usec);
/* The step goes on, and lanes do not wait for it any more. pacer_trim_end follows when it has
 * ended, or does not, if it never ends. */
void pacer_trim_release(struct pacer *p);

/* What has happened since it was made. Any thread. */
void pacer_totals(struct pacer *p, struct pacing_totals *ret);

/* What was counted since the last call is added to *to. Any thread. */
void pacer_hour(struct pacer *p, struct latency_hour *to);

/* What is known and decided now; the rates begin anew. Any thread. */
void pacer_snapshot(struct pacer *p, struct pacer_view *ret);

/* ---- peers: lanes of other processes, see include/pace-page.h ------------------------------- */

/* The other ends of its socket and page are the caller's, to be handed to that process. Returns 0
 * or a negative errno: -ENOMEM, or what making a socket, a page or a thread says. */
int pacer_peer_new(struct pacer *p, struct pacer_peer **ret, int *ret_sock, int *ret_page_fd);

/* Waits until it asks for nothing any more, which takes no longer than a slice. NULL is accepted;
 * returns NULL. */
struct pacer_peer *pacer_peer_free(struct pacer *p, struct pacer_peer *peer);
