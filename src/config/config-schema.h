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
	KEY_MOUNTS,  /* the same, or a list of names, or "all": none */
	KEY_PAIRS,   /* the same, or a value in place of such a map: the first of the keys */
	KEY_PATHS,   /* a list of paths: char **, NULL-terminated */
	KEY_GLOBS,   /* a pattern or a list of them, the same; or a section, if it has keys */
	KEY_OWNERS,  /* a user or a list of them, the same; not empty */
	KEY_AGES,    /* one of enum age or a list of them: bits of an unsigned int */
	KEY_BAND,    /* a value, or a section whose second key is as the first where not said */
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

	/* KEY_NAMED, KEY_PAIRS, KEY_MOUNTS: the target is an array in struct config, whose elements
	 * begin with their name; `keys` and the place of the name are in an element. */
	size_t count, size; /* the offset of the number of elements; of an element */
	const char *(*tidy)(char *name);
	/* What an element has as the whole configuration has it, unless it says otherwise: where
	 * that is in the element, where in struct config, and how many bytes. */
	size_t own, common, common_size;
};

/* Of the whole configuration, and of that of a user. */
extern const struct config_key root_keys[], user_keys[];

/* Fills *c (all zero before) with what the tables have as defaults. */
void schema_defaults(struct config *c);

/* Reads a tree into *c, which has the defaults. Paths in the tree are tidied on the way, so that
 * the same path is the same text. What is wrong goes to p, and *c is then good for nothing but
 * config_free. */
void schema_read(struct config *c, const struct config_key *keys, struct yaml_node *root,
		 struct problems *p);

/* Checks what has to be true of several keys together, of all files. `root` is the tree that *c was
 * read from, for the places. of_user: it is that of a user. */
void rules_check(const struct config *c, const struct yaml_node *root, bool of_user,
		 struct problems *p);
