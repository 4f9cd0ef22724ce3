/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sensors.h"

#include <sys/resource.h>

#include "base/fd.h"

/* 512-byte sectors this process has had read. */
static uint64_t own_sectors(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_SELF, &ru) < 0 ? 0 : (uint64_t)ru.ru_inblock;
}

/* Returns whether any disk says something. */
static bool disks_sample(const struct sensors *s, struct disk_sample *ret)
{
	struct disk_sample one;
	bool any = false;

	*ret = (struct disk_sample){ 0 };
	for (size_t i = 0; i < s->n_disks; i++)
		if (disk_sensor_sample(&s->disks[i], &one) == 0) {
			disk_sample_add(ret, &one);
			any = true;
		}
	return any;
}

bool sensors_sample(struct sensors *s, struct pacing_sample *ret)
{
	const struct devices *d = s->devices;
	struct canary_sample canary = { 0 };
	struct commit_sample commits;
	struct disk_sample sum;
	bool any = disks_sample(s, &sum);

	/* On btrfs an fsync goes to a log of its own and commits nothing else: foreign ones take
	 * nothing along. Where there are no figures, or none any more, they stand still. */
	if ((d->commit_kind == COMMIT_JBD2 || d->commit_kind == COMMIT_XFS) &&
	    commit_sample(d->commit_kind, d->commit_path, &commits) >= 0)
		s->last_commits = commits.commits;
	if (s->canary)
		canary_sample(s->canary, &canary);
	s->canary_gone = canary.gone;
	*ret = (struct pacing_sample){
		.now_usec = now_usec(),
		.own_sectors = own_sectors(),
		.reads = sum.reads,
		.read_sectors = sum.read_sectors,
		.read_usec = sum.read_msec * USEC_PER_MSEC,
		.discards = sum.discards,
		.discard_usec = sum.discard_msec * USEC_PER_MSEC,
		.flushes = sum.flushes,
		.flush_usec = sum.flush_msec * USEC_PER_MSEC,
		.requests = sum.reads + sum.writes + sum.flushes,
		.commits = s->last_commits,
		.in_flight = sum.in_flight,
		.canary_count = canary.count,
		.canary_usec = canary.last_usec,
		.canary_busy = canary.busy,
	};
	return any || s->n_disks == 0;
}

uint64_t sensors_discards(const struct sensors *s, uint64_t *ret_bytes)
{
	struct disk_sample sum;

	(void)disks_sample(s, &sum);
	*ret_bytes = sum.discard_sectors * 512;
	return sum.in_flight;
}

void sensors_open(struct sensors *s, const struct devices *devices, const char *sys,
		  int canary_dirfd)
{
	const struct blockdevs *b = &devices->b;
	bool loop = false;

	*s = (struct sensors){ .devices = devices };
	for (size_t i = 0; i < b->n; i++)
		loop |= b->v[i].top && b->v[i].backing_file;
	/* Foreign requests wait for the disks at the bottom, whatever is stacked upon them. But a
	 * loop device is the bottom to its filesystem: the file beneath it is read by a kernel
	 * thread, from the page cache, and nothing there tells which process' requests they are. */
	for (size_t i = 0; i < b->n; i++) {
		if (!(loop ? b->v[i].top : b->v[i].leaf) ||
		    disk_sensor_open(&s->disks[s->n_disks], sys, b->v[i].disk) < 0)
			continue;
		s->n_disks++;
		s->observed |= b->v[i].counts;
	}
	sensors_canary(s, canary_dirfd);
}

void sensors_canary(struct sensors *s, int canary_dirfd)
{
	s->canary = canary_free(s->canary);
	if (canary_dirfd >= 0 && s->n_disks > 0)
		(void)canary_new(&s->canary, canary_dirfd);
}

void sensors_close(struct sensors *s)
{
	s->canary = canary_free(s->canary);
	while (s->n_disks > 0)
		disk_sensor_close(&s->disks[--s->n_disks]);
}
