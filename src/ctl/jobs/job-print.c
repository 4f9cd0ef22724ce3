/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-print.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/messages.h"
#include "base/units.h"

json_t *job_line_json(const struct job_line *j)
{
	return json_pack("{sIsssIsssssosIsIsIsIsIsIsIsIsI}", "id", (json_int_t)j->id, "state",
			 j->state, "uid", (json_int_t)j->uid, "origin", j->origin, "priority",
			 j->priority, "path", json_path(j->path), "entries", (json_int_t)j->entries,
			 "entries_done", (json_int_t)j->entries_done, "bytes", (json_int_t)j->bytes,
			 "bytes_freed", (json_int_t)j->bytes_freed, "errors", (json_int_t)j->errors,
			 "created_usec", (json_int_t)j->created_usec, "held_until_usec",
			 (json_int_t)j->held_until_usec, "started_usec",
			 (json_int_t)j->started_usec, "finished_usec",
			 (json_int_t)j->finished_usec);
}

void job_end_print(const struct job_line *j)
{
	char n[28], size[16], span[32], errors[28];
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)fprintf(out, "Job %" PRIu64 " %s", j->id, j->state);
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
	if (strcmp(j->state, "done") != 0)
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

char *entries_format(char *buf, size_t len, uint64_t done, uint64_t total)
{
	char n[28], of[28];

	if (total > done)
		(void)snprintf(buf, len, "%s of %s", count_format(n, sizeof(n), done),
			       count_format(of, sizeof(of), total));
	else
		(void)count_format(buf, len, done);
	return buf;
}

char *bytes_format(char *buf, size_t len, uint64_t done, uint64_t total)
{
	char n[16], of[16], *unit, *unit_of;

	(void)size_format(n, sizeof(n), done);
	if (total <= done) {
		(void)snprintf(buf, len, "%s", n);
		return buf;
	}
	(void)size_format(of, sizeof(of), total);
	unit = strchr(n, ' ');
	unit_of = strchr(of, ' ');
	/* The unit is said once where both have the same. */
	if (unit && unit_of && strcmp(unit, unit_of) == 0)
		*unit = '\0';
	(void)snprintf(buf, len, "%s of %s", n, of);
	return buf;
}

char *entries_brief(char *buf, size_t len, uint64_t done, uint64_t total)
{
	size_t used = strlen(count_format(buf, len, done));

	if (total > done && used + 2 < len) {
		buf[used++] = '/';
		(void)count_format(buf + used, len - used, total);
	}
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
	size_t used = strlen(size_brief(buf, len, done));

	if (total > done && used + 2 < len) {
		buf[used++] = '/';
		(void)size_brief(buf + used, len - used, total);
	}
	return buf;
}
