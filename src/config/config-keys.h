/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a table of keys is made of: for the files of the schema. */
#pragma once

#include <stddef.h>

#include "config-values.h"
#include "base/macros.h"

#define DAY (86400 * USEC_PER_SEC)

enum key_kind {
	KEY_VALUE,
	KEY_SECTION, /* a map of known keys */
	KEY_NAMED,   /* a map of elements by name, each a map of known keys */
	KEY_PATHS,   /* a list of paths */
	KEY_GLOBS,   /* a pattern or a list of them: char **, NULL-terminated */
	KEY_BAND,    /* a value, or a section whose second key is as the first where not said */
};

/* An array in struct config whose elements are named by the user. */
struct named {
	size_t array, count; /* offsets in struct config */
	size_t size, place;  /* of an element, and the offset in it; its name is its first member */
	const char *(*tidy)(char *name);
	void (*begin)(void *element, const struct config *c); /* what it has if nothing is said */
	const struct key *keys;                               /* relative to the element */
};

struct key {
	const char *name;
	enum key_kind kind;
	enum value_type type;
	size_t offset; /* of the target, in what the table is for */
	size_t place;  /* of a struct config_place for where a value is; 0: nobody asks */
	struct value_range range;
	const char *preset;   /* as it would be written; NULL: set otherwise */
	const char *expected; /* to follow "expected" */
	const struct key *keys;
	const struct named *named;
};
