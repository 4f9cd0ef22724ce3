/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl fleet: the hosts of a fleet, and what they do, as its database has it; and its
 * schema. reclaim-fleet speaks to the database.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   init   {version, before}: of the schema, now and before
 *   hosts  {hosts, filesystems}
 *   units  {jobs, units}
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/similar.h"
#include "base/units.h"
#include "ctl/common/client.h"
#include "ctl/common/options.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "fleet-call.h"

static const char *const commands[] = { "hosts", "units", "init" };

static const struct table_column host_columns[] = {
	{ "HOST", 0 },
	{ "STATE", 0 },
	{ "JOBS", COLUMN_RIGHT | COLUMN_SPARE },
	{ "CLAIMED", COLUMN_RIGHT | COLUMN_SPARE },
	{ "FILESYSTEMS", 0 },
};

static const struct table_column job_columns[] = {
	{ "OWNER", 0 },
	{ "JOB", COLUMN_RIGHT },
	{ "FILESYSTEM", COLUMN_SPARE },
	{ "OPEN", COLUMN_RIGHT },
	{ "CLAIMED", COLUMN_RIGHT },
	{ "ENTRIES", COLUMN_RIGHT },
	{ "BYTES", COLUMN_RIGHT },
	{ "ERRORS", COLUMN_RIGHT },
};

static const struct table_column unit_columns[] = {
	{ "UNIT", COLUMN_RIGHT | COLUMN_SPARE },
	{ "OWNER", 0 },
	{ "JOB", COLUMN_RIGHT },
	{ "HOST", 0 },
	{ "ENTRIES", COLUMN_RIGHT | COLUMN_SPARE },
	{ "WHAT", 0 },
};

/* A cell of a number. */
static const char *count(char buf[static 28], const json_t *row, const char *key)
{
	return count_format(buf, 28, json_number(row, key));
}

/* Of a job or a unit, as commands take it. */
static const char *id(char buf[static 28], const json_t *row, const char *key)
{
	(void)snprintf(buf, 28, "%" PRIu64, json_number(row, key));
	return buf;
}

/* Its part of what all hosts may do there together; a host that is gone has none. */
static void part_print(FILE *stream, const json_t *filesystem, const json_t *host)
{
	uint64_t all = json_number(filesystem, "max_rate");
	char a[16], b[16];

	if (all > 0 && json_is_true(json_object_get(host, "present")))
		(void)fprintf(stream, " (%s/s of %s/s)",
			      size_format(a, sizeof(a), json_number(filesystem, "rate")),
			      size_format(b, sizeof(b), all));
}

/* "scratch at /mnt/scratch, ..." */
static char *mounts_of(const json_t *filesystems, const json_t *host)
{
	char *text = NULL;
	size_t len, i;
	const json_t *f;
	FILE *stream = open_memstream(&text, &len);

	if (!stream)
		return NULL;
	json_array_foreach(filesystems, i, f) {
		if (strcmp(json_text(f, "host"), json_text(host, "name")) != 0)
			continue;
		(void)fprintf(stream, "%s%s at %s", ftello(stream) > 0 ? ", " : "",
			      json_text(f, "name"), json_text(f, "path"));
		part_print(stream, f, host);
	}
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

static void state_format(char *buf, size_t len, const json_t *host)
{
	double lease = json_number_value(json_object_get(host, "lease_seconds"));
	char span[32];

	if (json_is_true(json_object_get(host, "present")))
		(void)snprintf(buf, len, "present");
	else
		(void)snprintf(
			buf, len, "gone for %s",
			timespan_format(span, sizeof(span),
					(uint64_t)MIN(MAX(-lease, 0.0), 1e9) * USEC_PER_SEC));
}

static int hosts_fill(struct table *t, const json_t *v)
{
	const json_t *filesystems = json_object_get(v, "filesystems"), *h;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(v, "hosts"), i, h) {
		char jobs[28], claimed[28], state[128];
		_cleanup_free_ char *mounts = mounts_of(filesystems, h);
		const char *const cells[] = { json_text(h, "name"), state, count(jobs, h, "jobs"),
					      count(claimed, h, "claimed"), mounts };

		state_format(state, sizeof(state), h);
		if (r >= 0)
			r = table_add(t, cells);
	}
	return r;
}

