/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-json.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/messages.h"
#include "base/escape.h"

enum key {
	ID,
	STATE,
	USER,
	ORIGIN,
	PRIORITY,
	PATH,
	ENTRIES,
	ENTRIES_DONE,
	BYTES,
	BYTES_FREED,
	ERRORS,
	CREATED,
	HELD_UNTIL,
	STARTED,
	FINISHED,
	KEYS
};
_Static_assert(KEYS == JOB_KEYS, "each key has a lead");

static const char *const names[KEYS] = {
	[ID] = "id",
	[STATE] = "state",
	[USER] = "uid",
	[ORIGIN] = "origin",
	[PRIORITY] = "priority",
	[PATH] = "path",
	[ENTRIES] = "entries",
	[ENTRIES_DONE] = "entries_done",
	[BYTES] = "bytes",
	[BYTES_FREED] = "bytes_freed",
	[ERRORS] = "errors",
	[CREATED] = "created_usec",
	[HELD_UNTIL] = "held_until_usec",
	[STARTED] = "started_usec",
	[FINISHED] = "finished_usec",
};

static void leads_make(struct job_json_lead *leads, bool pretty)
{
	for (size_t k = 0; k < KEYS; k++)
		leads[k].len = (size_t)snprintf(
			leads[k].text, sizeof(leads[k].text),
			pretty ? "%s\n    \"%s\": " : "%s\"%s\":", k == 0 ? "{" : ",", names[k]);
}

/* Most texts are the same in JSON. */
static void text_print(struct printer *p, const char *text)
{
	size_t len = escape_span(text);

	if (text[len] == '\0' && !memchr(text, '"', len) && !memchr(text, '\\', len)) {
		printer_put(p, "\"", 1);
		printer_put(p, text, len);
		printer_put(p, "\"", 1);
	} else {
		json_t *s = json_path(text);
		_cleanup_free_ char *dumped = json_dumps(s, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

		/* Without memory. */
		printer_text(p, dumped ? dumped : "null");
		json_decref(s);
	}
}

static void line_print(struct printer *p, const struct job_json_lead *leads,
		       const struct job_line *j)
{
	const struct {
		const char *text; /* or NULL: a number */
		uint64_t number;
	} values[KEYS] = {
		[ID] = { .number = j->id },
		[STATE] = { .text = j->state },
		[USER] = { .number = j->uid },
		[ORIGIN] = { .text = j->origin },
		[PRIORITY] = { .text = j->priority },
		[PATH] = { .text = j->path },
		[ENTRIES] = { .number = j->entries },
		[ENTRIES_DONE] = { .number = j->entries_done },
		[BYTES] = { .number = j->bytes },
		[BYTES_FREED] = { .number = j->bytes_freed },
		[ERRORS] = { .number = j->errors },
		[CREATED] = { .number = j->created_usec },
		[HELD_UNTIL] = { .number = j->held_until_usec },
		[STARTED] = { .number = j->started_usec },
		[FINISHED] = { .number = j->finished_usec },
	};

	for (size_t k = 0; k < KEYS; k++) {
		printer_put(p, leads[k].text, leads[k].len);
		if (values[k].text)
			text_print(p, values[k].text);
		else
			printer_number(p, values[k].number);
	}
}

void job_json_begin(struct job_json *j, FILE *out, enum json_mode mode)
{
	*j = (struct job_json){ .printer.out = out, .pretty = mode == JSON_PRETTY };
	leads_make(j->leads, j->pretty);
}

void job_json_add(struct job_json *j, const struct job_line *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printer_text(&j->printer, j->some ? "," : "[");
		if (j->pretty)
			printer_text(&j->printer, "\n  ");
		line_print(&j->printer, j->leads, &v[i]);
		printer_text(&j->printer, j->pretty ? "\n  }" : "}");
		j->some = true;
	}
}

void job_json_end(struct job_json *j)
{
	printer_text(&j->printer, !j->some ? "[]\n" : j->pretty ? "\n]\n" : "]\n");
	printer_flush(&j->printer);
}
