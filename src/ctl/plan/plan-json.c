/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encodes a plan as JSON. plan.c describes the keys. */
#include <math.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "ctl/output/messages.h"
#include "plan.h"

static json_t *text(const char *s)
{
	return s ? json_path(s) : json_null();
}

static json_t *number_or_null(bool known, uint64_t n)
{
	return known ? json_integer((json_int_t)n) : json_null();
}

static json_t *largest_json(const struct largest *t, bool files)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->n; i++) {
		const struct largest_entry *e = &t->v[i];
		json_t *path = text(e->path);

		(void)json_array_append_new(list,
					    files ? json_pack("{so sI sI}", "path", path, "bytes",
							      (json_int_t)e->amount, "size",
							      (json_int_t)e->size_bytes)
						  : json_pack("{so sI}", "path", path, "entries",
							      (json_int_t)e->amount));
	}
	return list;
}

static json_t *open_json(const struct findings *f, const struct holders *h)
{
	return json_pack("{sI sb so sO}", "entries", (json_int_t)f->open_entries, "complete",
			 h->hidden == 0 && !h->processes_hidden, "hidden_processes",
			 number_or_null(!h->processes_hidden, h->hidden), "holders", f->holders);
}

static json_t *devices_json(const struct blockdevs *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->n; i++) {
		const struct blockdev *d = &b->v[i];
		char no[24];

		(void)snprintf(no, sizeof(no), "%u:%u", major(d->dev), minor(d->dev));
		(void)json_array_append_new(
			list, json_pack("{so ss sb sb sb sI so}", "name", text(d->name), "number",
					no, "top", d->top, "leaf", d->leaf, "rotating", d->rotating,
					"discard_max_bytes", (json_int_t)d->discard_max_bytes,
					"backing_file", text(d->backing_file)));
	}
	return list;
}

static json_t *filesystem_json(const struct plan *p)
{
	const struct surroundings *s = &p->around;
	const struct findings *f = &p->f;

	return json_pack("{so so so so sI sI sb sI so}", "type", text(s->type), "mount_point",
			 text(s->mount_point), "source", text(s->source), "options",
			 text(s->options), "size_bytes", (json_int_t)s->size_bytes, "free_bytes",
			 (json_int_t)s->free_bytes, "discard", s->mounted_with_discard,
			 "subvolumes", (json_int_t)f->subvolumes, "devices",
			 devices_json(&s->devices));
}

static json_t *contents_json(const struct findings *f)
{
	const struct {
		const char *key;
		uint64_t n;
	} numbers[] = {
		{ "entries", f->entries },
		{ "files", f->files },
		{ "directories", f->directories },
		{ "symlinks", f->symlinks },
		{ "others", f->others },
		{ "unknown", f->unknown },
		{ "unread", f->unread },
		{ "depth", f->depth },
		{ "most_entries", f->most_entries },
		{ "bytes", f->bytes },
		{ "large_files", f->large_files },
	};
	/* Rounded to hundredths, because more digits would be noise. */
	json_t *o = json_pack(
		"{sb ss sb sf so so s{sI sI} s{sI sO}}", "complete", f->complete, "type",
		mode_name(f->mode), "bytes_exact", f->complete && f->unread == 0 && f->left == 0,
		"mean_entries", round(f->mean_entries * 100) / 100, "largest_directories",
		largest_json(&f->largest_directories, /* files= */ false), "largest_files",
		largest_json(&f->largest_files, /* files= */ true), "hard_links", "entries",
		(json_int_t)f->linked_entries, "kept_bytes", (json_int_t)f->linked_bytes,
		"undeletable", "entries", (json_int_t)f->undeletable, "reasons", f->reasons);

	for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
		(void)json_object_set_new(o, numbers[i].key,
					  json_integer((json_int_t)numbers[i].n));
	return o;
}

json_t *plan_json(const struct plan *p)
{
	json_t *o = json_pack("{so ss so}", "path", text(p->path), "verdict",
			      verdict_name(p->verdict), "reason", text(p->reason)),
	       *more;

	if (p->reason)
		return o;
	more = json_pack("{so so s{ss ss ss si ss}}", "open", open_json(&p->f, p->holders),
			 "filesystem", filesystem_json(p), "strategy", "name", p->strategy,
			 "reason", p->profile.reason, "backend",
			 p->backend == BACKEND_URING ? "uring" : "threads", "lanes", (int)p->lanes,
			 "large_files", plan_large_files(p));
	(void)json_object_update_new(o, contents_json(&p->f));
	(void)json_object_update_new(o, more);
	return o;
}
