/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ends of a place's jobs, made durable together.
 *
 *   a run's last names are gone  ->  it waits here, and the place's next job may begin
 *   one flush at a time, by the worker that deletes; it begins after all it is for have ended, and
 *   those that end meanwhile wait for the next one
 *   durable  ->  each is recorded and reported;  in vain  ->  each is tried again
 *
 * A job that ends alone is flushed at once. While the place has other jobs, its flush lingers a
 * little for them; and while somebody else uses the device, flushes are as far apart as its
 * controller wants (controller.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct place;
struct run;

STAILQ_HEAD(run_list, run);

struct flush_group {
	struct run_list waiting, covered; /* covered: by the flush that is under way */
	unsigned n;                       /* that wait */
	uint64_t since_usec;              /* the first of them */
	bool hurry, under_way;
	sd_event_source *timer;
};

/* Its worker says that its names are gone, and not durably. Ends in run_flushed. */
void flush_wait_for(struct run *run);
/* So many wait that the next job has to. */
bool flush_is_full(const struct place *p);
/* Somebody waits for one of them to stop: lingers no longer. */
void flush_hurry(struct place *p);
/* reclaimd ends: they are handed back in this call. No flush may be under way. */
void flush_give_up(struct place *p);
void flush_init(struct place *p);
void flush_done(struct place *p);
