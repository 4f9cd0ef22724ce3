/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors say, for programs; the keys are described in devices.c. */
#include <stdio.h>
#include <sys/sysmacros.h>

#include "device-snapshot.h"
#include "ctl/output/messages.h"

#define SECTOR 512

static json_t *number_or_null(bool known, uint64_t n)
{
	return known ? json_integer((json_int_t)n) : json_null();
}

static json_t *text_or_null(const char *s)
{
	return s && s[0] ? json_path(s) : json_null();
}

static json_t *operation_json(uint64_t count, uint64_t sectors, uint64_t msec)
{
	return json_pack("{sIsIsI}", "count", (json_int_t)count, "bytes",
			 (json_int_t)sectors * SECTOR, "total_msec", (json_int_t)msec);
}

static json_t *sample_json(const struct snapshot_disk *d, const struct disk_sample *s)
{
	json_t *flush = d->sensor.has_flushes ? json_pack("{sIsI}", "count", (json_int_t)s->flushes,
							  "total_msec", (json_int_t)s->flush_msec)
					      : json_null();
	json_t *discard = d->sensor.has_discards
				  ? operation_json(s->discards, s->discard_sectors, s->discard_msec)
				  : json_null();

	return json_pack("{sososososIsI}", "read",
			 operation_json(s->reads, s->read_sectors, s->read_msec), "write",
			 operation_json(s->writes, s->write_sectors, s->write_msec), "flush", flush,
			 "discard", discard, "busy_msec", (json_int_t)s->busy_msec, "in_flight",
			 (json_int_t)s->in_flight);
}

static json_t *disk_json(const struct device_snapshot *l, const struct snapshot_disk *d)
{
	const struct blockdev *of = d->of;
	dev_t dev = d->whole ? of->disk : of->dev;
	bool now = d->present && l->span_usec > 0;
	char number[24];

	(void)snprintf(number, sizeof(number), "%u:%u", major(dev), minor(dev));
	return json_pack("{sosssbsbsbsbsIsosbsoso}", "name",
			 json_path(d->whole ? of->disk_name : of->name), "number", number, "top",
			 (int)(of->top && !d->whole), "leaf", (int)of->leaf, "whole_disk",
			 (int)d->whole, "rotating", (int)of->rotating, "discard_max_bytes",
			 (json_int_t)of->discard_max_bytes, "backing_file",
			 d->whole || !of->backing_file ? json_null() : json_path(of->backing_file),
			 "counts", (int)(d->present && of->counts), "boot",
			 d->present ? sample_json(d, &d->boot) : json_null(), "now",
			 now ? sample_json(d, &d->span) : json_null());
}

static json_t *commits_json(const struct device_snapshot *l)
{
	const struct commit_sample *c = &l->commits;
	/* Fewer than before: mounted anew meanwhile. */
	uint64_t count = c->commits - MIN(c->commits, l->commits_before.commits);
	bool xfs = l->d.commit_kind == COMMIT_XFS, btrfs = l->d.commit_kind == COMMIT_BTRFS;

	if (!l->has_commits)
		return json_null();
	return json_pack(
		"{sssIsosososososo}", "kind", commit_kind_name(l->d.commit_kind), "count",
		(json_int_t)c->commits, "recent_usec", number_or_null(!xfs, c->recent_usec),
		"total_usec", number_or_null(btrfs, c->total_usec), "max_usec",
		number_or_null(btrfs, c->max_usec), "log_writes",
		number_or_null(xfs, c->log_writes), "log_bytes",
		number_or_null(xfs, c->log_sectors * SECTOR), "now",
		l->span_usec > 0 ? json_pack("{sI}", "count", (json_int_t)count) : json_null());
}

static json_t *pressure_json(const struct device_snapshot *l)
{
	const struct pressure_sample *p = &l->pressure, *before = &l->pressure_before;
	json_t *now = json_null();

	if (!l->has_pressure)
		return json_null();
	if (l->span_usec > 0)
		now = json_pack("{sIsI}", "some_usec",
				(json_int_t)(p->some_usec - before->some_usec), "full_usec",
				(json_int_t)(p->full_usec - before->full_usec));
	return json_pack("{sIsIso}", "some_usec", (json_int_t)p->some_usec, "full_usec",
			 (json_int_t)p->full_usec, "now", now);
}

json_t *device_snapshot_json(const struct device_snapshot *l)
{
	json_t *disks = json_array();

	for (size_t i = 0; i < l->n_disks; i++)
		(void)json_array_append_new(disks, disk_json(l, &l->disks[i]));
	return json_pack("{sos{soso}sososIsosososo}", "path", json_path(l->path), "filesystem",
			 "type", text_or_null(l->d.type), "upper_type",
			 text_or_null(l->d.upper_type), "key", json_path(l->d.key), "none",
			 l->d.none ? json_string(l->d.none) : json_null(), "span_usec",
			 (json_int_t)l->span_usec, "devices", disks, "commits", commits_json(l),
			 "pressure", pressure_json(l), "discard_setup",
			 l->n_disks > 0 ? discard_setup_json(&l->discards) : json_null());
}
