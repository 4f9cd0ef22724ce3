/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ends of a staging area's jobs, made durable together.
 *
 *   a run's last names are gone  ->  it waits here, and its staging area's next job may begin
 *   one flush at a time, by the worker that deletes; it begins after all it is for have ended, and
 *   those that end meanwhile wait for the next one
 *   durable  ->  each is recorded and reported;  in vain  ->  each is tried again
 *
 * A job that ends alone is flushed at once. While the staging area has other jobs, its flush
 * lingers a little for them; and while other processes use the device, flushes are as far apart as
 * its controller wants (controller.h). */
#pragma once

#include "job.h"

/* A job that waits: part of its run. */
struct unflushed {
	STAILQ_ENTRY(unflushed) link;
	struct job *job;
	bool is_waiting;
	/* It is durable, or (r < 0) may never be. */
	void (*flushed)(struct unflushed *u, int r);
};

/* Its worker says that its names are gone, and not durably; job and flushed are set. The area may
 * begin with another job. urgent: it is waited for. */
void flush_wait_for(struct unflushed *u, bool urgent);
/* One of them is waited for: lingers no longer. */
void flush_now(struct staging_area *area);
/* reclaimd ends: they are handed back in this call. No flush may be under way. */
void flush_give_up(struct staging_area *area);
