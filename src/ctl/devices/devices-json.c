/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors say, for programs; the keys are described in devices.c. */
#include <stdio.h>
#include <sys/sysmacros.h>

#include "device-snapshot.h"
#include "ctl/output/messages.h"

#define SECTOR 512

static void put(json_t *o, const char *key, json_t *v)
{
	(void)json_object_set_new(o, key, v);
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	put(o, key, json_integer((json_int_t)n));
}

static void put_text(json_t *o, const char *key, const char *s)
{
	put(o, key, s ? json_path(s) : json_null());
}

static json_t *operation_json(uint64_t count, uint64_t sectors, uint64_t msec)
{
	json_t *o = json_object();

	put_number(o, "count", count);
	put_number(o, "bytes", sectors * SECTOR);
	put_number(o, "total_msec", msec);
	return o;
}

static json_t *flush_json(const struct disk_sample *s)
{
	json_t *o = json_object();

	put_number(o, "count", s->flushes);
	put_number(o, "total_msec", s->flush_msec);
	return o;
}

static json_t *sample_json(const struct look_disk *d, const struct disk_sample *s)
{
	json_t *o = json_object();

	put(o, "read", operation_json(s->reads, s->read_sectors, s->read_msec));
	put(o, "write", operation_json(s->writes, s->write_sectors, s->write_msec));
	put(o, "flush", d->sensor.has_flushes ? flush_json(s) : json_null());
	put(o, "discard",
	    d->sensor.has_discards
		    ? operation_json(s->discards, s->discard_sectors, s->discard_msec)
		    : json_null());
	put_number(o, "busy_msec", s->busy_msec);
	put_number(o, "in_flight", s->in_flight);
	return o;
}

static json_t *disk_json(const struct look *l, const struct look_disk *d)
{
	const struct blockdev *of = d->of;
	dev_t dev = d->whole ? of->disk : of->dev;
	json_t *o = json_object();
	char no[24];

	(void)snprintf(no, sizeof(no), "%u:%u", major(dev), minor(dev));
	put_text(o, "name", look_disk_name(d));
	put_text(o, "number", no);
	put(o, "top", json_boolean(of->top && !d->whole));
	put(o, "leaf", json_boolean(of->leaf));
	put(o, "whole_disk", json_boolean(d->whole));
	put(o, "rotating", json_boolean(of->rotating));
	put_number(o, "discard_max_bytes", of->discard_max_bytes);
	put_text(o, "backing_file", d->whole ? NULL : of->backing_file);
	put(o, "counts", json_boolean(d->present && d->counts));
	put(o, "boot", d->present ? sample_json(d, &d->boot) : json_null());
	put(o, "now", d->present && l->span_usec > 0 ? sample_json(d, &d->span) : json_null());
	return o;
}

static json_t *disks_json(const struct look *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n_disks; i++)
		(void)json_array_append_new(list, disk_json(l, &l->disks[i]));
	return list;
}

static void put_if(json_t *o, const char *key, bool known, uint64_t n)
{
	put(o, key, known ? json_integer((json_int_t)n) : json_null());
}

static json_t *commits_json(const struct look *l)
{
	const struct commit_sample *c = &l->commits;
	const struct commit_sensor *s = &l->commit;
	json_t *o, *now = NULL;

	if (!l->has_commits)
		return json_null();
	o = json_object();
	put_text(o, "kind", commit_kind_name(s->kind));
	put_number(o, "count", c->commits);
	put_if(o, "recent_usec", s->has_recent, c->recent_usec);
	put_if(o, "total_usec", s->has_total, c->total_usec);
	put_if(o, "max_usec", s->has_total, c->max_usec);
	put_if(o, "log_writes", s->kind == COMMIT_XFS, c->log_writes);
	put_if(o, "log_bytes", s->kind == COMMIT_XFS, c->log_sectors * SECTOR);
	if (l->span_usec > 0) {
		now = json_object();
		put_number(now, "count", look_commits_now(l));
	}
	put(o, "now", now ? now : json_null());
	return o;
}

static json_t *pressure_json(const struct look *l)
{
	const struct pressure_sample *p = &l->pressure, *before = &l->pressure_before;
	json_t *o, *now = NULL;

	if (!l->has_pressure)
		return json_null();
	o = json_object();
	put_number(o, "some_usec", p->some_usec);
	put_number(o, "full_usec", p->full_usec);
	if (l->span_usec > 0) {
		now = json_object();
		put_number(now, "some_usec", p->some_usec - before->some_usec);
		put_number(now, "full_usec", p->full_usec - before->full_usec);
	}
	put(o, "now", now ? now : json_null());
	return o;
}

json_t *look_json(const struct look *l)
{
	json_t *o = json_object(), *filesystem = json_object();

	put_text(filesystem, "type", l->d.type[0] ? l->d.type : NULL);
	put_text(filesystem, "upper_type", l->d.upper_type[0] ? l->d.upper_type : NULL);
	put_text(o, "path", l->path);
	put(o, "filesystem", filesystem);
	put_text(o, "key", l->d.key);
	put_text(o, "none", l->d.none);
	put_number(o, "span_usec", l->span_usec);
	put(o, "devices", disks_json(l));
	put(o, "commits", commits_json(l));
	put(o, "pressure", pressure_json(l));
	return o;
}
