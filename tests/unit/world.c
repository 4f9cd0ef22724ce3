/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "world.h"

#define WORK 200ULL /* what the calls of a slice take */

const struct controller_options automatic = { .rate_min = MiB(8), .observed = true };
const struct controller_options cautious = { .rate_min = MiB(8),
					     .observed = true,
					     .presumed_busy = true };
const struct device solid = {
	.sync_usec = 1 * MSEC, .byte_usec = 0.5 * MSEC / MiB(8), .entry_usec = 2, .read_usec = 400
};

struct device with_reads(struct device d, uint64_t per_sec)
{
	d.reads_per_sec = per_sec;
	return d;
}

void world_init(struct world *w, const struct controller_options *o, struct device d)
{
	*w = (struct world){ .d = d, .now = 1000 * MSEC };
	w->sample_at = w->read_at = w->flush_at = w->commit_at = w->now;
	w->s.now_usec = w->now;
	controller_init(&w->c, o, w->now);
}

static void foreign_io(struct world *w)
{
	for (; w->d.commits_per_sec > 0 && w->commit_at <= w->now;
	     w->commit_at += USEC_PER_SEC / w->d.commits_per_sec) {
		w->s.commits++;
		w->s.flushes++;
		w->s.requests += 2;
	}
	for (; w->d.flushes_per_sec > 0 && w->flush_at <= w->now;
	     w->flush_at += USEC_PER_SEC / w->d.flushes_per_sec) {
		w->s.flushes++;
		w->s.flush_usec += w->d.flush_usec;
		w->s.requests += 2;
	}
	if (w->d.reads_per_sec == 0)
		return;
	while (w->read_at <= w->now) {
		bool hurt = w->working || w->syncing;

		w->s.reads++;
		w->s.requests++;
		w->s.read_sectors += 8;
		w->s.read_usec += (uint64_t)((double)w->d.read_usec * (hurt ? 1 + w->d.suffer : 1));
		w->read_at += USEC_PER_SEC / w->d.reads_per_sec;
	}
}

static void look(struct world *w)
{
	if (w->s.canary_busy && w->now >= w->canary_until) {
		w->s.canary_busy = false;
		w->s.canary_count++;
		w->s.canary_usec = w->d.sync_usec;
		w->s.requests += 3;
		w->s.flushes++;
		w->s.flush_usec += w->d.flush_usec > 0 ? w->d.sync_usec : 0;
		w->s.commits++;
	}
	if (w->now < w->sample_at)
		return;
	w->s.now_usec = w->now;
	w->sample_at = controller_sample(&w->c, &w->s);
	if (controller_wants_canary(&w->c)) {
		w->s.canary_busy = true;
		w->canary_until = w->now + w->d.sync_usec;
	}
}

/* Slices of up to 100 entries, or of 64 MiB of a file; of a scan, of neither. */
static void slice_choose(struct world *w, const struct pacing_grant *g)
{
	w->slice_entries = w->by_entries ? MIN(g->entries, 100ULL) : 0;
	w->slice_bytes = w->by_entries ? w->slice_entries * KiB(8) : MIN(g->bytes, MiB(64));
	if (w->c.o.reads_only)
		w->slice_entries = w->slice_bytes = 0;
}

/* One lane. */
static void lane(struct world *w)
{
	struct pacing_grant g;

	if (w->now < w->busy_until)
		return;
	if (w->syncing) {
		w->syncing = false;
		w->s.requests += 2;
		w->s.flushes++;
		w->s.commits++;
		w->syncs++;
		controller_synced(&w->c, w->now, w->now - w->sync_from);
	}
	if (w->working) {
		w->working = false;
		w->worked_usec += WORK;
		w->entries += w->slice_entries;
		w->bytes += w->slice_bytes;
		if (controller_spent(&w->c, w->now, w->slice_entries, w->slice_bytes, WORK)) {
			w->syncing = true;
			w->sync_from = w->now;
			w->busy_until = w->now + w->d.sync_usec +
					(uint64_t)(w->d.byte_usec * (double)w->c.bytes.used +
						   w->d.entry_usec * (double)w->c.entries.used);
			return;
		}
	}
	g = controller_next(&w->c, w->now);
	if (g.not_before_usec > w->now) {
		w->waited_usec += STEP;
		return;
	}
	slice_choose(w, &g);
	w->working = true;
	w->busy_until = w->now + WORK;
	w->s.own_sectors += w->d.own_sectors;
	w->s.read_sectors += w->d.own_sectors;
	w->s.reads += w->d.own_sectors / 8;
	w->s.requests += w->d.own_sectors / 8;
	controller_begin(&w->c);
}

void world_pass(struct world *w, uint64_t usec)
{
	for (uint64_t end = w->now + usec; w->now < end; w->now += STEP) {
		foreign_io(w);
		look(w);
		lane(w);
		w->fast_usec += w->c.mode == PACING_FAST ? STEP : 0;
	}
}
