/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config-keys.h"
#include "config-policy.h"
#include "policy/globs.h"
#include "policy/series.h"
#include "base/similar.h"
#include "base/units.h"

struct reading {
	struct config *c;
	struct problems *p;
	int r;
};

/* The three that pacing has for all devices and for each, at an offset of what has them. Times and
 * rates outside of these ranges are slips of the hand. */
#define PACING_KEYS(at, auto_, least, unlimited)                                                   \
	{ .name = "latency",                                                                       \
	  .type = VALUE_LATENCY,                                                                   \
	  .offset = (at),                                                                          \
	  .range = { 50, 60 * USEC_PER_SEC },                                                      \
	  .preset = (auto_),                                                                       \
	  .expected = "auto, off, or a time from 50us to 1min such as 5ms" },                      \
		{ .name = "min-rate",                                                              \
		  .type = VALUE_RATE,                                                              \
		  .offset = (at) + offsetof(struct config_pacing, rate_min),                       \
		  .range = { KiB(1), 1ULL << 40 },                                                 \
		  .preset = (least),                                                               \
		  .expected = "a rate from 1KiB/s to 1TiB/s such as 8MiB/s" },                     \
	{                                                                                          \
		.name = "max-rate", .type = VALUE_RATE,                                            \
		.offset = (at) + offsetof(struct config_pacing, rate_max),                         \
		.range = { KiB(1), UINT64_MAX }, .preset = (unlimited),                            \
		.expected = "unlimited, or a rate of at least 1KiB/s such as 100MiB/s"             \
	}

static const struct key spool_keys[] = {
	{ .name = "settle",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config_spool, settle_usec),
	  .range = { 0, 365 * DAY },
	  .preset = "10s",
	  .expected = "a time from 0 to 365d such as 10s" },
	{ .name = "undo",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config_spool, undo_usec),
	  .range = { 0, 365 * DAY },
	  .expected = "a time from 0 to 365d such as 1h" },
	{ 0 },
};

static void spool_begin(void *element, const struct config *c)
{
	((struct config_spool *)element)->undo_usec = c->undo_usec;
}

static const struct named spools = {
	.array = offsetof(struct config, spools),
	.count = offsetof(struct config, n_spools),
	.size = sizeof(struct config_spool),
	.place = offsetof(struct config_spool, place),
	.tidy = path_tidy,
	.begin = spool_begin,
	.keys = spool_keys,
};

static const struct key device_keys[] = {
	PACING_KEYS(offsetof(struct config_device, pacing), NULL, NULL, NULL),
	{ 0 },
};

static void device_begin(void *element, const struct config *c)
{
	((struct config_device *)element)->pacing = c->pacing;
}

static const struct named devices = {
	.array = offsetof(struct config, devices),
	.count = offsetof(struct config, n_devices),
	.size = sizeof(struct config_device),
	.place = offsetof(struct config_device, place),
	.tidy = device_tidy,
	.begin = device_begin,
	.keys = device_keys,
};

static const struct key pacing_keys[] = {
	PACING_KEYS(offsetof(struct config, pacing), "auto", "8MiB/s", "unlimited"),
	{ .name = "devices",
	  .kind = KEY_NAMED,
	  .named = &devices,
	  .expected = "a map of devices, such as /backups: {latency: 20ms}" },
	{ 0 },
};

static const struct key urgent_keys[] = {
	{ .name = "below",
	  .type = VALUE_SPACE,
	  .offset = offsetof(struct config, urgent_below),
	  .preset = "5%",
	  .expected = "a share from 0% to 100%, or a size such as 20G" },
	{ .name = "until",
	  .type = VALUE_SPACE,
	  .offset = offsetof(struct config, urgent_until),
	  .preset = "10%",
	  .expected = "a share from 0% to 100%, or a size such as 40G" },
	{ 0 },
};

