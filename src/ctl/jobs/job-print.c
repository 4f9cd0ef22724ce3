/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-print.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/messages.h"
#include "ctl/output/table.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/screen.h"
#include "base/units.h"

json_t *job_line_json(const struct job_line *j)
{
	return json_pack("{sIsssIsssssosIsIsIsIsIsIsIsIsIsssI}", "id", (json_int_t)j->id, "state",
			 j->state, "uid", (json_int_t)j->uid, "origin", j->origin, "priority",
			 j->priority, "path", json_path(j->path), "entries", (json_int_t)j->entries,
			 "entries_done", (json_int_t)j->entries_done, "bytes", (json_int_t)j->bytes,
			 "bytes_freed", (json_int_t)j->bytes_freed, "errors", (json_int_t)j->errors,
			 "created_usec", (json_int_t)j->created_usec, "held_until_usec",
			 (json_int_t)j->held_until_usec, "started_usec",
			 (json_int_t)j->started_usec, "finished_usec", (json_int_t)j->finished_usec,
			 "kind", j->kind, "names", (json_int_t)j->names);
}

void jobs_json_print(FILE *out, const struct job_line *v, size_t n, bool pretty)
{
	const size_t flags = JSON_ENSURE_ASCII | (pretty ? JSON_INDENT(2) : JSON_COMPACT);

	for (size_t i = 0; i < n; i++) {
		json_auto_t *array = json_pack("[o]", job_line_json(&v[i]));
		/* With JSON_EMBED an array has no brackets, but the newline before the last. */
		_cleanup_free_ char *text = json_dumps(array, JSON_EMBED | flags);

		if (text)
			(void)fprintf(out, "%c%.*s", i == 0 ? '[' : ',', (int)strlen(text) - pretty,
				      text);
	}
	(void)fputs(n == 0 ? "[]\n" : pretty ? "\n]\n" : "]\n", out);
}

char *window_format(char buf[static WINDOW_WORDS], const char *span, uint64_t rate,
		    uint64_t until_usec)
{
	char size[16], moment[TIMESTAMP_SIZE], most[32], until[TIMESTAMP_SIZE + 8] = "";

	buf[0] = '\0';
	if (!span[0])
		return buf;
	(void)snprintf(most, sizeof(most), "at most %s/s", size_format(size, sizeof(size), rate));
	if (until_usec > 0)
		(void)snprintf(
			until, sizeof(until), " until %s",
			timestamp_format(moment, sizeof(moment), until_usec, realtime_usec()));
	(void)snprintf(buf, WINDOW_WORDS, "%s: %s%s", span,
		       rate > 0 ? most : "no job runs, but where free space is short,", until);
	return buf;
}

void job_end_print(const struct job_line *j)
{
	char n[28], size[16], span[32], errors[28];
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)fprintf(out, "Job %" PRIu64 " %s", j->id, j->settling ? "deleted" : j->state);
	if (j->entries_done > 0 || strcmp(j->state, "done") == 0)
		(void)fprintf(out, ": %s %s, %s", count_format(n, sizeof(n), j->entries_done),
			      entries_word(j->entries_done),
			      size_format(size, sizeof(size), j->bytes_freed));
	if (j->started_usec > 0 && j->finished_usec > j->started_usec)
		(void)fprintf(
			out, ", in %s",
			timespan_format(span, sizeof(span), j->finished_usec - j->started_usec));
	if (j->errors > 0)
		(void)fprintf(out, "; %s could not be deleted",
			      count_format(errors, sizeof(errors), j->errors));
	if (j->settling)
		(void)fputs("; what that leaves is still being written back", out);
	else if (strcmp(j->state, "done") != 0)
		(void)fprintf(out, "; reclaimctl show %" PRIu64 " says why", j->id);
	sentence_end(&line);
}

char *user_format(char *buf, size_t len, uid_t uid)
{
	const struct passwd *p = getpwuid(uid);

	if (p)
		(void)snprintf(buf, len, "%s", p->pw_name);
	else
		(void)snprintf(buf, len, "%u", uid);
	return buf;
}

char *entries_format(char *buf, size_t len, uint64_t done, uint64_t total, const char *of)
{
	char n[28], all[28];

	(void)snprintf(buf, len, "%s%s%s", count_format(n, sizeof(n), done), total > done ? of : "",
		       total > done ? count_format(all, sizeof(all), total) : "");
	return buf;
}

char *job_path_format(const struct job_line *j)
{
	char *path = screen_name(j->path), *text, n[28];

	if (!path || j->names <= 1)
		return path;
	if (asprintf(&text, "%s +%s more", path, count_format(n, sizeof(n), j->names - 1)) < 0)
		text = NULL;
	free(path);
	return text;
}

