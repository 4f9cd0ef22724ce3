/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-adopt.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/screen.h"
#include "base/fleet-name.h"
#include "base/units.h"
#include "ctl/common/client.h"
#include "ctl/common/options.h"
#include "ctl/output/messages.h"
#include "fleet-call.h"

/* ---- the database ------------------------------------------------------------------------- */

static const json_t *host_find(const json_t *v, const char *name)
{
	const json_t *h;
	size_t i;

	json_array_foreach(json_object_get(v, "hosts"), i, h) {
		if (strcmp(json_text(h, "name"), name) == 0)
			return h;
	}
	return NULL;
}

static bool is_present(const json_t *v, const char *name)
{
	return json_is_true(json_object_get(host_find(v, name), "present"));
}

/* Would it let this host adopt that one? Returns 0 or an exit status. v: its hosts. */
static int host_check(const struct options *o, const json_t *v, const char *host, const char *own)
{
	const json_t *h = host_find(v, host);
	const char *by = h ? json_text(h, "adopted_by") : "";

	if (!h || is_present(v, host) || (by[0] && strcmp(by, own) != 0)) {
		complain(host, "%s",
			 !h      ? "there is no such host in the fleet"
			 : by[0] ? "another host has adopted it: see reclaimctl fleet hosts"
				 : "this host is there: only one that is gone can be adopted");
		return EXIT_FAILED;
	}
	/* Else its reclaimd would not hear of it; or the database is that of another fleet. */
	if (o->dry_run || is_present(v, own))
		return 0;
	complain(own, "this host is not connected to that database: see reclaimctl status");
	return EXIT_FAILED;
}

static const json_t *mount_find(const json_t *v, const char *filesystem, const char *host)
{
	const json_t *f;
	size_t i;

	json_array_foreach(json_object_get(v, "filesystems"), i, f) {
		if (strcmp(json_text(f, "name"), filesystem) == 0 &&
		    strcmp(json_text(f, "host"), host) == 0)
			return f;
	}
	return NULL;
}

/* What that host has shared and this one does not, where something of it may be left. */
static void unshared_add(json_t *items, const json_t *v, const char *host, const char *own)
{
	const json_t *f;
	size_t i;

	json_array_foreach(json_object_get(v, "filesystems"), i, f) {
		const char *name = json_text(f, "name");
		char *why = NULL;

		if (strcmp(json_text(f, "host"), host) != 0 || mount_find(v, name, own))
			continue;
		if (asprintf(&why,
			     "%s had the filesystem %s there, which this host does not share: "
			     "nothing on it was looked at",
			     host, name) < 0)
			why = NULL;
		(void)json_array_append_new(
			items, json_pack("{sOsnsisssnss*}", "path", json_object_get(f, "path"),
					 "uid", "names", 0, "outcome", "kept", "job", "why", why));
		free(why);
	}
}

static int host_adopt(const struct options *o, const char *host, const char *own)
{
	const char *const words[] = { "adopt", host, own, NULL };
	json_auto_t *v = NULL;

	return fleet_ask_words(o, words, &v);
}

/* ---- the daemon --------------------------------------------------------------------------- */

/* One thing that was found, of an answer. Returns 1, 0 at the end, or a negative errno. */
static int item_read(sd_bus_message *m, json_t **ret)
{
	const char *outcome, *why;
	uint64_t names, job;
	char text[PATH_MAX];
	const void *path;
	uint32_t uid;
	size_t len;
	int r = sd_bus_message_enter_container(m, 'r', "ayutsts");

	if (r <= 0)
		return r;
	r = sd_bus_message_read_array(m, 'y', &path, &len);
	if (r >= 0)
		r = sd_bus_message_read(m, "utsts", &uid, &names, &outcome, &job, &why);
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%.*s", (int)MIN(len, sizeof(text) - 1),
		       len > 0 ? (const char *)path : "");
	*ret = json_pack("{sosIsIss}", "path", json_path(text), "uid", (json_int_t)uid, "names",
			 (json_int_t)names, "outcome", outcome);
	if (!*ret)
		return -ENOMEM;
	(void)json_object_set_new(*ret, "job",
				  job > 0 ? json_integer((json_int_t)job) : json_null());
	if (*why)
		(void)json_object_set_new(*ret, "why", json_words(why));
	return 1;
}

