/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/similar.h"
#include "config-schema.h"
#include "policy/globs.h"
#include "policy/selection.h"

static void set_presets(const struct config_key *keys, void *target)
{
	for (const struct config_key *k = keys; k->name; k++) {
		if (k->kind == KEY_SECTION)
			set_presets(k->keys, target);
		else if (k->preset)
			(void)value_read(k->type, k->limits, k->preset, (char *)target + k->offset);
	}
}

void schema_defaults(struct config *c)
{
	set_presets(root_keys, c);
}

/* Says what was found where something else was expected. */
static void complain_found(struct problems *p, const struct yaml_node *n, const struct crumb *in,
			   const char *expected)
{
	char shown[QUOTE_SIZE];

	if (n->kind == NODE_SCALAR && !n->empty)
		problems_add(p, n->place, in, "found \"%s\", expected %s",
			     problems_quote(n->text, shown), expected);
	else if (n->kind != NODE_BROKEN)
		problems_add(p, n->place, in, "found %s, expected %s",
			     n->kind == NODE_LIST  ? "a list"
			     : n->kind == NODE_MAP ? "a map"
						   : "nothing",
			     expected);
}

/* A key with nothing behind it is an empty map, where a map is expected: what is left when
 * all that was in it is commented out. */
static bool is_map(struct problems *p, struct yaml_node *n, const struct crumb *in,
		   const char *expected)
{
	if (n->kind == NODE_SCALAR && n->empty)
		n->kind = NODE_MAP;
	if (n->kind != NODE_MAP)
		complain_found(p, n, in, expected);
	return n->kind == NODE_MAP;
}

/* True and a complaint if the i-th key of a map is there before. */
static bool is_repeated(struct problems *p, const struct yaml_node *map, size_t i,
			const struct crumb *in)
{
	struct crumb at = { .up = in, .key = map->v[i].text };
	struct yaml_node *first = NULL;

	(void)node_get(map, map->v[i].text, &first);
	if (first == &map->v[i])
		return false;
	problems_add(p, map->v[i].place, &at,
		     "is there twice, expected once: the first is in line %u", first->place.line);
	return true;
}

static void complain_unknown(struct problems *p, const struct yaml_node *key,
			     const struct config_key *keys, const struct crumb *in)
{
	_cleanup_free_ char *known = NULL;
	struct crumb at = { .up = in, .key = key->text };
	struct similar similar = { .word = key->text };
	size_t len;
	FILE *f = open_memstream(&known, &len);

	for (const struct config_key *k = keys; f && k->name; k++) {
		similar_offer(&similar, k->name);
		(void)fprintf(f, "%s%s", k == keys ? "" : ", ", k->name);
	}
	if (!f || fclose(f) != 0)
		p->out_of_memory = true;
	else if (similar.near)
		problems_add(p, key->place, &at, "unknown key: did you mean %s?", similar.near);
	else
		problems_add(p, key->place, &at, "unknown key: expected one of %s", known);
}

static void read_section(struct problems *p, const struct config_key *keys, struct yaml_node *map,
			 const struct crumb *in, void *target);
static void read_value(struct problems *p, const struct config_key *key, struct yaml_node *n,
		       const struct crumb *in, char *target);

/* A new element of this name, as all are that say nothing else; NULL: out of memory. */
static char *element_add(struct problems *p, const struct config_key *key,
			 const struct yaml_node *name, char *c)
{
	char *own = strdup(name->text);
	char *element =
		own ? array_add(c + key->offset, (size_t *)(c + key->count), key->size) : NULL;

	if (!element) {
		free(own);
		p->out_of_memory = true;
		return NULL;
	}
	*(char **)element = own;
	*(struct config_place *)(element + key->place) = name->place;
	set_presets(key->keys, element);
	memcpy(element + key->own, c + key->common, key->common_size);
	return element;
}

static void read_elements(struct problems *p, const struct config_key *key, struct yaml_node *map,
			  const struct crumb *in, char *c)
{
	for (size_t i = 0; i < map->n; i += 2) {
		struct yaml_node *name = &map->v[i];
		struct crumb at = { .up = in, .key = name->text };
		const char *expected = key->tidy(name->text);
		char *element;

		if (expected)
			complain_found(p, name, in, expected);
		if (expected || is_repeated(p, map, i, in))
			continue;
		element = element_add(p, key, name, c);
		if (!element)
			return;
		if (key->kind == KEY_PAIRS && map->v[i + 1].kind != NODE_MAP)
			read_value(p, key->keys, &map->v[i + 1], &at, element);
		else if (is_map(p, &map->v[i + 1], &at, "a map, such as {}"))
			read_section(p, key->keys, &map->v[i + 1], &at, element);
	}
}

/* A map of elements, a list of their names, each once, or none, which is all that there are. */
static void read_mounts(struct problems *p, const struct config_key *key, struct yaml_node *n,
			const struct crumb *in, char *c)
{
	if (n->kind == NODE_SCALAR && strcmp(n->text, "all") == 0)
		return;
	if (n->kind == NODE_MAP) {
		read_elements(p, key, n, in, c);
		return;
	}
	if (n->kind != NODE_LIST)
		complain_found(p, n, in, key->expected);
	for (size_t i = 0; n->kind == NODE_LIST && i < n->n; i++) {
		const struct yaml_node *item = &n->v[i];
		const char *expected = item->kind == NODE_SCALAR ? key->tidy(item->text)
								 : "an absolute path, such as /srv";

		for (size_t j = 0; !expected && j < i; j++)
			if (n->v[j].kind == NODE_SCALAR && strcmp(n->v[j].text, item->text) == 0)
				expected = "each path once";
		if (expected)
			complain_found(p, item, in, expected);
		else if (!element_add(p, key, item, c))
			return;
	}
}

