/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "decision-log.h"

#include <inttypes.h>
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

static void tell_begin(struct decision_log *d, const struct controller *c, const char *devices)
{
	const struct controller_options *o = &c->o;

	d->begun = true;
	d->mode = c->mode;
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

static void tell_mode(struct decision_log *d, const struct controller *c, const char *devices)
{
	static const char *const signs[] = {
		"reads of other processes",
		"flushes",
		"time for a check",
	};
	const struct pacing_sample *from = &c->phase_start, *s = &c->last;

	switch (c->mode) {
	case PACING_FAST:
		debug_log("pacing %s: %s -> fast: no request of other processes while ours rested",
			  devices, pacing_mode_name(d->mode));
		break;
	case PACING_CHECK:
		debug_log("pacing %s: %s -> check: %s (%.1f requests lately)", devices,
			  pacing_mode_name(d->mode), signs[c->trigger], c->activity[c->trigger]);
		break;
	case PACING_PACED:
		debug_log("pacing %s: %s -> paced: %" PRIu64
			  " requests of other processes in %" PRIu64
			  " us while ours rested, %" PRIu64 " in flight; quantum %" PRIu64
			  " entries, %" PRIu64 " bytes; share %.2f",
			  devices, pacing_mode_name(d->mode), s->requests - from->requests,
			  s->now_usec - from->now_usec, s->in_flight, c->entries.limit,
			  c->bytes.limit, c->share);
		break;
	}
	d->mode = c->mode;
}

/* Returns whether there was a backoff to be told. The one to paced mode is a change of the mode. */
static bool tell_backoff(struct decision_log *d, const struct controller *c, const char *devices,
			 const struct pacing_view *v, uint64_t cost_usec)
{
	const uint64_t *now = c->totals.backoffs;
	bool reads = now[BACKOFF_READS] != d->backoffs[BACKOFF_READS];
	bool size = now[BACKOFF_QUANTUM] != d->backoffs[BACKOFF_QUANTUM];
	bool discard = now[BACKOFF_DISCARD] != d->backoffs[BACKOFF_DISCARD];

	memcpy(d->backoffs, now, sizeof(d->backoffs));
	if (reads)
		debug_log("pacing %s: backoff: reads of other processes take %" PRIu64
			  " us while we work, %" PRIu64 " us while we rest: share %.2f -> %.2f",
			  devices, v->read_burst_usec, v->read_quiet_usec, d->share, v->share);
	if (size)
		debug_log("pacing %s: backoff: quanta cost more than %" PRIu64
			  " us (the last one %" PRIu64 " us): %" PRIu64 " -> %" PRIu64
			  " entries, %" PRIu64 " -> %" PRIu64 " bytes",
			  devices, v->target_usec, cost_usec, d->entries, v->entries, d->bytes,
			  v->bytes);
	if (discard)
		debug_log("pacing %s: backoff: a discard took longer than a quantum may (%" PRIu64
			  " us): rest until %" PRIu64 " us from now",
			  devices, v->target_usec,
			  c->discard_cooldown_until_usec - c->last.now_usec);
	return reads || size;
}

static void tell_change(const struct decision_log *d, const char *devices,
			const struct pacing_view *v)
{
	debug_log("pacing %s: quantum %" PRIu64 " entries, %" PRIu64 " bytes, costs %" PRIu64
		  " us of %" PRIu64 " us; share %.2f%s",
		  devices, v->entries, v->bytes, v->quantum_usec, v->target_usec, v->share,
		  v->piggyback == d->piggyback ? ""
		  : v->piggyback ? "; other processes commit often: goes along with their commits"
				 : "; syncs by itself again");
}

void decision_log_update(struct decision_log *d, const struct controller *c, const char *devices,
			 uint64_t cost_usec)
{
	struct pacing_view v;
	bool backoff, changed;

	if (!debug_enabled)
		return;
	controller_view(c, &v);
	if (!d->begun)
		tell_begin(d, c, devices);
	if (v.urgent != d->urgent)
		debug_log("pacing %s: %s", devices,
			  v.urgent ? "speed first: no limits until that ends"
				   : "speed first has ended");
	d->urgent = v.urgent;
	if (c->mode != d->mode)
		tell_mode(d, c, devices);
	backoff = tell_backoff(d, c, devices, &v, cost_usec);
	changed = has_moved((double)d->entries, (double)v.entries, SIZE_FACTOR) ||
		  has_moved((double)d->bytes, (double)v.bytes, SIZE_FACTOR) ||
		  has_moved(d->share, v.share, SHARE_FACTOR) || v.piggyback != d->piggyback;
	if (!backoff && !changed)
		return;
	if (!backoff && c->mode == PACING_PACED)
		tell_change(d, devices, &v);
	d->entries = v.entries;
	d->bytes = v.bytes;
	d->share = v.share;
	d->piggyback = v.piggyback;
}
