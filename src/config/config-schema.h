/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which keys there are, what they may be, and where they go: tables (config-schema.c), how a tree
 * is read by them (schema-read.c), and what must be true of several keys together
 * (config-rules.c). */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "config-values.h"
#include "yaml-tree.h"

enum key_kind {
	KEY_VALUE,
	KEY_SECTION, /* a map of known keys */
	KEY_NAMED,   /* a map of elements by name, each a map of known keys */
	KEY_PATHS,   /* a list of paths: char **, NULL-terminated */
	KEY_GLOBS,   /* a pattern or a list of them, the same */
	KEY_BAND,    /* a value, or a section whose second key is as the first where not said */
};

/* An array in struct config whose elements are named by the user. */
struct config_named {
	size_t array, count; /* offsets in struct config */
	size_t size, place;  /* of an element, and the offset in it; its name is its first member */
	const char *(*tidy)(char *name);
	void (*begin)(void *element, const struct config *c); /* what it has if nothing is said */
	const struct config_key *keys;                        /* relative to the element */
};

struct config_key {
	const char *name;
	enum key_kind kind;
	enum value_type type;
	size_t offset; /* of the target, in what the table is for */
	size_t place;  /* of a struct config_place for where a value is; 0: not kept */
	struct value_limits limits;
	const char *preset;   /* as it would be written; NULL: set otherwise */
	const char *expected; /* to follow "expected" */
	const struct config_key *keys;
	const struct config_named *named;
};

extern const struct config_key root_keys[];

/* Fills *c (all zero before) with what the tables have as defaults. Returns 0 or -ENOMEM. */
int schema_defaults(struct config *c);

/* Reads a tree into *c, which has the defaults. Paths in the tree are tidied on the way, so that
 * the same path is the same text. `root` may be NULL. What is wrong goes to p, and *c is then good
 * for nothing but config_free. Returns 0 or -ENOMEM. */
int schema_read(struct config *c, struct yaml_node *root, struct problems *p);

/* Checks what has to be true of several keys together, of all files. `root` is the tree that *c was
 * read from, for the places; NULL if nothing was read. */
void rules_check(const struct config *c, const struct yaml_node *root, struct problems *p);
