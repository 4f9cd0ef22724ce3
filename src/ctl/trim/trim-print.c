/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-print.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "ctl/common/options.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "trim-paths.h"

/* Over all filesystems. */
struct sum {
	uint64_t trimmed, steps, elapsed_usec, longest_usec;
	size_t done, failed, skipped;
};

static struct sum sum_up(const struct trim_paths *p)
{
	struct sum s = { .failed = p->absent };

	for (size_t i = 0; i < p->n; i++) {
		const struct trim_result *r = &p->v[i].result;

		s.trimmed += r->trimmed_bytes;
		s.steps += r->steps;
		s.elapsed_usec += r->elapsed_usec;
		s.longest_usec = MAX(s.longest_usec, r->longest_usec);
		s.done += r->steps > 0 || p->v[i].outcome == TRIM_DONE;
		s.failed += p->v[i].outcome == TRIM_FAILED;
		s.skipped += p->v[i].outcome == TRIM_SKIPPED;
	}
	return s;
}

const char *trim_outcome_name(const struct trim_path *p, bool dry_run)
{
	switch (p->outcome) {
	case TRIM_DONE:
		return dry_run ? "planned" : "trimmed";
	case TRIM_WAITS:
	case TRIM_STOPPED:
		return "stopped";
	case TRIM_SKIPPED:
		return "skipped";
	case TRIM_FAILED:
		break;
	}
	return "failed";
}

/* Steps take from microseconds to seconds. */
static char *step_format(char *buf, size_t len, uint64_t usec)
{
	(void)snprintf(buf, len, "%.1fms", (double)usec / 1e3);
	return buf;
}

static json_t *path_json(const struct trim_path *p, bool dry_run)
{
	const struct trim_target *t = &p->target;
	const struct trim_result *r = &p->result;

	return json_pack("{sosssssssosIsIsssosIsIsIsIsI}", "path", json_path(p->path), "type",
			 t->type, "device", t->device, "outcome", trim_outcome_name(p, dry_run),
			 "why", p->why[0] ? json_words(p->why) : json_null(), "size_bytes",
			 (json_int_t)t->size_bytes, "free_bytes", (json_int_t)t->free_bytes,
			 "bound", trim_bound_name(r->bound), "backing_file",
			 t->backing[0] ? json_path(t->backing) : json_null(), "trimmed_bytes",
			 (json_int_t)r->trimmed_bytes, "steps", (json_int_t)r->steps, "calls",
			 (json_int_t)r->calls, "elapsed_usec", (json_int_t)r->elapsed_usec,
			 "longest_step_usec", (json_int_t)r->longest_usec);
}

static void print_json(const struct trim_paths *p, const struct options *o)
{
	struct sum s = sum_up(p);
	json_t *all = json_array();

	for (size_t i = 0; i < p->n; i++)
		(void)json_array_append_new(all, path_json(&p->v[i], o->dry_run));
	json_print(json_pack("{sosIsIsIsIsIsIsb}", "filesystems", all, "trimmed_bytes",
			     (json_int_t)s.trimmed, "steps", (json_int_t)s.steps, "elapsed_usec",
			     (json_int_t)s.elapsed_usec, "longest_step_usec",
			     (json_int_t)s.longest_usec, "errors", (json_int_t)s.failed, "skipped",
			     (json_int_t)s.skipped, "dry_run", o->dry_run),
		   o->json);
}

static int row_add(struct table *t, const struct trim_path *p, bool dry_run)
{
	_cleanup_free_ char *path = screen_name(p->path);
	const struct trim_result *r = &p->result;
	char bytes[16], time[32], longest[32];
	const char *cells[] = { bytes, time, longest, path };

	(void)size_format(bytes, sizeof(bytes), dry_run ? p->target.free_bytes : r->trimmed_bytes);
	(void)timespan_format(time, sizeof(time), r->elapsed_usec);
	(void)step_format(longest, sizeof(longest), r->longest_usec);
	if (dry_run) {
		cells[1] = p->target.type;
		cells[2] = p->target.device;
	}
	return table_add(t, cells);
}

static void print_table(const struct trim_paths *p, const struct options *o, FILE *out,
			const struct screen *screen)
{
	static const struct table_column columns[] = { { "TRIMMED", COLUMN_RIGHT },
						       { "TIME", COLUMN_RIGHT },
						       { "LONGEST STEP", COLUMN_RIGHT },
						       { "FILESYSTEM", COLUMN_PATH } };
	static const struct table_column planned[] = { { "FREE", COLUMN_RIGHT },
						       { "TYPE", 0 },
						       { "DEVICE", 0 },
						       { "FILESYSTEM", COLUMN_PATH } };
	_cleanup_table_ struct table *t =
		table_new(o->dry_run ? planned : columns, ELEMENTSOF(columns));
	int r = t ? 0 : -1;

	for (size_t i = 0; r >= 0 && i < p->n; i++)
		if (p->v[i].result.steps > 0 || p->v[i].outcome == TRIM_DONE)
			r = row_add(t, &p->v[i], o->dry_run);
	if (r < 0 || table_print(t, out, screen->width, screen->colours) < 0)
		complain("trim", "out of memory: not all that was done is shown");
}

/* A line for each filesystem of which there is something to say. */
static void print_remarks(const struct trim_paths *p, bool dry_run)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct trim_path *v = &p->v[i];
		_cleanup_free_ char *path = screen_name(v->path);
		struct sentence line;
		FILE *out;

		if (v->outcome != TRIM_SKIPPED && !(dry_run && v->outcome == TRIM_DONE))
			continue;
		out = sentence_begin(&line, stdout);
		(void)fprintf(out, "%s: ", path ? path : "?");
		if (v->outcome == TRIM_SKIPPED)
			(void)fprintf(out, "nothing to trim: %s", v->why);
		else
			(void)fputs(trim_bound_text(v->result.bound), out);
		if (v->outcome == TRIM_DONE && v->target.backing[0])
			(void)fprintf(out, "; %s is a loop device: this punches holes into %s",
				      v->target.device, v->target.backing);
		sentence_end(&line);
	}
}

static void print_sum(const struct sum *s, bool dry_run)
{
	char bytes[16], time[32], longest[32], steps[COUNTED_SIZE], on[COUNTED_SIZE];

	(void)counted_format(on, sizeof(on), s->done, "filesystem", "filesystems");
	if (dry_run)
		(void)printf("Would trim what is free on %s; nothing was trimmed\n", on);
	else
		(void)printf("Trimmed %s on %s in %s, in %s of at most %s\n",
			     size_format(bytes, sizeof(bytes), s->trimmed), on,
			     timespan_format(time, sizeof(time), s->elapsed_usec),
			     counted_format(steps, sizeof(steps), s->steps, "step", "steps"),
			     step_format(longest, sizeof(longest), s->longest_usec));
}

void trim_print(const struct trim_paths *p, const struct options *o, bool stopped)
{
	struct sum s = sum_up(p);
	struct screen screen;

	if (o->json != JSON_OFF) {
		print_json(p, o);
		return;
	}
	if (o->quiet)
		return;
	screen_open(&screen, /* may_page= */ false);
	print_table(p, o, stdout, &screen);
	print_remarks(p, o->dry_run);
	if (s.done > 0 || s.skipped == 0)
		print_sum(&s, o->dry_run);
	if (stopped)
		(void)printf("Stopped by a signal before the end: what is left can be trimmed by "
			     "a further run\n");
	screen_close(&screen);
}