static const struct key limits_keys[] = {
	{ .name = "jobs-per-user",
	  .type = VALUE_COUNT,
	  .offset = offsetof(struct config, jobs_per_user),
	  .range = { 1, 10000000 },
	  .preset = "100000",
	  .expected = "a number from 1 to 10000000" },
	{ .name = "names-per-user",
	  .type = VALUE_COUNT,
	  .offset = offsetof(struct config, names_per_user),
	  .range = { 1000, 1000000000 },
	  .preset = "10000000",
	  .expected = "a number from 1000 to 1000000000" },
	{ 0 },
};

static const struct key strategy_keys[] = {
	{ .name = "moosefs",
	  .type = VALUE_MOOSEFS,
	  .offset = offsetof(struct config, moosefs_snapshot),
	  .preset = "unlink",
	  .expected = "unlink or snapshot" },
	{ .name = "moosefs-stall",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config, moosefs_stall_usec),
	  .range = { USEC_PER_MSEC, 10 * USEC_PER_SEC },
	  .preset = "20ms",
	  .expected = "a time from 1ms to 10s such as 20ms" },
	{ 0 },
};

/* Read in this order, whatever the order of the file: what others begin with comes first. */
static const struct key root_keys[] = {
	{ .name = "undo",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config, undo_usec),
	  .range = { 0, 365 * DAY },
	  .preset = "0",
	  .expected = "a time from 0 to 365d such as 1h" },
	{ .name = "spools",
	  .kind = KEY_NAMED,
	  .named = &spools,
	  .expected = "a map of directories, such as /backups/.trash: {settle: 10s}" },
	{ .name = "pacing",
	  .kind = KEY_SECTION,
	  .keys = pacing_keys,
	  .expected = "a map with latency, min-rate, max-rate or devices" },
	{ .name = "urgent",
	  .kind = KEY_SECTION,
	  .keys = urgent_keys,
	  .expected = "a map with below and until" },
	{ .name = "strategy",
	  .kind = KEY_SECTION,
	  .keys = strategy_keys,
	  .expected = "a map with moosefs and moosefs-stall" },
	{ .name = "staging",
	  .type = VALUE_STAGING,
	  .offset = offsetof(struct config, staging),
	  .preset = "auto",
	  .expected = "auto or off" },
	{ .name = "history",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config, history_usec),
	  .range = { 0, 36500 * DAY },
	  .preset = "30d",
	  .expected = "a time from 0 to 36500d such as 30d" },
	{ .name = "limits",
	  .kind = KEY_SECTION,
	  .keys = limits_keys,
	  .expected = "a map with jobs-per-user or names-per-user" },
	{ .name = "protect",
	  .kind = KEY_PATHS,
	  .offset = offsetof(struct config, protect),
	  .expected = "a list of absolute paths, such as [/srv/keep]" },
	{ .name = "policies",
	  .kind = KEY_NAMED,
	  .named = &config_policies,
	  .expected = "a map of policies, such as backups: {path: /backups, ...}" },
	{ 0 },
};

static void set_presets(const struct key *keys, void *target)
{
	for (const struct key *k = keys; k->name; k++) {
		if (k->kind == KEY_SECTION)
			set_presets(k->keys, target);
		else if (k->preset)
			(void)value_read(k->type, k->range, k->preset, (char *)target + k->offset);
	}
}

int schema_defaults(struct config *c)
{
	set_presets(root_keys, c);
	c->protect = calloc(1, sizeof(c->protect[0]));
	return c->protect ? 0 : -ENOMEM;
}

/* Says what was found where something else was expected. */
static void complain_found(struct reading *r, const struct node *n, const struct crumb *in,
			   const char *expected)
{
	_cleanup_free_ char *shown = n->kind == NODE_SCALAR ? problems_quote(n->text) : NULL;

	if (n->kind == NODE_BROKEN)
		return;
	if (n->kind == NODE_LIST)
		problems_add(r->p, n->place, in, "found a list, expected %s", expected);
	else if (n->kind == NODE_MAP)
		problems_add(r->p, n->place, in, "found a map, expected %s", expected);
	else if (n->empty)
		problems_add(r->p, n->place, in, "found nothing, expected %s", expected);
	else
		problems_add(r->p, n->place, in, "found \"%s\", expected %s", shown ? shown : "?",
			     expected);
}

/* A key with nothing behind it is an empty map, where a map is expected: what is left when
 * somebody comments out all that was in it. */
