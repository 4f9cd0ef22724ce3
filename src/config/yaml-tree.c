/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "yaml-tree.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/array.h"

/* The schema is four levels deep; what is deeper than this is a mistake or an attack. */
#define DEPTH_MOST 16
/* Entries of one list or map. Keeps whatever compares each with each quick. */
#define ENTRIES_MOST 4096

struct builder {
	yaml_parser_t yaml;
	const char *file, *text;
	size_t len;
	struct problems *p;
};

struct yaml_node *node_free(struct yaml_node *n)
{
	if (!n)
		return NULL;
	for (size_t i = 0; i < n->n; i++)
		node_free(n->v[i]);
	free(n->v);
	free(n->text);
	free(n);
	return NULL;
}

static void event_done(yaml_event_t *e)
{
	yaml_event_delete(e);
}
#define _cleanup_event_ _cleanup_(event_done)

static struct config_place place_of(const struct builder *b, yaml_mark_t m)
{
	return (struct config_place){ .file = b->file,
				      .line = (unsigned)m.line + 1,
				      .column = (unsigned)m.column + 1 };
}

static struct yaml_node *node_new(const struct builder *b, enum node_kind kind, yaml_mark_t m)
{
	struct yaml_node *n = calloc(1, sizeof(*n));

	if (n) {
		n->kind = kind;
		n->place = place_of(b, m);
	}
	return n;
}

/* Appends, and takes `item` over also on failure. */
static int node_append(struct yaml_node *n, struct yaml_node *item)
{
	struct yaml_node **added = array_add(&n->v, &n->n, sizeof(struct yaml_node *));

	if (!added) {
		node_free(item);
		return -ENOMEM;
	}
	*added = item;
	return 0;
}

/* Where a byte of the text is, for errors that libyaml gives an offset for. */
static struct config_place place_of_byte(const struct builder *b, size_t offset)
{
	struct config_place at = { .file = b->file, .line = 1, .column = 1 };

	for (size_t i = 0; i < offset && i < b->len; i++) {
		if (b->text[i] == '\n') {
			at.line++;
			at.column = 1;
		} else if (((unsigned char)b->text[i] & 0xc0) != 0x80) {
			at.column++;
		}
	}
	return at;
}

/* The byte at a mark, which counts characters; '\0' at the end. */
static char byte_at(const struct builder *b, yaml_mark_t m)
{
	size_t i = 0;

	for (size_t left = m.index; i < b->len; i++)
		if (((unsigned char)b->text[i] & 0xc0) != 0x80 && left-- == 0)
			return b->text[i];
	return '\0';
}

