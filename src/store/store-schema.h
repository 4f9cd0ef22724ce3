/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of the store, how older ones become today's, and whether what was found is a store.
 * Internal to src/store. */
#pragma once

#include <stddef.h>

struct store;

/* Defines the SQL function that writes the lines of the history. Returns 0 or a negative errno. */
int history_open(struct store *s);

/* How far a database has come is its user_version: the number of steps it has taken. */
int schema_version(void);

/* Takes the steps from one version to another, all or none. An empty database is at 0. Returns 0 or
 * a negative errno. */
int schema_migrate(struct store *s, int from, int to);

/* Checks an open database: that it is a store, of a version that is known, with all of its tables,
 * and that its pages are in order. Returns 0 with its version, -EUCLEAN with what is wrong in words
 * (ret_words, size bytes), or another negative errno where it could not be read. */
int schema_check(struct store *s, int *ret_version, char *ret_words, size_t size);
