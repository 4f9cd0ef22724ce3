/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "yaml-tree.h"

#include <assert.h>
#include <errno.h>
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

void node_done(struct yaml_node *n)
{
	for (size_t i = 0; i < n->n; i++)
		node_done(&n->v[i]);
	free(n->v);
	free(n->text);
	*n = (struct yaml_node){ 0 };
}

static struct config_place place_of(const struct builder *b, yaml_mark_t m)
{
	return (struct config_place){ .file = b->file,
				      .line = (unsigned)m.line + 1,
				      .column = (unsigned)m.column + 1 };
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

/* Fills in a node from the event that begins it. */
static int node_fill(struct builder *b, const yaml_event_t *e, struct yaml_node *n)
{
	/* All four kinds begin with the anchor, and all but the alias go on with the tag. */
	const char *anchor = (const char *)e->data.scalar.anchor, *tag = NULL;
	char shown[QUOTE_SIZE];

	n->place = place_of(b, e->start_mark);
	n->kind = e->type == YAML_SEQUENCE_START_EVENT  ? NODE_LIST
		  : e->type == YAML_MAPPING_START_EVENT ? NODE_MAP
		  : e->type == YAML_ALIAS_EVENT         ? NODE_BROKEN
							: NODE_SCALAR;
	if (e->type == YAML_ALIAS_EVENT) {
		problems_add(b->p, n->place, NULL,
			     "alias *%s: expected the value itself, written out",
			     problems_quote(anchor, shown));
		return 0;
	}
	tag = (const char *)e->data.scalar.tag;
	if (anchor || tag)
		problems_add(b->p, n->place, NULL, "%s %s%s: expected a plain value, without any",
			     anchor ? "anchor" : "tag", anchor ? "&" : "",
			     problems_quote(anchor ? anchor : tag, shown));
	if (e->type != YAML_SCALAR_EVENT)
		return 0;
	n->empty = e->data.scalar.length == 0 && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	n->text = strdup((const char *)e->data.scalar.value);
	if (!n->text)
		return -ENOMEM;
	if (strlen(n->text) != e->data.scalar.length) {
		problems_add(b->p, n->place, NULL,
			     "found a NUL character behind \"%s\", expected none",
			     problems_quote(n->text, shown));
		n->kind = NODE_BROKEN;
	}
	return 0;
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

/* What cannot be a key is complained about, and left out with its value. */
static void check_keys(struct builder *b, struct yaml_node *map)
{
	for (size_t i = 0; i < map->n;) {
		struct yaml_node *pair = &map->v[i];

		if (is_key(b, pair)) {
			i += 2;
			continue;
		}
		node_done(&pair[0]);
		node_done(&pair[1]);
		map->n -= 2;
		memmove(pair, pair + 2, (map->n - i) * sizeof(*pair));
	}
}

/* Adds the node that an event begins to the collection that it is in. */
static int add(struct builder *b, const yaml_event_t *e, struct yaml_node *to, unsigned depth,
	       struct yaml_node **ret)
{
	if (depth > DEPTH_MOST) {
		problems_add(b->p, place_of(b, e->start_mark), NULL,
			     "found more than %d levels of lists and maps, expected at most 4; "
			     "nothing behind this is read",
			     DEPTH_MOST);
		return -EBADMSG;
	}
	if (to->n >= (to->kind == NODE_MAP ? 2 : 1) * (size_t)ENTRIES_MOST) {
		problems_add(b->p, place_of(b, e->start_mark), NULL,
			     "the list or map that begins in line %u has more than %d entries, "
			     "expected fewer; nothing behind this is read",
			     to->place.line, ENTRIES_MOST);
		return -EBADMSG;
	}
	*ret = array_add(&to->v, &to->n, sizeof(**ret));
	return *ret ? node_fill(b, e, *ret) : -ENOMEM;
}

static int build(struct builder *b, struct yaml_node *root)
{
	/* Those that have not ended: nothing is added to what one lies in, so that it stays. */
	struct yaml_node *open[DEPTH_MOST + 1], *n = root;
	unsigned depth = 0;
	int r = 0;

	while (r >= 0) {
		_cleanup_(yaml_event_delete) yaml_event_t e = { 0 };

		if (!yaml_parser_parse(&b->yaml, &e))
			return not_yaml(b);
		switch (e.type) {
		case YAML_STREAM_END_EVENT:
			return 0;
		case YAML_NO_EVENT:
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (root->place.line == 0)
				break;
			problems_add(b->p, place_of(b, e.start_mark), NULL,
				     "found a second document, expected one; nothing behind this "
				     "is read");
			return -EBADMSG;
		case YAML_SEQUENCE_END_EVENT:
		case YAML_MAPPING_END_EVENT:
			assert(depth > 0);
			n = open[--depth];
			if (n->kind == NODE_MAP)
				check_keys(b, n);
			break;
		case YAML_ALIAS_EVENT:
		case YAML_SCALAR_EVENT:
		case YAML_SEQUENCE_START_EVENT:
		case YAML_MAPPING_START_EVENT:
			r = depth == 0 ? node_fill(b, &e, root)
				       : add(b, &e, open[depth - 1], depth, &n);
			if (r >= 0 && (n->kind == NODE_LIST || n->kind == NODE_MAP))
				open[depth++] = n;
			break;
		}
	}
	return r;
}

int node_parse(struct yaml_node *ret, const char *file, const char *text, size_t len,
	       struct problems *p)
{
	struct builder b = { .file = file, .text = text, .len = len, .p = p };
	struct yaml_node root = { 0 };
	int r;

	if (!yaml_parser_initialize(&b.yaml))
		return -ENOMEM;
	/* Otherwise it would take two odd first bytes for UTF-16. */
	yaml_parser_set_encoding(&b.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.yaml, (const unsigned char *)text, len);
	r = build(&b, &root);
	yaml_parser_delete(&b.yaml);
	root.empty |= root.place.line == 0;
	if (r < 0)
		node_done(&root);
	else
		*ret = root;
	return r;
}

struct yaml_node *node_get(const struct yaml_node *map, const char *key, struct yaml_node **ret_key)
{
	assert(map->n % 2 == 0);
	for (size_t i = 0; i < map->n; i += 2)
		if (strcmp(map->v[i].text, key) == 0) {
			if (ret_key)
				*ret_key = &map->v[i];
			return &map->v[i + 1];
		}
	return NULL;
}

/* Takes what is in `n` over. */
static int append(struct yaml_node *to, struct yaml_node *n)
{
	struct yaml_node *added = array_add(&to->v, &to->n, sizeof(*added));

	if (!added)
		return -ENOMEM;
	*added = *n;
	*n = (struct yaml_node){ 0 };
	return 0;
}

static int merge_list(struct yaml_node *list, struct yaml_node *over)
{
	int r = 0;

	for (size_t i = 0; i < over->n && r >= 0; i++) {
		size_t j = 0;

		while (j < list->n && strcmp(list->v[j].text, over->v[i].text) != 0)
			j++;
		if (j == list->n)
			r = append(list, &over->v[i]);
	}
	return r;
}

static void swap(struct yaml_node *a, struct yaml_node *b)
{
	struct yaml_node t = *a;

	*a = *b;
	*b = t;
}

int node_merge(struct yaml_node *map, struct yaml_node *over)
{
	int r = 0;

	for (size_t i = 0; i < over->n && r >= 0; i += 2) {
		struct yaml_node *key = &over->v[i], *value = &over->v[i + 1], *own_key,
				 *own = node_get(map, key->text, &own_key);

		if (!own) {
			r = append(map, key);
			r = r < 0 ? r : append(map, value);
			continue;
		}
		swap(own_key, key);
		/* What is of another kind, a list where there was one value, has nothing to add to.
		 */
		if (own->kind == NODE_MAP && value->kind == NODE_MAP)
			r = node_merge(own, value);
		else if (own->kind == NODE_LIST && value->kind == NODE_LIST)
			r = merge_list(own, value);
		else
			swap(own, value);
	}
	return r;
}
