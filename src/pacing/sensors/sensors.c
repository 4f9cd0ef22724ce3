/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sensors.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "device-set.h"
#include "base/fd.h"
#include "base/macros.h"

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
	struct commit_sample commits;
	struct canary_sample cs;
	struct disk_sample sum;
	bool any = disks_sample(s, &sum);

	/* Where there are none, or none any more, they stand still. */
	if (s->commits.fd >= 0 && commit_sensor_sample(&s->commits, &commits) >= 0)
		s->last_commits = commits.commits;
	*ret = (struct pacing_sample){
		.own_sectors = own_sectors(),
		.reads = sum.reads,
		.read_sectors = sum.read_sectors,
		.read_usec = sum.read_msec * USEC_PER_MSEC,
		.discards = sum.discards,
		.discard_usec = sum.discard_msec * USEC_PER_MSEC,
		.flushes = sum.flushes,
		.requests = sum.reads + sum.writes + sum.flushes,
		.commits = s->last_commits,
		.in_flight = sum.in_flight,
	};
	if (s->canary) {
		canary_sample(s->canary, &cs);
		ret->canary_count = cs.count;
		ret->canary_usec = cs.last_usec;
		ret->canary_busy = cs.started_usec != 0;
		s->canary_gone = cs.gone;
	}
	ret->now_usec = now_usec();
	return any || s->n_disks == 0;
}

uint64_t sensors_discards(const struct sensors *s, uint64_t *ret_bytes)
{
	struct disk_sample sum;

	(void)disks_sample(s, &sum);
	*ret_bytes = sum.discard_sectors * 512;
	return sum.in_flight;
}

/* Foreign requests wait for the disks at the bottom, whatever is stacked upon them. But a loop
 * device is the bottom to its filesystem: the file beneath it is read by a kernel thread, from the
 * page cache, and nothing there tells which process' requests they are. */
static bool is_sampled(const struct devices *d, const struct blockdev *b)
{
	for (size_t i = 0; i < d->b.n; i++)
		if (d->b.v[i].top && d->b.v[i].backing_file)
			return b->top;
	return b->leaf;
}

static int disks_open(struct sensors *s, const struct devices *d, const char *sys)
{
	char path[128];

	s->disks = calloc(MAX(d->b.n, (size_t)1), sizeof(*s->disks));
	if (!s->disks)
		return -ENOMEM;
	for (size_t i = 0; i < d->b.n; i++) {
		const struct blockdev *b = &d->b.v[i];

		if (!is_sampled(d, b))
			continue;
		blockdev_stat_path(sys, b->disk, path, sizeof(path));
		if (disk_sensor_open(&s->disks[s->n_disks], path) < 0)
			continue;
		s->observed |= disk_sensor_counts(&s->disks[s->n_disks]);
		s->n_disks++;
	}
	return 0;
}

/* On btrfs an fsync goes to a log of its own and commits nothing else: foreign ones take nothing
 * along. */
static void commits_open(struct sensors *s, const struct devices *d)
{
	if (d->commit_kind == COMMIT_JBD2 || d->commit_kind == COMMIT_XFS)
		(void)commit_sensor_open(&s->commits, d->commit_kind, d->commit_path);
}

int sensors_open(struct sensors *s, const struct devices *d, const char *sys, int canary_dirfd)
{
	int r = disks_open(s, d, sys);

	if (r < 0)
		return r;
	commits_open(s, d);
	if (canary_dirfd >= 0 && s->n_disks > 0)
		(void)canary_new(&s->canary, canary_dirfd);
	return 0;
}

void sensors_close(struct sensors *s)
{
	canary_free(s->canary);
	commit_sensor_close(&s->commits);
	for (size_t i = 0; i < s->n_disks; i++)
		disk_sensor_close(&s->disks[i]);
	free(s->disks);
	*s = SENSORS_INIT;
}
