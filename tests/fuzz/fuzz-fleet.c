/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaim-fleet is told: by the database, six columns that are to be a unit, each ended by
 * NUL; or, if the first byte is below 32, by reclaimd, a message of that type. Of neither comes
 * anything but what has the shape of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/items.h"
#include "fleet/unit-columns.h"
#include "fuzz.h"

static void unit_must_hold(const struct unit_columns *u)
{
	const char *name = u->names;

	must(is_component_path(u->directory) && u->parent.type == S_IFDIR);
	must(fleet_slice_is_valid(u->slice, u->slices, u->n_names));
	for (size_t i = 0; i < u->n_names; i++, name += strlen(name) + 1)
		must(is_component(name) && u->ids[i].ino > 0 && (u->ids[i].type & S_IFMT));
	must(u->n_names == 0 || name == u->names + u->names_len);
}

static void columns_take(const char *text, size_t size)
{
	const char *columns[6] = { NULL };
	struct unit_columns u = { 0 }, again = { 0 };
	int r;

	for (size_t i = 0, at = 0; i < 6 && at < size; i++, at += strlen(text + at) + 1)
		columns[i] = text + at;
	r = unit_columns_read(&u, columns[0], columns[1], columns[2], columns[3], columns[4],
			      columns[5]);
	must(r == 0 || r == -EBADMSG);
	told(r == 0);
	if (r == 0) {
		char *ids = unit_columns_identities(&u), parent[IDENTITY_TEXT];

		unit_must_hold(&u);
		/* What is written of it is read as the same. */
		identity_text(parent, &u.parent);
		must(ids && unit_columns_read(&again, columns[0], parent, columns[2], columns[3],
					      columns[4], ids) == 0);
		must(again.n_names == u.n_names);
		must(u.n_names == 0 || memcmp(again.ids, u.ids, u.n_names * sizeof(*u.ids)) == 0);
		free(ids);
	}
	unit_columns_done(&u);
	unit_columns_done(&again);
}

/* A message as companion.c takes it. */
static int message_take(struct wire_in *in, struct items *q)
{
	union fleet_record m;
	struct join_filesystem fs;
	int r = fleet_get(in, &m);

	if (r < 0)
		return r;
	switch ((enum fleet_request)in->type) {
	case FLEET_JOIN:
		while ((r = fleet_get_item(in, &fs)) > 0)
			must(fs.name && fs.identity && fs.path);
		return r;
	case FLEET_PUBLISH:
		return items_add_publish(q, &m.publish_message, in);
	case FLEET_FINISH:
		return items_add_finish(q, &m.finish_message, in);
	case FLEET_RECALL:
		return items_add_recall(q, m.recall_message.job);
	case FLEET_FORGET:
		return items_add_forget(q, m.job_ended.job);
	case FLEET_CAPACITY:
	case FLEET_PROGRESS:
		return 0;
	case FLEET_REQUEST_NONE:
		break;
	}
	return 0;
}