static bool is_map(struct reading *r, struct node *n, const struct crumb *in, const char *expected)
{
	if (n->kind == NODE_SCALAR && n->empty)
		n->kind = NODE_MAP;
	if (n->kind != NODE_MAP)
		complain_found(r, n, in, expected);
	return n->kind == NODE_MAP;
}

/* True and a complaint if the i-th key of a map is there before. */
static bool is_repeated(struct reading *r, const struct node *map, size_t i, const struct crumb *in)
{
	struct crumb at = { .up = in, .key = map->v[i]->text };
	struct node *first = NULL;

	(void)node_get(map, map->v[i]->text, &first);
	if (!first || first == map->v[i])
		return false;
	problems_add(r->p, map->v[i]->place, &at,
		     "is there twice, expected once: the first is in line %u", first->place.line);
	return true;
}

static const struct key *key_find(const struct key *keys, const char *name)
{
	for (const struct key *k = keys; k->name; k++)
		if (strcmp(k->name, name) == 0)
			return k;
	return NULL;
}

static void complain_unknown(struct reading *r, const struct node *key, const struct key *keys,
			     const struct crumb *in)
{
	_cleanup_free_ char *known = NULL;
	struct crumb at = { .up = in, .key = key->text };
	size_t least = SIZE_MAX, len;
	const char *near = NULL;
	FILE *f;

	for (const struct key *k = keys; k->name; k++) {
		size_t n = slips_between(key->text, k->name);

		if (n < least) {
			least = n;
			near = k->name;
		}
	}
	if (near) {
		problems_add(r->p, key->place, &at, "unknown key: did you mean %s?", near);
		return;
	}
	f = open_memstream(&known, &len);
	for (const struct key *k = keys; f && k->name; k++)
		(void)fprintf(f, "%s%s", k == keys ? "" : ", ", k->name);
	if (f && fclose(f) == 0)
		problems_add(r->p, key->place, &at, "unknown key: expected one of %s", known);
	else
		r->r = -ENOMEM;
}

static void read_section(struct reading *r, const struct key *keys, struct node *map,
			 const struct crumb *in, void *target);

static void read_element(struct reading *r, const struct named *named, struct node *key,
			 struct node *value, const struct crumb *in, char *element)
{
	struct crumb at = { .up = in, .key = key->text };
	char *name = strdup(key->text);

	if (!name) {
		r->r = -ENOMEM;
		return;
	}
	*(char **)element = name;
	*(struct config_place *)(element + named->place) = key->place;
	set_presets(named->keys, element);
	if (named->begin)
		named->begin(element, r->c);
	if (is_map(r, value, &at, "a map, such as {}"))
		read_section(r, named->keys, value, &at, element);
}

static void read_named(struct reading *r, const struct named *named, struct node *map,
		       const struct crumb *in)
{
	char **array = (char **)((char *)r->c + named->array);
	size_t *count = (size_t *)((char *)r->c + named->count);

	*array = calloc(map->n / 2 + 1, named->size);
	if (!*array) {
		r->r = -ENOMEM;
		return;
	}
	for (size_t i = 0; i + 1 < map->n; i += 2) {
		const char *expected = named->tidy(map->v[i]->text);

		if (expected) {
			complain_found(r, map->v[i], in, expected);
			continue;
		}
		if (!is_repeated(r, map, i, in))
			read_element(r, named, map->v[i], map->v[i + 1], in,
				     *array + (*count)++ * named->size);
	}
}

static bool is_listed(char *const *v, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i], text) == 0)
			return true;
	return false;
}

static void read_paths(struct reading *r, struct node *list, const struct crumb *in, char ***ret)
{
	char **v = calloc(list->n + 1, sizeof(*v));
	size_t n = 0;

	if (!v) {
		r->r = -ENOMEM;
		return;
	}
	free(*ret); /* the empty one of the defaults */
	*ret = v;
	for (size_t i = 0; i < list->n; i++) {
		struct node *item = list->v[i];
		const char *expected = "an absolute path, such as /srv/keep";

		if (item->kind == NODE_SCALAR)
			expected = path_tidy(item->text);
		if (expected) {
			complain_found(r, item, in, expected);
			continue;
		}
		if (is_listed(v, n, item->text))
			complain_found(r, item, in, "each path once");
		v[n] = strdup(item->text);
		if (!v[n]) {
			r->r = -ENOMEM;
			return;
		}
		n++;
	}
}

