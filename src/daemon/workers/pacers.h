/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One pacer for each set of devices on which something is being deleted, shared by all workers
 * there; made when the first begins and freed when the last has ended, so that an idle daemon
 * samples nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "pacing/pacer.h"

/* So many sets of devices are remembered, and so much of their names. */
#define PACERS_PAST_MOST 64
#define PACERS_KEY_MAX 256

struct config;
struct pacers;
struct paced; /* one worker's part of it */

int pacers_new(struct pacers **ret);
/* Everything must have been detached. NULL is accepted. */
struct pacers *pacers_free(struct pacers *p);

/* What applies from now on, also to devices that are in use, except whether they are paced at all.
 * The configuration must live until the next call; NULL: the defaults. */
void pacers_configure(struct pacers *p, const struct config *c);

/* What the configuration names by a mount point may be on other devices now. */
void pacers_mounts_changed(struct pacers *p);

/* From now on no job goes faster than so many bytes a second anywhere, nor faster than it does by
 * the configuration; UINT64_MAX: as that says. */
void pacers_window(struct pacers *p, uint64_t rate);

/* So many other hosts of the fleet delete on the filesystem that is mounted there: its max-rate is
 * divided by their number and this one. At first there are none; with this one, more than
 * PACERS_HOSTS_MOST are not counted, so that no database brings a job to a halt. Kept as long as
 * the configuration has that filesystem. */
#define PACERS_HOSTS_MOST 64
void pacers_others(struct pacers *p, const char *mount, uint64_t others);

/* Another process will delete on the filesystem that fd is on; canary_dirfd is a directory there in
 * which nameless files may be made, or -1. *ret_sock and *ret_page_fd are for that process, and the
 * caller's. *ret is NULL, and 0 returned, where nothing is to be paced, as is configured.
 */
int pacers_attach(struct pacers *p, int fd, int canary_dirfd, bool discards, struct paced **ret,
		  int *ret_sock, int *ret_page_fd);
/* The process has ended, or is to be given nothing more. NULL is accepted; returns NULL. */
struct paced *pacers_detach(struct paced *d);

/* No more slices are granted to it, or again. */
void paced_stop(struct paced *d, bool stop);
/* It does nothing for the time being, or again: while none of those on its devices does anything,
 * these are not looked at. */
void paced_suspend(struct paced *d, bool on);
/* Speed wins over latency on its devices, or not any more as far as this one is concerned; so it
 * does while any of those there ask for it. Over with pacers_detach. */
void paced_urgent(struct paced *d, bool on);
/* When the next flush at a job's end may be made there (controller.h); 0: at any time. */
uint64_t paced_flush_from(const struct paced *d);
/* What was deleted there leaves something to be written back later (pacing/debt/payer.h): a hold on
 * the devices, so that it can be paid after its worker has ended. */
struct debt_hold;

/* Returns 0 or -ENOMEM. */
int debt_hold_new(struct debt_hold **ret, struct paced *d);
/* The same where another process, which is no worker, says that it has deleted so much on the
 * filesystem that fd is on. Returns 1, or 0 and *ret NULL where nothing is to be paid; or a
 * negative errno: -ENOMEM, or what finding the devices says. */
int debt_hold_new_for(struct debt_hold **ret, struct pacers *p, int fd, uint64_t entries,
		      uint64_t bytes);
/* All that was deleted there so far is to be paid now. */
void debt_hold_settle(struct debt_hold *h);
/* Is it, or can it not be? */
bool debt_hold_is_settled(const struct debt_hold *h);
/* How many bytes are still to be written back on these devices, as of the last look. */
uint64_t debt_hold_owed(const struct debt_hold *h);
/* NULL is accepted; returns NULL. */
struct debt_hold *debt_hold_free(struct debt_hold *h);

/* What it says it has removed and freed so far. */
void paced_progress(const struct paced *d, uint64_t *ret_entries, uint64_t *ret_bytes);

/* What has happened on a set of devices since the daemon was started, whether it is in use or not.
 */
struct device_totals {
	char key[PACERS_KEY_MAX]; /* "8:0+8:16" */
	struct pacing_totals totals;
};

/* Of those that were paced at all. Returns how many are filled, at most n. */
size_t pacers_totals(const struct pacers *p, struct device_totals *ret, size_t n);

/* What requests of one kind took in one minute on a set of devices, while something was deleted
 * there, or in the gaps between. */
struct device_latency {
	const char *key, *of;
	bool deleting;
	uint64_t begin_usec;                  /* of the minute, CLOCK_REALTIME */
	uint64_t count, half_usec, most_usec; /* as in struct latency_figures */
};

/* Those of the last hour: calls `each` for one after the other, until that returns a negative
 * errno. Returns that, or 0. */
typedef int (*device_latency_t)(const struct device_latency *l, void *userdata);
int pacers_latencies(struct pacers *p, device_latency_t each, void *userdata);

/* All that something is done on, for the device objects of the API: the texts live until the next
 * call of anything here. Returns how many there are; at most n views are filled. */
size_t pacers_list(struct pacers *p, struct pacer_view *views, size_t n);
