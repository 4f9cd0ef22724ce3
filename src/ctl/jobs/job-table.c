/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job-print.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/table.h"
#include "base/escape.h"
#include "base/units.h"

enum column { JOB, STATE, USER, PRIORITY, ORIGIN, ENTRIES, FREED, WHEN, PATH, COLUMNS };

static const char *const titles[COLUMNS] = { "JOB",     "STATE", "USER", "PRIORITY", "ORIGIN",
					     "ENTRIES", "FREED", "WHEN", "PATH" };
static const unsigned flags[COLUMNS] = {
	[JOB] = COLUMN_RIGHT,
	[STATE] = COLUMN_STATE,
	[USER] = COLUMN_SPARE,
	[PRIORITY] = COLUMN_SPARE,
	[ORIGIN] = COLUMN_SPARE,
	[ENTRIES] = COLUMN_RIGHT | COLUMN_SPARE,
	[FREED] = COLUMN_RIGHT | COLUMN_SPARE,
	[WHEN] = COLUMN_SPARE,
	[PATH] = COLUMN_PATH,
};

/* What is most worth knowing: when it goes, since when it goes, how long it waits, when it ended.
 */
static char *when_format(char *buf, const struct job_line *j, uint64_t now)
{
	if (strcmp(j->state, "held") == 0)
		return moment_distance(buf, j->held_until_usec, now);
	if (j->finished_usec > 0)
		return moment_distance(buf, j->finished_usec, now);
	if (strcmp(j->state, "running") == 0 && j->started_usec > 0)
		return moment_distance(buf, j->started_usec, now);
	return moment_distance(buf, j->created_usec, now);
}

/* The user of the job before, as most have the same: looking for a name reads files. */
struct known_user {
	bool known;
	uid_t uid;
	char name[40];
};

struct job_table {
	struct table *rows;
	uint64_t now;
	struct known_user user;
	bool priorities, origins; /* some are not as usual: such columns are shown */
};

static const char *user_name(struct known_user *u, uid_t uid)
{
	if (!u->known || u->uid != uid)
		(void)user_format(u->name, sizeof(u->name), uid);
	u->known = true;
	u->uid = uid;
	return u->name;
}

/* The name itself where it can be shown, as most can, or an escaped copy. */
static int name_add(struct table *t, const char *name)
{
	size_t len = escape_span(name);
	_cleanup_free_ char *escaped = NULL;

	if (name[len] == '\0' && !memchr(name, '\\', len))
		return table_add_ascii(t, name, len);
	escaped = escape_name(name);
	return escaped ? table_add(t, escaped) : -ENOMEM;
}

/* In the order of the columns. */
static int row_add(struct table *t, const struct job_line *j, uint64_t now, struct known_user *user)
{
	char entries[60], freed[40], when[DISTANCE_SIZE], id[24];
	const char *const numbers[] = {
		entries_brief(entries, sizeof(entries), j->entries_done, j->entries),
		bytes_brief(freed, sizeof(freed), j->bytes_freed, j->bytes),
		when_format(when, j, now),
	};
	int r;

	*number_put(id, j->id) = '\0';
	r = table_add(t, id);
	if (r >= 0)
		r = table_add_lasting(t, j->state);
	if (r >= 0)
		r = table_add(t, user_name(user, j->uid));
	if (r >= 0)
		r = table_add_lasting(t, j->priority);
	if (r >= 0)
		r = name_add(t, j->origin);
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(numbers); i++)
		r = table_add(t, numbers[i]);
	return r < 0 ? r : name_add(t, j->path);
}

int job_table_new(struct job_table **ret)
{
	struct job_table *t = calloc(1, sizeof(*t));

	if (t)
		t->rows = table_new(titles, flags, COLUMNS);
	if (!t || !t->rows) {
		job_table_free(t);
		return -ENOMEM;
	}
	t->now = realtime_usec();
	*ret = t;
	return 0;
}

struct job_table *job_table_free(struct job_table *t)
{
	if (t)
		table_free(t->rows);
	free(t);
	return NULL;
}

int job_table_add(struct job_table *t, const struct job_line *v, size_t n)
{
	const struct job_line *before = NULL;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; before = &v[i++]) {
		/* Where it is as with the one before, it is the same text. */
		if (!before || v[i].priority != before->priority)
			t->priorities = t->priorities || strcmp(v[i].priority, "normal") != 0;
		if (!before || v[i].origin != before->origin)
			t->origins = t->origins || strcmp(v[i].origin, "submit") != 0;
		r = row_add(t->rows, &v[i], t->now, &t->user);
	}
	return r;
}

void job_table_print(struct job_table *t, const struct screen *screen)
{
	if (!t->priorities)
		table_hide(t->rows, PRIORITY);
	if (!t->origins)
		table_hide(t->rows, ORIGIN);
	table_print(t->rows, stdout, screen->width, screen->colours);
}