static void message_try(const uint8_t *data, size_t size)
{
	struct wire_in in = { .type = data[0], .at = data + 1, .left = size - 1 };
	struct parameters p = { .n = 0 };
	struct items q = { 0 };
	const char *statement = NULL;
	int r = message_take(&in, &q);

	must(r == 0 || r == -EBADMSG);
	told(r == 0);
	if (items_batch(&q, "life", "me", &statement, &p) > 0)
		must(statement && !p.failed && p.n > 1);
	parameters_done(&p);
	items_done(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	must(copy);
	memcpy(copy, data, size);
	copy[size] = '\0';
	if (size > 0 && data[0] < 32)
		message_try((const uint8_t *)copy, size);
	else
		columns_take(copy, size);
	free(copy);
	return 0;
}

/* ---- what should be accepted ----------------------------------------------------------------- */

static void say_hex(struct words *w, const char *text, size_t len)
{
	sayf(w, "\\x");
	for (size_t i = 0; i < len; i++)
		sayf(w, "%02x", (unsigned char)text[i]);
}

static void say_identity(struct words *w, const char *type)
{
	sayf(w, "%u:%s%u:%s", 1 + choose(w, 1000000), chance(w, 10) ? "-" : "", choose(w, 1000000),
	     type);
}

static void say_columns(struct words *w)
{
	static const char end = '\0';
	uint32_t n = chance(w, 70) ? 1 + choose(w, 5) : 0;
	const char *directory = CHOOSE(w, "", "a", "a/b", "x y/\xff/z", "...", "a/../b", "/a");

	say_hex(w, directory, strlen(directory));
	say(w, &end, 1);
	say_identity(w, chance(w, 95) ? "d" : "f");
	say(w, &end, 1);
	if (n > 0)
		sayf(w, "0%c0%c", '\0', '\0');
	else
		sayf(w, "%u%c%u%c", choose(w, 8), '\0', 1 + choose(w, 8), '\0');
	sayf(w, "\\x");
	for (uint32_t i = 0; i < n; i++)
		sayf(w, "%02x00", 'a' + i);
	say(w, &end, 1);
	for (uint32_t i = 0; i < n; i++) {
		sayf(w, "%s", i > 0 ? " " : "");
		say_identity(w, CHOOSE(w, "f", "d", "l", "p", "s", "c", "b"));
	}
	say(w, &end, 1);
}

static void say_message(struct words *w)
{
	const struct unit_name name = { .name = "n", .id = { .ino = 7, .type = S_IFREG } };
	const struct unit_problem problem = { .path = "a/b", .what = "unlink", .error = -13 };
	struct wire_out o = { 0 };
	uint8_t type = (uint8_t)(chance(w, 50) ? FLEET_PUBLISH : 1 + choose(w, FLEET_FORGET));
	union fleet_record m;

	wire_begin(&o, type, 0);
	switch ((enum fleet_request)type) {
	case FLEET_JOIN:
		m.join_message = (struct join_message){ 1, "service=x", "a", "boot", "one", 0 };
		break;
	case FLEET_CAPACITY:
		m.capacity_message = (struct capacity_message){ "scratch", choose(w, 10),
								chance(w, 50), choose(w, 1000) };
		break;
	case FLEET_PUBLISH:
		m.publish_message =
			(struct publish_message){ .serial = any_number(w),
						  .owner = CHOOSE(w, NULL, "other"),
						  .job = 1 + choose(w, 10),
						  .uid = choose(w, 2000),
						  .filesystem = CHOOSE(w, "scratch", "b.c-d"),
						  .directory = CHOOSE(w, "", "a/b", "a//b"),
						  .parent = { .ino = 5, .type = S_IFDIR } };
		break;
	case FLEET_FINISH:
		m.finish_message =
			(struct finish_message){ any_number(w), choose(w, 100), any_number(w),
						 any_number(w), any_number(w),  chance(w, 50) };
		break;
	case FLEET_PROGRESS:
		m.unit_progress = (struct unit_progress){ choose(w, 9), any_number(w), 1 };
		break;
	case FLEET_RECALL:
		m.recall_message = (struct recall_message){ choose(w, 9) };
		break;
	case FLEET_FORGET:
		m.job_ended = (struct job_ended){ any_number(w) };
		break;
	case FLEET_REQUEST_NONE:
		break;
	}
	fleet_put(&o, &m);
	for (uint32_t i = type == FLEET_PUBLISH || type == FLEET_FINISH ? choose(w, 4) : 0; i > 0;
	     i--)
		fleet_put_item(&o, type == FLEET_PUBLISH ? (const void *)&name : &problem);
	say(w, &type, 1);
	say(w, o.data + sizeof(struct wire_header), o.len - sizeof(struct wire_header));
	wire_out_done(&o);
}

void grammar(struct words *w)
{
	w->n = 0;
	if (chance(w, 50))
		say_columns(w);
	else
		say_message(w);
}
