/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A plan for programs; the keys are described in plan.c. */
#include <math.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "ctl/output/messages.h"
#include "plan.h"

static void put(json_t *o, const char *key, json_t *v)
{
	(void)json_object_set_new(o, key, v);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *text(const char *s)
{
	return s ? json_path(s) : json_null();
}

static json_t *top_json(const struct top *t, const char *amount_key, bool size)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->n; i++) {
		json_t *o = json_object();

		put(o, "path", text(t->v[i].path));
		put(o, amount_key, number(t->v[i].amount));
		if (size)
			put(o, "size", number(t->v[i].size_bytes));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *undeletable_json(const struct findings *f)
{
	json_t *o = json_object(), *list = json_array();

	for (size_t i = 0; i < f->obstacles.n; i++) {
		json_t *v = json_object();

		put(v, "path", text(f->obstacles.v[i].path));
		put(v, "reason", json_string(f->obstacles.v[i].reason));
		(void)json_array_append_new(list, v);
	}
	put(o, "entries", number(f->undeletable));
	put(o, "reasons", list);
	return o;
}

static json_t *open_json(const struct plan *p)
{
	const struct findings *f = &p->f;
	const struct holders *h = p->holders;
	json_t *o = json_object(), *list = json_array();

	for (size_t i = 0; i < f->n_open; i++) {
		const struct survey_open *s = &f->open[i];
		json_t *v = json_object();

		put(v, "path", text(s->path));
		put(v, "how", json_string(holder_how_name(s->holder.how)));
		put(v, "pid",
		    s->holder.how == HOLDER_LOOP ? json_null() : json_integer(s->holder.pid));
		put(v, "command", text(s->command));
		(void)json_array_append_new(list, v);
	}
	put(o, "entries", number(f->open_entries));
	put(o, "complete", json_boolean(h->hidden == 0 && !h->processes_hidden));
	put(o, "hidden_processes", h->processes_hidden ? json_null() : number(h->hidden));
	put(o, "holders", list);
	return o;
}

static json_t *devices_json(const struct blockdevs *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->n; i++) {
		const struct blockdev *d = &b->v[i];
		json_t *o = json_object();
		char no[24];

		(void)snprintf(no, sizeof(no), "%u:%u", major(d->dev), minor(d->dev));
		put(o, "name", text(d->name));
		put(o, "number", json_string(no));
		put(o, "top", json_boolean(d->top));
		put(o, "leaf", json_boolean(d->leaf));
		put(o, "rotating", json_boolean(d->rotating));
		put(o, "discard_max_bytes", number(d->discard_max_bytes));
		put(o, "backing_file", text(d->backing_file));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *filesystem_json(const struct plan *p)
{
	const struct surroundings *s = &p->around;
	json_t *o = json_object();

	put(o, "type", text(s->type));
	put(o, "mount_point", text(s->mount_point));
	put(o, "source", text(s->source));
	put(o, "options", text(s->options));
	put(o, "size_bytes", number(s->size_bytes));
	put(o, "free_bytes", number(s->free_bytes));
	put(o, "discard", json_boolean(s->mounted_with_discard));
	put(o, "quota_groups", json_boolean(s->quota_groups));
	put(o, "subvolumes", number(p->f.subvolumes));
	put(o, "snapshots", number(p->f.snapshots));
	put(o, "snapshots_elsewhere",
	    p->f.snapshots_elsewhere < 0 ? json_null() : json_integer(p->f.snapshots_elsewhere));
	put(o, "devices", devices_json(&s->devices));
	return o;
}

static json_t *strategy_json(const struct plan *p)
{
	json_t *o = json_object();

	put(o, "name", json_string(p->strategy));
	put(o, "reason", json_string(p->profile.reason));
	put(o, "backend", json_string(p->backend == BACKEND_URING ? "uring" : "threads"));
	put(o, "lanes", number(p->lanes));
	put(o, "large_files", json_string(plan_large_files(p)));
	return o;
}

static json_t *keeping_json(const struct plan *p)
{
	const struct keeping *k = &p->keeping;
	json_t *o = json_object();

	put(o, "trash_seconds", k->has_trash ? number(k->trash_seconds) : json_null());
	put(o, "trash_bytes", k->has_trash ? number(k->trash_bytes) : json_null());
	put(o, "open_bytes", k->has_trash ? number(k->open_bytes) : json_null());
	put(o, "snapshots", k->has_snapshots ? number(k->snapshots) : json_null());
	return o;
}

static json_t *costs_json(const struct plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_costs; i++)
		(void)json_array_append_new(list, json_string(p->costs[i]));
	return list;
}

static void contents_put(json_t *o, const struct findings *f)
{
	json_t *links = json_object();

	put(links, "entries", number(f->linked_entries));
	put(links, "kept_bytes", number(f->linked_bytes));
	put(o, "complete", json_boolean(f->complete));
	put(o, "type", json_string(mode_name(f->mode)));
	put(o, "entries", number(f->entries));
	put(o, "files", number(f->files));
	put(o, "directories", number(f->directories));
	put(o, "symlinks", number(f->symlinks));
	put(o, "others", number(f->others));
	put(o, "unknown", number(f->unknown));
	put(o, "unread", number(f->unread));
	put(o, "depth", number(f->depth));
	/* In hundredths: more digits would be noise. */
	put(o, "mean_entries", json_real(round(f->mean_entries * 100) / 100));
	put(o, "most_entries", number(f->most_entries));
	put(o, "largest_directories", top_json(&f->largest_directories, "entries", false));
	put(o, "bytes", number(f->bytes));
	put(o, "bytes_exact", json_boolean(f->complete && !f->sampled && f->unread == 0));
	put(o, "bytes_margin", number(f->bytes_margin));
	put(o, "looked_at", number(f->looked_at));
	put(o, "largest_files", top_json(&f->largest_files, "bytes", true));
	put(o, "large_files", number(f->large_files));
	put(o, "hard_links", links);
	put(o, "undeletable", undeletable_json(f));
}

json_t *plan_json(const struct plan *p)
{
	json_t *o = json_object(), *time;

	put(o, "path", text(p->path));
	put(o, "verdict", json_string(verdict_name(p->verdict)));
	put(o, "reason", text(p->reason));
	if (!p->reason) {
		contents_put(o, &p->f);
		put(o, "open", open_json(p));
		put(o, "filesystem", filesystem_json(p));
		put(o, "strategy", strategy_json(p));
		time = json_object();
		put(time, "warm_usec", number(p->estimate.warm_usec));
		put(time, "cold_usec", number(p->estimate.cold_usec));
		put(o, "estimate", time);
		put(o, "costs", costs_json(p));
		put(o, "keeping", keeping_json(p));
	}
	return o;
}
