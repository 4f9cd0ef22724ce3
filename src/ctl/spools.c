/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl spools: the directories whose content the daemon deletes.
 *
 * With --json, an array with one object for each: {path, state, message, settle_usec, undo_usec,
 * waiting}. Keys are only ever added.
 */
#include <errno.h>
#include <stdio.h>

#include "ctl/common/answer.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "base/units.h"

static const struct table_column columns[] = {
	{ "STATE", COLUMN_STATE },
	{ "SETTLE", COLUMN_RIGHT },
	{ "UNDO", COLUMN_RIGHT },
	{ "WAITING", COLUMN_RIGHT },
	{ "PATH", 0 },
	{ "MESSAGE", 0 },
};

static const char *span_or_dash(char *buf, size_t len, uint64_t usec)
{
	return usec > 0 ? timespan_format(buf, len, usec) : "-";
}

static int table_show(const json_t *spools, const struct options *o)
{
	_cleanup_table_ struct table *t = table_new(columns, ELEMENTSOF(columns));
	int r = t ? 0 : -ENOMEM;
	struct screen screen;
	const json_t *s;
	size_t i;

	screen_open(&screen, options_page(o));
	json_array_foreach(spools, i, s) {
		char settle[32], undo[32], waiting[28];
		const char *cells[ELEMENTSOF(columns)] = {
			json_text(s, "state"),
			span_or_dash(settle, sizeof(settle), json_number(s, "settle_usec")),
			span_or_dash(undo, sizeof(undo), json_number(s, "undo_usec")),
			count_format(waiting, sizeof(waiting), json_number(s, "waiting")),
			json_text(s, "path"),
			json_text(s, "message"),
		};

		if (r >= 0)
			r = table_add(t, cells);
	}
	if (r >= 0 && o->no_legend)
		table_hide_titles(t);
	if (i == 0 && !o->no_legend)
		(void)puts("No spools are configured: see spools in reclaimd.yaml(5)");
	else if (i > 0 && r >= 0)
		r = table_print(t, stdout, screen.width, screen.colours);
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

int verb_spools(const struct options *o, struct client *c)
{
	static const char *const keys[] = { "path",      "state",   "message", "settle_usec",
					    "undo_usec", "waiting", NULL };
	json_auto_t *spools = NULL;
	sd_bus_message *reply = NULL;
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListSpools", &reply, NULL);

	if (r == 0)
		r = answer_take(reply, "a(ayssttt)", keys, &spools);
	if (r == 0 && o->json != JSON_OFF)
		json_print(json_incref(spools), o->json);
	else if (r == 0 && !o->quiet)
		r = table_show(spools, o);
	return r;
}