char *bytes_format(char *buf, size_t len, uint64_t done, uint64_t total)
{
	char n[16], of[16], *unit, *unit_of;

	(void)size_format(n, sizeof(n), done);
	(void)size_format(of, sizeof(of), total);
	unit = strchr(n, ' ');
	unit_of = strchr(of, ' ');
	/* The unit is said once where both have the same. */
	if (total > done && unit && unit_of && strcmp(unit, unit_of) == 0)
		*unit = '\0';
	(void)snprintf(buf, len, "%s%s%s", n, total > done ? " of " : "", total > done ? of : "");
	return buf;
}

/* "1.2G", "312B": the letter tells enough. */
static char *size_brief(char *buf, size_t len, uint64_t bytes)
{
	char *unit;

	(void)size_format(buf, len, bytes);
	unit = strchr(buf, ' ');
	if (unit) {
		unit[0] = unit[1];
		unit[1] = '\0';
	}
	return buf;
}

char *bytes_brief(char *buf, size_t len, uint64_t done, uint64_t total)
{
	char n[16], of[16];

	(void)snprintf(buf, len, "%s%s%s", size_brief(n, sizeof(n), done), total > done ? "/" : "",
		       total > done ? size_brief(of, sizeof(of), total) : "");
	return buf;
}

enum { HOST = 0, KIND = 3, PRIORITY = 5, ORIGIN = 6 };

static const struct table_column columns[] = {
	[HOST] = { "HOST", 0 },
	{ "JOB", COLUMN_RIGHT },
	{ "STATE", COLUMN_STATE },
	[KIND] = { "KIND", COLUMN_SPARE },
	{ "USER", COLUMN_SPARE },
	[PRIORITY] = { "PRIORITY", COLUMN_SPARE },
	[ORIGIN] = { "ORIGIN", COLUMN_SPARE },
	{ "ENTRIES", COLUMN_RIGHT | COLUMN_SPARE },
	{ "FREED", COLUMN_RIGHT | COLUMN_SPARE },
	{ "WHEN", COLUMN_SPARE },
	{ "PATH", COLUMN_PATH },
};

/* What is most worth knowing: when it goes, since when it goes, how long it waits, when it ended.
 */
static uint64_t when_usec(const struct job_line *j)
{
	if (strcmp(j->state, "held") == 0)
		return j->held_until_usec;
	if (j->finished_usec > 0)
		return j->finished_usec;
	if (strcmp(j->state, "running") == 0 && j->started_usec > 0)
		return j->started_usec;
	return j->created_usec;
}

static int row_add(struct table *t, const struct job_line *j, const char *user, uint64_t now)
{
	_cleanup_free_ char *origin = screen_name(j->origin), *path = job_path_format(j);
	char id[24], entries[60], freed[40], when[DISTANCE_SIZE];
	const char *const cells[ELEMENTSOF(columns)] = {
		j->host ? j->host : "",
		id,
		j->state,
		j->kind,
		user,
		j->priority,
		origin,
		entries_format(entries, sizeof(entries), j->entries_done, j->entries, "/"),
		bytes_brief(freed, sizeof(freed), j->bytes_freed, j->bytes),
		when_usec(j) > 0 ? distance_format(when, when_usec(j), now) : "",
		path,
	};

	(void)snprintf(id, sizeof(id), "%" PRIu64, j->id);
	return table_add(t, cells);
}

int jobs_table_print(const struct job_line *v, size_t n, const struct screen *screen, bool titles)
{
	_cleanup_table_ struct table *t = table_new(columns, ELEMENTSOF(columns));
	bool hosts = false, kinds = false, priorities = false, origins = false;
	uint64_t now = realtime_usec();
	char user[40] = "";
	int r = t ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		/* Looking for a name reads files, and most jobs are of the same user. */
		if (i == 0 || v[i].uid != v[i - 1].uid)
			(void)user_format(user, sizeof(user), (uid_t)v[i].uid);
		hosts = hosts || v[i].host;
		kinds = kinds || strcmp(v[i].kind, "delete") != 0;
		priorities = priorities || strcmp(v[i].priority, "normal") != 0;
		origins = origins || strcmp(v[i].origin, "submit") != 0;
		r = row_add(t, &v[i], user, now);
	}
	if (r < 0)
		return r;
	if (!hosts)
		table_hide(t, HOST);
	if (!kinds)
		table_hide(t, KIND);
	if (!priorities)
		table_hide(t, PRIORITY);
	if (!origins)
		table_hide(t, ORIGIN);
	if (!titles)
		table_hide_titles(t);
	return table_print(t, stdout, screen->width, screen->colours);
}
