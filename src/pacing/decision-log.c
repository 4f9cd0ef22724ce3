/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "decision-log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/macros.h"

/* Below these factors a change is told with the next one: sizes move at the end of many quanta. */
#define SIZE_FACTOR 1.25
#define SHARE_FACTOR 1.1

static bool has_moved(double from, double to, double factor)
{
	return to > from * factor || from > to * factor;
}

static void tell_begin(const struct controller *c, const char *devices)
{
	const struct controller_options *o = &c->o;

	debug_log("pacing %s: begins %s: %s; latency bound %" PRIu64
		  " us (0: found out), at least %" PRIu64 " bytes/s, at most %" PRIu64
		  " (0: no limit)%s%s%s",
		  devices, pacing_mode_name(c->mode),
		  o->ignore_foreign  ? "other processes' I/O is not looked for"
		  : !o->observed     ? "the devices have no counters"
		  : o->presumed_busy ? "processes have waited for I/O in the last 10 s"
				     : "no process has waited for I/O in the last 10 s",
		  o->latency_usec, o->rate_min, o->rate_max, o->discards ? "; discards" : "",
		  o->reads_only ? "; reads only" : "", o->served ? "; a server" : "");
}

static void tell_mode(const struct controller *c, enum pacing_mode from, const char *devices)
{
	static const char *const signs[] = {
		"reads of other processes",
		"flushes",
		"time for a check",
	};
	const struct pacing_sample *then = &c->phase_start, *now = &c->last;
	char why[128] = "no request of other processes while ours rested";

	if (c->mode == PACING_CHECK)
		(void)snprintf(why, sizeof(why), "%s (%.1f requests lately)", signs[c->trigger],
			       c->activity[c->trigger]);
	if (c->mode == PACING_PACED)
		(void)snprintf(why, sizeof(why),
			       "%" PRIu64 " requests of other processes in %" PRIu64
			       " us while ours rested, %" PRIu64 " in flight",
			       now->requests - then->requests, now->now_usec - then->now_usec,
			       now->in_flight);
	debug_log("pacing %s: %s -> %s: %s", devices, pacing_mode_name(from),
		  pacing_mode_name(c->mode), why);
}

static void tell_size(const struct decision_log *d, const struct pacing_view *v, const char *why,
		      const char *devices, uint64_t cost_usec)
{
	debug_log("pacing %s: %squantum %" PRIu64 " entries, %" PRIu64 " bytes, costs %" PRIu64
		  " us of %" PRIu64 " us (the last one %" PRIu64
		  " us); share %.2f; reads of other processes take %" PRIu64
		  " us while we work, %" PRIu64 " us while we rest%s",
		  devices, why, v->entries, v->bytes, v->quantum_usec, v->target_usec, cost_usec,
		  v->share, v->read_burst_usec, v->read_quiet_usec,
		  v->piggyback == d->piggyback ? ""
		  : v->piggyback ? "; other processes commit often: goes along with their commits"
				 : "; syncs by itself again");
}

void decision_log_update(struct decision_log *d, const struct controller *c, const char *devices,
			 uint64_t cost_usec)
{
	const uint64_t *backoffs = c->totals.backoffs;
	const char *why = NULL;
	struct pacing_view v;

	if (!debug_enabled)
		return;
	controller_view(c, &v);
	if (!d->begun)
		tell_begin(c, devices);
	else if (c->mode != d->mode)
		tell_mode(c, d->mode, devices);
	if (v.urgent != d->urgent)
		debug_log("pacing %s: %s", devices,
			  v.urgent ? "speed first: no limits until that ends"
				   : "speed first has ended");
	if (backoffs[BACKOFF_DISCARD] != d->backoffs[BACKOFF_DISCARD])
		debug_log("pacing %s: backoff: a discard took longer than a quantum may (%" PRIu64
			  " us): rest until %" PRIu64 " us from now",
			  devices, v.target_usec,
			  c->discard_cooldown_until_usec - c->last.now_usec);
	if (backoffs[BACKOFF_READS] != d->backoffs[BACKOFF_READS])
		why = "backoff: other processes' reads are slower while we work: ";
	else if (backoffs[BACKOFF_QUANTUM] != d->backoffs[BACKOFF_QUANTUM])
		why = "backoff: quanta cost too much: ";
	else if (c->mode != d->mode ||
		 has_moved((double)d->entries, (double)v.entries, SIZE_FACTOR) ||
		 has_moved((double)d->bytes, (double)v.bytes, SIZE_FACTOR) ||
		 has_moved(d->share, v.share, SHARE_FACTOR) || v.piggyback != d->piggyback)
		why = "";
	if (why && c->mode == PACING_PACED)
		tell_size(d, &v, why, devices, cost_usec);
	if (why) {
		d->entries = v.entries;
		d->bytes = v.bytes;
		d->share = v.share;
		d->piggyback = v.piggyback;
	}
	memcpy(d->backoffs, backoffs, sizeof(d->backoffs));
	d->mode = c->mode;
	d->urgent = v.urgent;
	d->begun = true;
}
