/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all parts of the daemon work with: the event loop, the configuration, the store, and how the
 * daemon ends. Everything here belongs to the thread of the event loop; only the store's queue, the
 * pacers and their threads live beside it. What a part has of its own is not here. */
#pragma once

#include <systemd/sd-event.h>

#include "base/lock-holder.h"
#include "base/mounts.h"
#include "store/store-queue.h"

struct config;
struct pacers;

/* What happens, told to the buses. A callback that is NULL is not called. Records live during the
 * call. */
struct listener {
	void (*job_new)(const struct job_record *r, void *userdata);
	/* State changes at once; progress at most every half second for a job. */
	void (*job_changed)(const struct job_record *r, void *userdata);
	void (*job_finished)(const struct job_record *r, void *userdata);
	/* A name is about to be put back where it was; kept: because it could not be deleted. */
	void (*name_returns)(const struct job_record *r, const struct lasting_identity *id,
			     bool kept, void *userdata);
	/* A property of the daemon itself: "Paused", "Orphans", "StoreError", ... (static). */
	void (*daemon_changed)(const char *property, void *userdata);
	void *userdata;
	struct listener *next; /* the context's */
};

struct daemon_options {
	const char *state_dir, *runtime_dir, *config_dir, *worker_program;
	const char *reclaimctl; /* runs policies where there are no units */
	bool no_bus;
	const char *const *features; /* NULL-terminated */
};

/* What becomes of the job store (store-health.c). */
struct store_health {
	char *error; /* in words, or NULL: it works */
	sd_event_source *timer;
	/* Changes that the store refused are to be posted again; it works again. */
	void (*retry)(void *userdata);
	void (*recovered)(void *userdata);
	void *userdata;
};

struct context {
	struct daemon_options o;
	sd_event *event;
	struct config *config;
	char *configuration_error; /* what is wrong with the files, or NULL */
	struct store_queue *store;
	struct store_health health;
	struct pacers *pacers;
	struct listener *listeners;
	char holder[HOLDER_SIZE]; /* what this daemon is named where several daemons meet */
	int worker_fd;            /* reclaim-worker, as it was when the daemon began; -1: none */
	char *worker_program;
	struct mounts mounts; /* of our namespace; empty until asked for */
	bool stopping;        /* nothing new is begun */
	bool ended;           /* no more workers are started */
	unsigned flows;       /* what must come to an end before the daemon does */
};

/* Something that must not be cut short begins or ends. With the last one the loop ends, if the
 * daemon stops. */
void context_flow_begins(struct context *c);
void context_flow_ends(struct context *c);

/* The mount table, read again if it has changed since (context_mounts_changed). NULL if it cannot
 * be read. It lives until the next turn of the loop. */
const struct mounts *context_mounts(struct context *c);
/* Is what fd was opened through mounted still, or was it detached (umount -l)? No filesystem is
 * asked. True where that cannot be told. */
bool context_is_mounted(struct context *c, int fd);
void context_mounts_changed(struct context *c);

/* Microseconds of CLOCK_REALTIME, as records have them. */
uint64_t context_clock(void);

/* How far that is from CLOCK_BOOTTIME, which is never set: it changes when the wall clock is. In
 * microseconds. */
int64_t context_clock_offset(void);

/* What the store answered last: 0 or a negative errno. -ENOENT and -ESTALE say nothing of the store
 * itself. While it fails it is tried again each second. */
void store_says(struct context *c, int r);
/* Reads or makes the name of this daemon (holder). Returns 0 or a negative errno. */
int store_name_holder(struct context *c, struct store *s);
/* Opens the store in the state directory, and waits while there is no room in it. Returns 0, or a
 * negative errno, which has been logged; -ECANCELED if it is to end instead. */
int store_open_patiently(struct context *c, struct store **ret);

/* l is the caller's, and stays where it is until listener_remove. */
void listener_add(struct context *c, struct listener *l);
/* One that was never added is accepted. */
void listener_remove(struct context *c, struct listener *l);

void tell_job_new(struct context *c, const struct job_record *r);
void tell_job_changed(struct context *c, const struct job_record *r);
void tell_job_finished(struct context *c, const struct job_record *r);
void tell_name_returns(struct context *c, const struct job_record *r,
		       const struct lasting_identity *id, bool kept);
void tell_daemon_changed(struct context *c, const char *property);
