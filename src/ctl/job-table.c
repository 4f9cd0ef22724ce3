/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "job-print.h"
#include "moments.h"
#include "table.h"
#include "util/escape.h"
#include "util/units.h"

enum column { JOB, STATE, USER, PRIORITY, ORIGIN, ENTRIES, FREED, WHEN, PATH, COLUMNS };

static const char *const titles[COLUMNS] = { "JOB",     "STATE", "USER", "PRIORITY", "ORIGIN",
					     "ENTRIES", "FREED", "WHEN", "PATH" };
static const unsigned flags[COLUMNS] = {
	[JOB] = COLUMN_RIGHT,
	[STATE] = COLUMN_STATE,
	[ENTRIES] = COLUMN_RIGHT,
	[FREED] = COLUMN_RIGHT,
};

/* What is most worth knowing: when it goes, since when it goes, how long it waits, when it ended.
 */
static char *when_format(char *buf, size_t len, const struct job_line *j, uint64_t now)
{
	if (strcmp(j->state, "held") == 0)
		return moment_distance(buf, len, j->held_until_usec, now);
	if (j->finished_usec > 0)
		return moment_distance(buf, len, j->finished_usec, now);
	if (strcmp(j->state, "running") == 0 && j->started_usec > 0)
		return moment_distance(buf, len, j->started_usec, now);
	return moment_distance(buf, len, j->created_usec, now);
}

/* The user of the job before, as most have the same: looking for a name reads files. */
struct known_user {
	bool known;
	uid_t uid;
	char name[40];
};

static const char *user_name(struct known_user *u, uid_t uid)
{
	if (!u->known || u->uid != uid)
		(void)user_format(u->name, sizeof(u->name), uid);
	u->known = true;
	u->uid = uid;
	return u->name;
}

static int row_add(struct table *t, const struct job_line *j, uint64_t now, struct known_user *user)
{
	_cleanup_free_ char *path = escape_name(j->path), *origin = escape_name(j->origin);
	char id[24], entries[60], freed[40], when[48];
	const char *cells[COLUMNS];
	int r = path && origin ? 0 : -ENOMEM;

	*number_put(id, j->id) = '\0';
	cells[JOB] = id;
	cells[STATE] = j->state;
	cells[USER] = user_name(user, j->uid);
	cells[PRIORITY] = j->priority;
	cells[ORIGIN] = origin;
	cells[ENTRIES] = entries_brief(entries, sizeof(entries), j->entries_done, j->entries);
	cells[FREED] = bytes_brief(freed, sizeof(freed), j->bytes_freed, j->bytes);
	cells[WHEN] = when_format(when, sizeof(when), j, now);
	cells[PATH] = path;
	for (size_t c = 0; r >= 0 && c < COLUMNS; c++)
		r = table_add(t, cells[c]);
	return r;
}

/* Columns in which all is as usual are left out. */
static void dull_hide(struct table *t, const struct job_list *l)
{
	bool priorities = false, origins = false;

	for (size_t i = 0; i < l->n; i++) {
		priorities = priorities || strcmp(l->v[i].priority, "normal") != 0;
		origins = origins || strcmp(l->v[i].origin, "submit") != 0;
	}
	if (!priorities)
		table_hide(t, PRIORITY);
	if (!origins)
		table_hide(t, ORIGIN);
}

int job_table_print(const struct job_list *l, const struct screen *screen)
{
	struct table *t = table_new(titles, flags, COLUMNS);
	struct known_user user = { 0 };
	uint64_t now = realtime_usec();
	int r = t ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < l->n; i++)
		r = row_add(t, &l->v[i], now, &user);
	if (r >= 0) {
		dull_hide(t, l);
		table_print(t, stdout, screen->width, screen->colours);
	}
	table_free(t);
	return r;
}
