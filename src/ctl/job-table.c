/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The name itself where it can be shown, or a copy that the caller frees. NULL: no memory. */
static const char *name_shown(const char *name, char **ret_copy)
{
	if (escape_is_plain(name))
		return name;
	return *ret_copy = escape_name(name);
}

static int row_add(struct table *t, const struct job_line *j, uint64_t now, struct known_user *user)
{
	_cleanup_free_ char *path = NULL, *origin = NULL;
	char id[24], entries[60], freed[40], when[DISTANCE_SIZE];
	const char *const cells[COLUMNS] = {
		[JOB] = id,
		[STATE] = j->state,
		[USER] = user_name(user, j->uid),
		[PRIORITY] = j->priority,
		[ORIGIN] = name_shown(j->origin, &origin),
		[ENTRIES] = entries_brief(entries, sizeof(entries), j->entries_done, j->entries),
		[FREED] = bytes_brief(freed, sizeof(freed), j->bytes_freed, j->bytes),
		[WHEN] = when_format(when, j, now),
		[PATH] = name_shown(j->path, &path),
	};
	/* All others are as they have come. */
	const bool ours[COLUMNS] = {
		[JOB] = true,   [USER] = true, [ORIGIN] = origin, [ENTRIES] = true,
		[FREED] = true, [WHEN] = true, [PATH] = path
	};
	int r = cells[ORIGIN] && cells[PATH] ? 0 : -ENOMEM;

	*number_put(id, j->id) = '\0';
	for (size_t c = 0; r >= 0 && c < COLUMNS; c++)
		r = ours[c] ? table_add(t, cells[c]) : table_add_lasting(t, cells[c]);
	return r;
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
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		t->priorities = t->priorities || strcmp(v[i].priority, "normal") != 0;
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
