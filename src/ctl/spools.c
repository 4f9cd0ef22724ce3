/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl spools: the directories whose content the daemon deletes.
 *
 * With --json, an array with one object for each: {path, state, message, settle_usec, undo_usec,
 * waiting}. Keys are only ever added.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/common/client.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "base/escape.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

enum spool_column { STATE, SETTLE, UNDO, WAITING, PATH, MESSAGE, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[STATE] = { "STATE", COLUMN_STATE },
	[SETTLE] = { "SETTLE", COLUMN_RIGHT },
	[UNDO] = { "UNDO", COLUMN_RIGHT },
	[WAITING] = { "WAITING", COLUMN_RIGHT },
	[PATH] = { "PATH", 0 },
	[MESSAGE] = { "MESSAGE", 0 },
};

struct spool_line {
	char *path; /* raw bytes */
	const char *state, *message;
	uint64_t settle_usec, undo_usec, waiting;
};

/* Reads one spool; the path is malloc'ed. Returns 1, 0 at the end, or a negative errno. */
static int spool_read(sd_bus_message *m, struct spool_line *ret)
{
	struct spool_line s = { 0 };
	const void *path;
	size_t len;
	int r = sd_bus_message_enter_container(m, 'r', "ayssttt");

	if (r <= 0)
		return r;
	r = sd_bus_message_read_array(m, 'y', &path, &len);
	if (r >= 0)
		r = sd_bus_message_read(m, "ssttt", &s.state, &s.message, &s.settle_usec,
					&s.undo_usec, &s.waiting);
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	if (r < 0)
		return r;
	s.path = strndup(len > 0 ? path : "", len);
	if (!s.path)
		return -ENOMEM;
	*ret = s;
	return 1;
}

static json_t *spool_json(const struct spool_line *s)
{
	return json_pack("{sosssssIsIsI}", "path", json_path(s->path), "state", s->state, "message",
			 s->message, "settle_usec", (json_int_t)s->settle_usec, "undo_usec",
			 (json_int_t)s->undo_usec, "waiting", (json_int_t)s->waiting);
}

static const char *span_or_dash(char *buf, size_t len, uint64_t usec)
{
	return usec > 0 ? timespan_format(buf, len, usec) : "-";
}

static int row_add(struct table *t, const struct spool_line *s)
{
	_cleanup_free_ char *path = escape_name(s->path), *message = escape_line(s->message);
	char settle[32], undo[32], waiting[28];
	const char *cells[COLUMNS] = {
		[STATE] = s->state,
		[SETTLE] = span_or_dash(settle, sizeof(settle), s->settle_usec),
		[UNDO] = span_or_dash(undo, sizeof(undo), s->undo_usec),
		[WAITING] = count_format(waiting, sizeof(waiting), s->waiting),
		[PATH] = path,
		[MESSAGE] = message,
	};

	return table_add(t, cells);
}

/* Reads all and puts each where it is to be shown. Returns how many, or a negative errno. */
static int spools_read(sd_bus_message *m, struct table *t, json_t *array)
{
	int r = sd_bus_message_enter_container(m, 'a', "(ayssttt)"), n = 0;

	while (r >= 0) {
		struct spool_line s;

		r = spool_read(m, &s);
		if (r <= 0)
			break;
		if (array)
			r = json_array_append_new(array, spool_json(&s)) == 0 ? 0 : -ENOMEM;
		else
			r = row_add(t, &s);
		free(s.path);
		n++;
	}
	return r < 0 ? r : n;
}

static int spools_print(const struct options *o, struct table *t, int n)
{
	struct screen screen;
	int r = 0;

	screen_open(&screen, options_page(o));
	if (n > 0)
		r = table_print(t, stdout, screen.width, screen.colours);
	else
		(void)puts("No spools are configured: see spools in reclaimd.yaml(5)");
	screen_close(&screen);
	return r;
}

static int spools_show(const struct options *o, sd_bus_message *reply)
{
	json_t *array = o->json != JSON_OFF ? json_array() : NULL;
	_cleanup_table_ struct table *t = table_new(columns, COLUMNS);
	int n = t ? spools_read(reply, t, array) : -ENOMEM;

	if (n >= 0 && !array && !o->quiet)
		n = spools_print(o, t, n);
	if (n < 0) {
		json_decref(array);
		return client_broken(n);
	}
	json_print(array, o->json);
	return EXIT_DONE;
}

int verb_spools(const struct options *o, struct client *c)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListSpools", &reply, NULL);

	return r ? r : spools_show(o, reply);
}