static int not_yaml(struct builder *b)
{
	const yaml_parser_t *y = &b->yaml;
	struct config_place at = place_of(b, y->problem_mark);

	if (y->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (y->error == YAML_READER_ERROR) {
		at = place_of_byte(b, y->problem_offset);
		if (y->problem_value < 0)
			problems_add(b->p, at, NULL, "found an %s, expected text in UTF-8",
				     y->problem);
		else
			problems_add(b->p, at, NULL, "found 0x%02x (%s), expected text in UTF-8",
				     (unsigned)y->problem_value, y->problem);
	} else if (byte_at(b, y->problem_mark) == '\t') {
		problems_add(b->p, at, NULL,
			     "found a tab, expected spaces: YAML indents with "
			     "spaces only");
	} else if (y->context) {
		problems_add(b->p, at, NULL, "is not YAML: %s, %s that begins in line %zu",
			     y->problem, y->context, y->context_mark.line + 1);
	} else {
		problems_add(b->p, at, NULL, "is not YAML: %s", y->problem);
	}
	return -EBADMSG;
}

static int next_event(struct builder *b, yaml_event_t *ret)
{
	return yaml_parser_parse(&b->yaml, ret) ? 0 : not_yaml(b);
}

static void refuse_properties(struct builder *b, struct config_place at, const yaml_char_t *anchor,
			      const yaml_char_t *tag)
{
	_cleanup_free_ char *shown = NULL;

	if (!anchor && !tag)
		return;
	shown = problems_quote((const char *)(anchor ? anchor : tag));
	problems_add(b->p, at, NULL, "%s %s%s: expected a plain value, without any",
		     anchor ? "anchor" : "tag", anchor ? "&" : "", shown ? shown : "?");
}

static int build(struct builder *b, const yaml_event_t *e, unsigned depth, struct yaml_node **ret);

static int build_child(struct builder *b, const yaml_event_t *e, unsigned depth,
		       struct yaml_node *parent)
{
	struct yaml_node *child;
	int r = build(b, e, depth, &child);

	return r < 0 ? r : node_append(parent, child);
}

static int fill_scalar(struct builder *b, const yaml_event_t *e, struct yaml_node *n)
{
	const char *text = (const char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;

	refuse_properties(b, n->place, e->data.scalar.anchor, e->data.scalar.tag);
	n->text = strndup(text, len);
	if (!n->text)
		return -ENOMEM;
	if (strlen(text) != len) {
		_cleanup_free_ char *shown = problems_quote(text);

		problems_add(b->p, n->place, NULL,
			     "found a NUL character behind \"%s\", expected none",
			     shown ? shown : "?");
		n->kind = NODE_BROKEN;
	}
	n->empty = len == 0 && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return 0;
}

static int too_many(struct builder *b, const struct yaml_node *n, yaml_mark_t m)
{
	problems_add(b->p, place_of(b, m), NULL,
		     "the list or map that begins in line %u has more than %d entries, expected "
		     "fewer; nothing behind this is read",
		     n->place.line, ENTRIES_MOST);
	return -EBADMSG;
}

static bool is_key(struct builder *b, const struct yaml_node *n)
{
	if (n->kind == NODE_LIST || n->kind == NODE_MAP)
		problems_add(b->p, n->place, NULL, "found a %s as a key, expected a word",
			     n->kind == NODE_LIST ? "list" : "map");
	else if (n->kind == NODE_SCALAR && strcmp(n->text, "<<") == 0)
		problems_add(b->p, n->place, NULL,
			     "merge key <<: expected the keys themselves, written out");
	else
		return n->kind == NODE_SCALAR;
	return false;
}

/* A key and its value. What cannot be a key is complained about, and both left out. */
static int fill_pair(struct builder *b, const yaml_event_t *e, unsigned depth,
		     struct yaml_node *map)
{
	_cleanup_event_ yaml_event_t value = { 0 };
	int r = build_child(b, e, depth, map);

	if (r >= 0)
		r = next_event(b, &value);
	if (r >= 0)
		r = build_child(b, &value, depth, map);
	if (r < 0 || is_key(b, map->v[map->n - 2]))
		return r;
	node_free(map->v[--map->n]);
	node_free(map->v[--map->n]);
	return 0;
}

/* The items of a list, or the keys and values of a map. */
static int fill_collection(struct builder *b, const yaml_event_t *e, unsigned depth,
			   struct yaml_node *n)
{
	bool map = n->kind == NODE_MAP;

	if (map)
		refuse_properties(b, n->place, e->data.mapping_start.anchor,
				  e->data.mapping_start.tag);
	else
		refuse_properties(b, n->place, e->data.sequence_start.anchor,
				  e->data.sequence_start.tag);
	for (;;) {
		_cleanup_event_ yaml_event_t item = { 0 };
		int r = next_event(b, &item);

		if (r < 0)
			return r;
		if (item.type == YAML_SEQUENCE_END_EVENT || item.type == YAML_MAPPING_END_EVENT)
			return 0;
		if (n->n >= (map ? 2 : 1) * (size_t)ENTRIES_MOST)
			return too_many(b, n, item.start_mark);
		r = map ? fill_pair(b, &item, depth + 1, n) : build_child(b, &item, depth + 1, n);
		if (r < 0)
			return r;
	}
}

static int fill_alias(struct builder *b, const yaml_event_t *e, struct yaml_node *n)
{
	_cleanup_free_ char *shown = problems_quote((const char *)e->data.alias.anchor);

	problems_add(b->p, n->place, NULL, "alias *%s: expected the value itself, written out",
		     shown ? shown : "?");
	return 0;
}

static int too_deep(struct builder *b, yaml_mark_t m)
{
	problems_add(b->p, place_of(b, m), NULL,
		     "found more than %d levels of lists and maps, expected at most 4; nothing "
		     "behind this is read",
		     DEPTH_MOST);
	return -EBADMSG;
}

/* Builds the node that an event begins. The recursion ends at DEPTH_MOST. */
static int build(struct builder *b, const yaml_event_t *e, unsigned depth, struct yaml_node **ret)
{
	enum node_kind kind = e->type == YAML_SEQUENCE_START_EVENT  ? NODE_LIST
			      : e->type == YAML_MAPPING_START_EVENT ? NODE_MAP
			      : e->type == YAML_ALIAS_EVENT         ? NODE_BROKEN
								    : NODE_SCALAR;
	struct yaml_node *n;
	int r = 0;

	if (depth > DEPTH_MOST)
		return too_deep(b, e->start_mark);
	n = node_new(b, kind, e->start_mark);
	if (!n)
		return -ENOMEM;
	switch (kind) {
	case NODE_LIST:
	case NODE_MAP:
		r = fill_collection(b, e, depth, n);
		break;
	case NODE_BROKEN:
		r = fill_alias(b, e, n);
		break;
	case NODE_SCALAR:
		r = fill_scalar(b, e, n);
		break;
	}
	if (r < 0)
		node_free(n);
	else
		*ret = n;
	return r;
}

/* *root is NULL before; the caller's also on failure. */
static int build_stream(struct builder *b, struct yaml_node **root)
{
	for (;;) {
		_cleanup_event_ yaml_event_t e = { 0 };
		int r = next_event(b, &e);

		if (r < 0)
			return r;
		if (e.type == YAML_STREAM_END_EVENT)
			return 0;
		if (e.type == YAML_STREAM_START_EVENT || e.type == YAML_DOCUMENT_END_EVENT ||
		    (e.type == YAML_DOCUMENT_START_EVENT && !*root))
			continue;
		if (*root) {
			problems_add(b->p, place_of(b, e.start_mark), NULL,
				     "found a second document, expected one; nothing behind this "
				     "is read");
			return -EBADMSG;
		}
		r = build(b, &e, 0, root);
		if (r < 0)
			return r;
	}
}

int node_parse(struct yaml_node **ret, const char *file, const char *text, size_t len,
	       struct problems *p)
{
	struct builder b = { .file = file, .text = text, .len = len, .p = p };
	struct yaml_node *root = NULL;
	int r;

	if (!yaml_parser_initialize(&b.yaml))
		return -ENOMEM;
	/* Otherwise it would take two odd first bytes for UTF-16. */
	yaml_parser_set_encoding(&b.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.yaml, (const unsigned char *)text, len);
	r = build_stream(&b, &root);
	yaml_parser_delete(&b.yaml);
	if (r < 0)
		node_free(root);
	else
		*ret = root;
	return r;
}

struct yaml_node *node_get(const struct yaml_node *map, const char *key, struct yaml_node **ret_key)
{
	assert(map->n % 2 == 0);
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (strcmp(map->v[i]->text, key) == 0) {
			if (ret_key)
				*ret_key = map->v[i];
			return map->v[i + 1];
		}
	return NULL;
}

static int merge_list(struct yaml_node *list, struct yaml_node *over)
{
	for (size_t i = 0; i < over->n; i++) {
		bool known = false;
		int r;

		for (size_t j = 0; j < list->n && !known; j++)
			known = strcmp(list->v[j]->text, over->v[i]->text) == 0;
		if (known)
			continue;
		r = node_append(list, over->v[i]);
		over->v[i] = NULL;
		if (r < 0)
			return r;
	}
	return 0;
}

static void swap(struct yaml_node **a, struct yaml_node **b)
{
	struct yaml_node *t = *a;

	*a = *b;
	*b = t;
}

static int merge_pair(struct yaml_node *map, struct yaml_node **key, struct yaml_node **value)
{
	size_t i;
	int r = 0;

	for (i = 0; i + 1 < map->n && strcmp(map->v[i]->text, (*key)->text) != 0; i += 2)
		;
	if (i >= map->n) {
		r = node_append(map, *key);
		*key = NULL;
		if (r >= 0) {
			r = node_append(map, *value);
			*value = NULL;
		}
		return r;
	}
	swap(&map->v[i], key);
	/* What is of another kind, a list where there was one value, has nothing to add to. */
	if ((*value)->kind == NODE_SCALAR || (*value)->kind != map->v[i + 1]->kind) {
		swap(&map->v[i + 1], value);
	} else if ((*value)->kind == NODE_MAP) {
		r = node_merge(map->v[i + 1], *value);
		*value = NULL;
	} else {
		r = merge_list(map->v[i + 1], *value);
	}
	return r;
}

int node_merge(struct yaml_node *map, struct yaml_node *over)
{
	int r = 0;

	for (size_t i = 0; i + 1 < over->n && r >= 0; i += 2)
		r = merge_pair(map, &over->v[i], &over->v[i + 1]);
	node_free(over);
	return r;
}
