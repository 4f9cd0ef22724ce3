/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* YAML text in, a tree of nodes that know their places out, by libyaml's events. Knows no keys.
 *
 * Of YAML there is what a configuration needs: one document of maps, lists and scalars. Anchors,
 * aliases, merge keys and tags, by which a short text can mean something large or surprising, are
 * refused. A tree owns its nodes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config-problems.h"

enum node_kind {
	NODE_SCALAR,
	NODE_LIST,
	NODE_MAP,
	NODE_BROKEN, /* was complained about: whatever is expected in its place, it is that */
};

struct yaml_node {
	enum node_kind kind;
	bool empty; /* a scalar where nothing was written, not even quotes */
	struct config_place place;
	char *text; /* of a scalar */
	/* Of a list its items; of a map, keys (scalars) and values in turn. */
	struct yaml_node *v;
	size_t n;
};

/* Reads a text of len bytes. `file` is what places point to; it must live as long as the tree.
 * Returns 0 with *ret, for node_done; it is an empty scalar for a text without content. Returns
 * -EBADMSG if it is not YAML at all and there is no tree, or -ENOMEM. Something in `p` may be wrong
 * with a tree that is returned. */
int node_parse(struct yaml_node *ret, const char *file, const char *text, size_t len,
	       struct problems *p);

/* Frees what is in a node. */
void node_done(struct yaml_node *n);

/* The value of a key, and the key itself unless ret_key is NULL; NULL if the map has it not. */
struct yaml_node *node_get(const struct yaml_node *map, const char *key,
			   struct yaml_node **ret_key);

/* Puts a map over another: scalars replace, maps take on what is new by name, lists what is new by
 * text; what is of another kind replaces. What is left in `over` is good for nothing but node_done.
 * Returns 0 or -ENOMEM. */
int node_merge(struct yaml_node *map, struct yaml_node *over);