static int items_read(sd_bus_message *m, json_t *items)
{
	json_t *item = NULL;
	int r = sd_bus_message_enter_container(m, 'a', "(ayutsts)");

	while (r >= 0 && (r = item_read(m, &item)) > 0)
		(void)json_array_append_new(items, item);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Returns 0 or an exit status. */
static int daemon_call(const struct options *o, const char *host, bool dry_run, json_t *items)
{
	_cleanup_client_ struct client *c = NULL;
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m;
	int r = client_open(&c, o, /* socket_first= */ false);

	if (r)
		return r;
	m = client_message(c, MANAGER_PATH, MANAGER_INTERFACE, "AdoptHost");
	if (!m)
		return EXIT_FAILED;
	r = sd_bus_message_append(m, "sa{sv}", host, 1, "dry-run", "b", (int)dry_run);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	/* It goes through all that was left. */
	r = client_send(c, m, UINT64_MAX, &reply);
	if (r)
		return r;
	r = items_read(reply, items);
	return r < 0 ? client_broken(r) : 0;
}

/* ---- what is said ------------------------------------------------------------------------- */

static bool is_kept(const json_t *item)
{
	return strcmp(json_text(item, "outcome"), "kept") == 0;
}

static size_t kept_count(const json_t *items)
{
	const json_t *item;
	size_t i, n = 0;

	json_array_foreach(items, i, item)
		n += is_kept(item);
	return n;
}

static void item_print(const json_t *item)
{
	const char *path = json_text(item, "path");
	uint64_t uid = json_number(item, "uid");
	char names[COUNTED_SIZE];
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)counted_format(names, sizeof(names), json_number(item, "names"), "name", "names");
	if (is_kept(item))
		(void)fprintf(out, "kept: %s: %s", path, json_text(item, "why"));
	else if (*json_text(item, "why"))
		(void)fprintf(out, "%s: %s", path, json_text(item, "why"));
	else if (json_number(item, "job") > 0)
		(void)fprintf(out, "Job %" PRIu64 ": deletes %s, %s of uid %" PRIu64,
			      json_number(item, "job"), path, names, uid);
	else
		(void)fprintf(out, "would be deleted: %s, %s of uid %" PRIu64, path, names, uid);
	sentence_end(&line);
}

static void items_print(const json_t *items, const char *host)
{
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item)
		item_print(item);
	if (json_array_size(items) == 0)
		(void)printf("nothing of %s is left in staging\n", host);
	else if (kept_count(items) > 0)
		(void)printf(
			"What is kept is not deleted: move it to its place, or to another one, "
			"or delete it by hand\n");
}

/* The database last: afterwards that host cannot join any more. */
static int adopt(const struct options *o, const char *host, const char *own, json_t *items)
{
	json_auto_t *v = NULL, *seen = json_array();
	int r = fleet_ask(o, "hosts", &v);

	if (r == 0)
		r = host_check(o, v, host, own);
	if (r == 0)
		r = daemon_call(o, host, /* dry_run= */ true, o->dry_run ? items : seen);
	if (r == 0 && !o->dry_run)
		r = host_adopt(o, host, own);
	if (r == 0 && !o->dry_run)
		r = daemon_call(o, host, /* dry_run= */ false, items);
	if (r == 0)
		unshared_add(items, v, host, own);
	return r;
}

int fleet_adopt_host(const struct options *o, const char *host)
{
	char own[FLEET_NAME_SIZE];
	json_t *items;
	bool kept;
	int r;

	if (!fleet_name_is_valid(host)) {
		_cleanup_free_ char *shown = screen_name(host);

		complain(shown, "no host can be called so: see reclaimctl fleet hosts");
		return EXIT_USAGE;
	}
	r = fleet_own_name(o, own);
	if (r == 0 && strcmp(host, own) == 0) {
		complain(host, "is this host itself: it ends its own jobs");
		r = EXIT_FAILED;
	}
	if (r)
		return r;
	items = json_array();
	r = adopt(o, host, own, items);
	kept = kept_count(items) > 0;
	if (r == 0 && !o->dry_run)
		outcome_note("%s was adopted", host);
	if (r == 0 && o->json == JSON_OFF && !o->quiet)
		items_print(items, host);
	if (r == 0 && o->json != JSON_OFF)
		json_print(items, o->json);
	else
		json_decref(items);
	return r == 0 && kept && !o->dry_run ? EXIT_PARTLY : r;
}