static int jobs_fill(struct table *t, const json_t *v)
{
	const json_t *j;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(v, "jobs"), i, j) {
		char job[28], open[28], claimed[28], entries[28], bytes[16], errors[28];
		const char *const cells[] = {
			json_text(j, "owner"),
			id(job, j, "job"),
			json_text(j, "filesystem"),
			count(open, j, "open"),
			count(claimed, j, "claimed"),
			count(entries, j, "entries"),
			size_format(bytes, sizeof(bytes), json_number(j, "bytes")),
			count(errors, j, "errors"),
		};

		if (r >= 0)
			r = table_add(t, cells);
	}
	return r;
}

/* "1/d003: 40 names: f00000 f00001 ...", as much of it as fits. */
static char *what_of(const json_t *unit)
{
	const char *directory = json_text(unit, "directory");
	uint64_t n = json_number(unit, "names");
	char names[COUNTED_SIZE] = "", *text;

	if (n > 1)
		(void)counted_format(names, sizeof(names), n, "name", "names");
	if (asprintf(&text, "%s%s%s%s%s", directory, directory[0] ? ": " : "", names,
		     n > 1 ? ": " : "", json_text(unit, "what")) < 0)
		return NULL;
	return text;
}

static int units_fill(struct table *t, const json_t *v)
{
	const json_t *u;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(v, "units"), i, u) {
		_cleanup_free_ char *what = what_of(u);
		char unit[28], job[28], entries[28];
		const char *host = json_text(u, "host");
		const char *const cells[] = {
			id(unit, u, "unit"),  json_text(u, "owner"),        id(job, u, "job"),
			host[0] ? host : "-", count(entries, u, "entries"), what
		};

		if (r >= 0)
			r = table_add(t, cells);
	}
	return r;
}

static int table_show(const struct screen *screen, const struct table_column *columns, size_t n,
		      int (*fill)(struct table *t, const json_t *v), const json_t *v)
{
	_cleanup_table_ struct table *t = table_new(columns, n);
	int r = t ? fill(t, v) : -ENOMEM;

	return r < 0 ? r : table_print(t, stdout, screen->width, screen->colours);
}

static int show(const struct options *o, const char *command, json_t *v)
{
	bool hosts = strcmp(command, "hosts") == 0;
	const char *key = hosts ? "hosts" : "jobs";
	struct screen screen;
	int r = 0;

	if (strcmp(command, "init") == 0) {
		uint64_t version = json_number(v, "version"), before = json_number(v, "before");

		if (version == before)
			(void)printf("the database has version %" PRIu64 " of the schema already\n",
				     version);
		else
			(void)printf("the database has version %" PRIu64 " of the schema now\n",
				     version);
		return EXIT_DONE;
	}
	screen_open(&screen, options_page(o));
	if (json_array_size(json_object_get(v, key)) == 0)
		(void)puts(hosts ? "no host has joined yet" : "no job is shared now");
	else if (hosts)
		r = table_show(&screen, host_columns, ELEMENTSOF(host_columns), hosts_fill, v);
	else
		r = table_show(&screen, job_columns, ELEMENTSOF(job_columns), jobs_fill, v);
	if (r >= 0 && !hosts && json_array_size(json_object_get(v, "units")) > 0) {
		(void)putchar('\n');
		r = table_show(&screen, unit_columns, ELEMENTSOF(unit_columns), units_fill, v);
	}
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

static bool is_known(const char *command)
{
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		if (strcmp(command, commands[i]) == 0)
			return true;
	return false;
}

/* Returns 0, or EXIT_USAGE after having said what is wrong. */
static int words_check(const struct options *o, const char *command)
{
	struct similar similar = { .word = command };
	const char *wrong = NULL;

	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		similar_offer(&similar, commands[i]);
	if (!is_known(command) && similar.near) {
		complain(command, "no such command of fleet: did you mean %s?", similar.near);
		return EXIT_USAGE;
	}
	if (!is_known(command))
		wrong = "give hosts, units or init";
	else if (o->n_paths != 1)
		wrong = "hosts, units and init take no arguments";
	if (!wrong)
		return 0;
	complain("fleet", "%s: see reclaimctl fleet --help", wrong);
	return EXIT_USAGE;
}

int verb_fleet(const struct options *o, struct client *c)
{
	const char *command = o->n_paths > 0 ? o->paths[0] : "";
	json_auto_t *v = NULL;
	int r = words_check(o, command);

	(void)c;
	if (r == 0)
		r = fleet_ask(o, command, &v);
	if (r == 0 && o->json != JSON_OFF)
		json_print(json_incref(v), o->json);
	else if (r == 0 && !o->quiet)
		r = show(o, command, v);
	return r;
}
