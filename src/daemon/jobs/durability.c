/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "durability.h"

#include <assert.h>
#include <errno.h>

#include "daemon/context/timer.h"
#include "schedule.h"
#include "base/fd.h"

/* So long a flush lingers for jobs that end soon: of small ones some ten do. */
#define LINGER_USEC (50 * USEC_PER_MSEC)

static void flush_next(struct staging_area *area);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	flush_next(userdata);
	return 0;
}

/* Returns false if it cannot wait. */
static bool arm(struct staging_area *area, uint64_t usec)
{
	return timer_at(area->submitters->context->event, &area->flush.timer, CLOCK_MONOTONIC, usec,
			USEC_PER_MSEC, on_timer, area, "flush") >= 0;
}

static void on_flushed(int r, void *userdata)
{
	struct staging_area *area = userdata;
	struct flush_group *g = &area->flush;
	struct unflushed *u;

	g->under_way = false;
	/* The worker was replaced by another one, which can do it as well. It may be about to be
	 * freed yet. */
	if (r == -ECANCELED && !area->submitters->context->stopping && arm(area, 0)) {
		STAILQ_CONCAT(&g->covered, &g->waiting);
		STAILQ_CONCAT(&g->waiting, &g->covered);
		g->n = 0;
		STAILQ_FOREACH(u, &g->waiting, link)
			g->n++;
		g->urgent = true;
		return;
	}
	/* With its last job the staging area would go. */
	staging_area_use(area);
	while ((u = STAILQ_FIRST(&g->covered))) {
		STAILQ_REMOVE_HEAD(&g->covered, link);
		u->is_waiting = false;
		u->flushed(u, r);
	}
	flush_next(area);
	staging_area_release(area);
}

static int request_flush(struct staging_area *area, struct unflushed *last)
{
	const char *names[WORKER_FLUSH];
	struct worker *w = area->deleter;
	struct unflushed *u;
	size_t n = 0;
	/* One that is at work is not replaced here. */
	int r = w ? 0 : staging_area_deleter(area, last->job->submitter, &w);

	STAILQ_FOREACH(u, &area->flush.covered, link)
		names[n++] = u->job->uuid_text;
	return r < 0 ? r : worker_flush(w, area->staging_fd, names, n, on_flushed, area);
}

static void flush_begin(struct staging_area *area)
{
	struct flush_group *g = &area->flush;
	struct unflushed *u = NULL;
	struct jobs *jobs;
	int r;

	for (size_t i = 0; i < WORKER_FLUSH && g->n > 0; i++, g->n--) {
		u = STAILQ_FIRST(&g->waiting);
		STAILQ_REMOVE_HEAD(&g->waiting, link);
		STAILQ_INSERT_TAIL(&g->covered, u, link);
	}
	g->urgent = false;
	g->under_way = true;
	assert(u);
	jobs = u->job->jobs;
	r = request_flush(area, u);
	if (r < 0)
		on_flushed(r, area);
	schedule_kick(jobs);
}

/* Have they any company to wait for? */
static bool has_more(const struct staging_area *area)
{
	bool more = area->running;

	for (size_t i = 0; i < PRIORITIES; i++)
		more = more || !TAILQ_EMPTY(&area->queues[i]);
	return more;
}

/* When the next flush is to be made. */
static uint64_t from_usec(const struct staging_area *area)
{
	const struct flush_group *g = &area->flush;
	uint64_t linger = has_more(area) ? g->since_usec + LINGER_USEC : 0;

	if (g->urgent || staging_area_flush_is_full(area))
		return 0;
	return MAX(linger, area->deleter ? worker_flush_from(area->deleter) : 0);
}

static void flush_next(struct staging_area *area)
{
	struct flush_group *g = &area->flush;
	uint64_t from;

	if (g->under_way || g->n == 0)
		return;
	from = from_usec(area);
	if (from <= now_usec() || !arm(area, from))
		flush_begin(area);
}

void flush_wait_for(struct unflushed *u, bool urgent)
{
	struct staging_area *area = u->job->area;
	struct flush_group *g = &area->flush;
	struct jobs *jobs = u->job->jobs;

	schedule_leave(u->job);
	u->is_waiting = true;
	if (g->n++ == 0)
		g->since_usec = now_usec();
	STAILQ_INSERT_TAIL(&g->waiting, u, link);
	g->urgent = g->urgent || urgent;
	schedule_kick(jobs);
	flush_next(area);
}

void flush_now(struct staging_area *area)
{
	area->flush.urgent = true;
	/* Not in this call, whose caller does not expect an answer yet. */
	(void)arm(area, 0);
}

void flush_give_up(struct staging_area *area)
{
	area->flush.urgent = true;
	flush_next(area);
}