static void read_value(struct reading *r, const struct key *key, struct node *n,
		       const struct crumb *in, void *target)
{
	const char *expected = NULL;

	/* What may be wrong with an expression is more than one thing. */
	if (n->kind == NODE_SCALAR && key->type == VALUE_REGEX)
		expected = series_check(n->text);
	if (n->kind != NODE_SCALAR || expected ||
	    value_read(key->type, key->range, n->text, (char *)target + key->offset) < 0)
		complain_found(r, n, in, expected ? expected : key->expected);
	else if (key->place > 0)
		*(struct config_place *)((char *)target + key->place) = n->place;
}

/* One pattern is a list of one. */
static void read_globs(struct reading *r, const struct node *n, const struct crumb *in, char ***ret)
{
	struct node *const *items = n->kind == NODE_LIST ? n->v : (struct node *const *)&n;
	size_t n_items = n->kind == NODE_LIST ? n->n : 1;
	char **v = calloc(n_items + 1, sizeof(*v));

	*ret = v;
	if (!v)
		r->r = -ENOMEM;
	for (size_t i = 0; v && i < n_items; i++) {
		const char *expected = "a pattern for names, such as \"*.tar.gz\"";

		if (items[i]->kind == NODE_SCALAR)
			expected = glob_check(items[i]->text);
		if (expected)
			complain_found(r, items[i], in, expected);
		v[i] = strdup(expected ? "?" : items[i]->text);
		if (!v[i]) {
			r->r = -ENOMEM;
			return;
		}
	}
}

static void read_band(struct reading *r, const struct key *key, struct node *n,
		      const struct crumb *in, void *target)
{
	const struct key *from = &key->keys[0], *to = &key->keys[1];

	if (n->kind == NODE_MAP)
		read_section(r, key->keys, n, in, target);
	else
		read_value(r, key, n, in, target);
	if (n->kind != NODE_MAP || !node_get(n, to->name, NULL))
		memcpy((char *)target + to->offset, (char *)target + from->offset,
		       to->offset - from->offset);
}

static void read_key(struct reading *r, const struct key *key, struct node *n,
		     const struct crumb *in, void *target)
{
	switch (key->kind) {
	case KEY_VALUE:
		read_value(r, key, n, in, target);
		break;
	case KEY_SECTION:
		if (is_map(r, n, in, key->expected))
			read_section(r, key->keys, n, in, target);
		break;
	case KEY_NAMED:
		if (is_map(r, n, in, key->expected))
			read_named(r, key->named, n, in);
		break;
	case KEY_PATHS:
		if (n->kind == NODE_LIST)
			read_paths(r, n, in, (char ***)((char *)target + key->offset));
		else
			complain_found(r, n, in, key->expected);
		break;
	case KEY_GLOBS:
		read_globs(r, n, in, (char ***)((char *)target + key->offset));
		break;
	case KEY_BAND:
		read_band(r, key, n, in, target);
		break;
	}
}

static void read_section(struct reading *r, const struct key *keys, struct node *map,
			 const struct crumb *in, void *target)
{
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (!key_find(keys, map->v[i]->text))
			complain_unknown(r, map->v[i], keys, in);
		else
			(void)is_repeated(r, map, i, in);
	for (const struct key *k = keys; k->name; k++) {
		struct crumb at = { .up = in, .key = k->name };
		struct node *value = node_get(map, k->name, NULL);

		if (value)
			read_key(r, k, value, &at, target);
	}
}

int schema_read(struct config *c, struct node *root, struct problems *p)
{
	struct reading r = { .c = c, .p = p };

	if (root && is_map(&r, root, NULL, "a map with keys such as spools or pacing"))
		read_section(&r, root_keys, root, NULL, c);
	return r.r;
}