/* What is expected in the place of an item; NULL: it is one. text is NULL if it is no word. */
static const char *item_check(enum key_kind kind, char *text)
{
	if (kind == KEY_GLOBS)
		return text ? glob_check(text) : "a pattern for names, such as \"*.tar.gz\"";
	if (kind == KEY_OWNERS)
		return text ? owner_check(text) : "the name or number of a user, such as backup";
	return text ? path_tidy(text) : "an absolute path, such as /srv/keep";
}

/* A list of paths, each once; or of patterns or users, of which one is a list of one. */
static void read_strings(struct problems *p, const struct config_key *key, struct yaml_node *n,
			 const struct crumb *in, char ***ret)
{
	bool paths = key->kind == KEY_PATHS;
	struct yaml_node *items = n->kind == NODE_LIST ? n->v : n;
	size_t n_items = n->kind == NODE_LIST ? n->n : 1, added = 0;

	/* No user at all would be any. */
	if ((paths && n->kind != NODE_LIST) || (key->kind == KEY_OWNERS && n_items == 0)) {
		complain_found(p, n, in, key->expected);
		return;
	}
	for (size_t i = 0; i < n_items; i++) {
		const char *expected =
			item_check(key->kind, items[i].kind == NODE_SCALAR ? items[i].text : NULL);

		for (size_t j = 0; paths && !expected && j < added; j++)
			if (strcmp((*ret)[j], items[i].text) == 0)
				expected = "each path once";
		if (expected)
			complain_found(p, &items[i], in, expected);
		else if (strings_add(ret, &added, strdup(items[i].text)) < 0)
			p->out_of_memory = true;
	}
}

/* A word, or a list of them, each once. */
static void read_ages(struct problems *p, const struct config_key *key, const struct yaml_node *n,
		      const struct crumb *in, unsigned *ret)
{
	const struct yaml_node *items = n->kind == NODE_LIST ? n->v : n;
	size_t n_items = n->kind == NODE_LIST ? n->n : 1;

	*ret = 0;
	if (n_items == 0)
		complain_found(p, n, in, key->expected);
	for (size_t i = 0; i < n_items; i++) {
		unsigned age = items[i].kind == NODE_SCALAR ? age_parse(items[i].text) : 0;

		if (age == 0 || *ret & age)
			complain_found(p, &items[i], in, age ? "each time once" : key->expected);
		*ret |= age;
	}
}

static void read_value(struct problems *p, const struct config_key *key, struct yaml_node *n,
		       const struct crumb *in, char *target)
{
	const char *expected = NULL;

	/* What may be wrong with an expression is more than one thing. */
	if (n->kind == NODE_SCALAR && key->type == VALUE_REGEX)
		expected = series_check(n->text);
	if (n->kind != NODE_SCALAR || expected ||
	    value_read(key->type, key->limits, n->text, target + key->offset) < 0)
		complain_found(p, n, in, expected ? expected : key->expected);
	else if (key->place > 0)
		*(struct config_place *)(target + key->place) = n->place;
}

static void read_key(struct problems *p, const struct config_key *key, struct yaml_node *n,
		     const struct crumb *in, char *target)
{
	switch (key->kind) {
	case KEY_VALUE:
		read_value(p, key, n, in, target);
		break;
	case KEY_SECTION:
		if (is_map(p, n, in, key->expected))
			read_section(p, key->keys, n, in, target);
		break;
	case KEY_NAMED:
	case KEY_PAIRS:
		if (is_map(p, n, in, key->expected))
			read_elements(p, key, n, in, target);
		break;
	case KEY_MOUNTS:
		read_mounts(p, key, n, in, target);
		break;
	case KEY_GLOBS:
		if (key->keys && n->kind == NODE_MAP) {
			read_section(p, key->keys, n, in, target);
			break;
		}
		/* fall through */
	case KEY_PATHS:
	case KEY_OWNERS:
		read_strings(p, key, n, in, (char ***)(target + key->offset));
		if (key->place > 0)
			*(struct config_place *)(target + key->place) = n->place;
		break;
	case KEY_AGES:
		read_ages(p, key, n, in, (unsigned *)(target + key->offset));
		break;
	case KEY_BAND:
		if (n->kind == NODE_MAP)
			read_section(p, key->keys, n, in, target);
		else
			read_value(p, key, n, in, target);
		/* Its keys are below and until. */
		if (n->kind != NODE_MAP || !node_get(n, key->keys[1].name, NULL))
			memcpy(target + key->keys[1].offset, target + key->keys[0].offset,
			       sizeof(struct policy_space));
		break;
	}
}

static void read_section(struct problems *p, const struct config_key *keys, struct yaml_node *map,
			 const struct crumb *in, void *target)
{
	/* In the order of the table. */
	for (const struct config_key *k = keys; k->name; k++) {
		struct crumb at = { .up = in, .key = k->name };
		struct yaml_node *value = node_get(map, k->name, NULL);

		if (value)
			read_key(p, k, value, &at, target);
	}
	for (size_t i = 0; i < map->n; i += 2) {
		const struct config_key *k = keys;

		while (k->name && strcmp(k->name, map->v[i].text) != 0)
			k++;
		if (!k->name)
			complain_unknown(p, &map->v[i], keys, in);
		else
			(void)is_repeated(p, map, i, in);
	}
}

void schema_read(struct config *c, const struct config_key *keys, struct yaml_node *root,
		 struct problems *p)
{
	if (is_map(p, root, NULL, "a map with keys such as spools or pacing"))
		read_section(p, keys, root, NULL, c);
}
