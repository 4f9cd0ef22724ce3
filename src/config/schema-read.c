/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/similar.h"
#include "config-schema.h"
#include "policy/globs.h"
#include "policy/series.h"

struct schema_reading {
	struct config *c;
	struct problems *p;
	int r;
};

static void set_presets(const struct config_key *keys, void *target)
{
	for (const struct config_key *k = keys; k->name; k++) {
		if (k->kind == KEY_SECTION)
			set_presets(k->keys, target);
		else if (k->preset)
			(void)value_read(k->type, k->limits, k->preset, (char *)target + k->offset);
	}
}

int schema_defaults(struct config *c)
{
	set_presets(root_keys, c);
	c->protect = calloc(1, sizeof(c->protect[0]));
	return c->protect ? 0 : -ENOMEM;
}

/* Says what was found where something else was expected. */
static void complain_found(struct schema_reading *r, const struct yaml_node *n,
			   const struct crumb *in, const char *expected)
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
 * all that was in it is commented out. */
static bool is_map(struct schema_reading *r, struct yaml_node *n, const struct crumb *in,
		   const char *expected)
{
	if (n->kind == NODE_SCALAR && n->empty)
		n->kind = NODE_MAP;
	if (n->kind != NODE_MAP)
		complain_found(r, n, in, expected);
	return n->kind == NODE_MAP;
}

/* True and a complaint if the i-th key of a map is there before. */
static bool is_repeated(struct schema_reading *r, const struct yaml_node *map, size_t i,
			const struct crumb *in)
{
	struct crumb at = { .up = in, .key = map->v[i]->text };
	struct yaml_node *first = NULL;

	(void)node_get(map, map->v[i]->text, &first);
	if (!first || first == map->v[i])
		return false;
	problems_add(r->p, map->v[i]->place, &at,
		     "is there twice, expected once: the first is in line %u", first->place.line);
	return true;
}

static const struct config_key *key_find(const struct config_key *keys, const char *name)
{
	for (const struct config_key *k = keys; k->name; k++)
		if (strcmp(k->name, name) == 0)
			return k;
	return NULL;
}

static void complain_unknown(struct schema_reading *r, const struct yaml_node *key,
			     const struct config_key *keys, const struct crumb *in)
{
	_cleanup_free_ char *known = NULL;
	struct crumb at = { .up = in, .key = key->text };
	size_t least = SIZE_MAX, len;
	const char *near = NULL;
	FILE *f;

	for (const struct config_key *k = keys; k->name; k++) {
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
	for (const struct config_key *k = keys; f && k->name; k++)
		(void)fprintf(f, "%s%s", k == keys ? "" : ", ", k->name);
	if (f && fclose(f) == 0)
		problems_add(r->p, key->place, &at, "unknown key: expected one of %s", known);
	else
		r->r = -ENOMEM;
}

static void read_section(struct schema_reading *r, const struct config_key *keys,
			 struct yaml_node *map, const struct crumb *in, void *target);

static void read_element(struct schema_reading *r, const struct config_named *named,
			 struct yaml_node *key, struct yaml_node *value, const struct crumb *in,
			 char *element)
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

static void read_named(struct schema_reading *r, const struct config_named *named,
		       struct yaml_node *map, const struct crumb *in)
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

static const char *glob_expected(char *glob)
{
	return glob_check(glob);
}

/* A list of paths, each once, or of patterns, of which one is a list of one. */
static void read_strings(struct schema_reading *r, const struct config_key *key,
			 struct yaml_node *n, const struct crumb *in, void *target)
{
	bool paths = key->kind == KEY_PATHS;
	const char *(*check)(char *text) = paths ? path_tidy : glob_expected;
	struct yaml_node *const *items = n->kind == NODE_LIST ? n->v : &n;
	size_t n_items = n->kind == NODE_LIST ? n->n : 1;
	char ***ret = (char ***)((char *)target + key->offset), **v;

	v = calloc(n_items + 1, sizeof(*v));
	if (!v) {
		r->r = -ENOMEM;
		return;
	}
	free(*ret); /* the empty one of the defaults */
	*ret = v;
	for (size_t i = 0, k = 0; i < n_items; i++) {
		const char *expected = paths ? "an absolute path, such as /srv/keep"
					     : "a pattern for names, such as \"*.tar.gz\"";

		if (items[i]->kind == NODE_SCALAR)
			expected = check(items[i]->text);
		for (size_t j = 0; paths && !expected && j < k; j++)
			if (strcmp(v[j], items[i]->text) == 0)
				expected = "each path once";
		if (expected)
			complain_found(r, items[i], in, expected);
		else if (!(v[k++] = strdup(items[i]->text)))
			r->r = -ENOMEM;
		if (r->r < 0)
			return;
	}
}

static void read_value(struct schema_reading *r, const struct config_key *key, struct yaml_node *n,
		       const struct crumb *in, void *target)
{
	const char *expected = NULL;

	/* What may be wrong with an expression is more than one thing. */
	if (n->kind == NODE_SCALAR && key->type == VALUE_REGEX)
		expected = series_check(n->text);
	if (n->kind != NODE_SCALAR || expected ||
	    value_read(key->type, key->limits, n->text, (char *)target + key->offset) < 0)
		complain_found(r, n, in, expected ? expected : key->expected);
	else if (key->place > 0)
		*(struct config_place *)((char *)target + key->place) = n->place;
}

static void read_band(struct schema_reading *r, const struct config_key *key, struct yaml_node *n,
		      const struct crumb *in, void *target)
{
	const struct config_key *from = &key->keys[0], *to = &key->keys[1];

	if (n->kind == NODE_MAP)
		read_section(r, key->keys, n, in, target);
	else
		read_value(r, key, n, in, target);
	if (n->kind != NODE_MAP || !node_get(n, to->name, NULL))
		memcpy((char *)target + to->offset, (char *)target + from->offset,
		       to->offset - from->offset);
}

static void read_key(struct schema_reading *r, const struct config_key *key, struct yaml_node *n,
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
			read_strings(r, key, n, in, target);
		else
			complain_found(r, n, in, key->expected);
		break;
	case KEY_GLOBS:
		read_strings(r, key, n, in, target);
		break;
	case KEY_BAND:
		read_band(r, key, n, in, target);
		break;
	}
}

static void read_section(struct schema_reading *r, const struct config_key *keys,
			 struct yaml_node *map, const struct crumb *in, void *target)
{
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (!key_find(keys, map->v[i]->text))
			complain_unknown(r, map->v[i], keys, in);
		else
			(void)is_repeated(r, map, i, in);
	for (const struct config_key *k = keys; k->name; k++) {
		struct crumb at = { .up = in, .key = k->name };
		struct yaml_node *value = node_get(map, k->name, NULL);

		if (value)
			read_key(r, k, value, &at, target);
	}
}

int schema_read(struct config *c, struct yaml_node *root, struct problems *p)
{
	struct schema_reading r = { .c = c, .p = p };

	if (root && is_map(&r, root, NULL, "a map with keys such as spools or pacing"))
		read_section(&r, root_keys, root, NULL, c);
	return r.r;
}
