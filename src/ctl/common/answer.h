/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon answers, as JSON values: from them it is printed, for programs and for people.
 *
 * Numbers, booleans and texts are such; an "ay" is a text as json_path() makes it, any other as
 * json_words() does; a dictionary is an object, an array an array. A structure is an object too
 * where the names of its members are given (`keys`, ended by NULL), otherwise an array; those
 * inside of it are arrays. What the daemon never sends is null. */
#pragma once

#include <jansson.h>

#include "client.h"

/* Takes the one value of an answer, which must have this signature, and unrefs the answer. Returns
 * 0, or EXIT_FAILED after having said what is wrong. The caller decrefs the value. */
int answer_take(sd_bus_message *reply, const char *signature, const char *const *keys,
		json_t **ret);

/* A property of the daemon, and what it is called where it is printed. */
struct printed_property {
	const char *property, *key;
};

/* Asks for all properties of an object. With a table, the value has those that are in it, in that
 * order and by their keys, null for what an older daemon does not tell; NULL: all, by their own
 * names. Returns 0 or an exit status. */
int properties_get(struct client *c, const char *path, const char *interface,
		   const struct printed_property *table, size_t n, json_t **ret);
