/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaim-fleet does for a person (fleet/verbs.h), called. */
#pragma once

#include <jansson.h>

#include "base/escape.h"
#include "base/fleet-name.h"
#include "ctl/common/options.h"

/* Runs reclaim-fleet with these words, NULL-terminated, the verb first, and waits for it. database:
 * a connection string, which no other user gets to see. Returns 0 and what it prints, which the
 * caller frees; or a negative errno, and *why says what is wrong: -ENOENT: it is not installed. */
int fleet_call(const char *database, const char *const *words, json_t **ret, struct safe_text *why);

/* The same with one word, of the database of --database=, else of the one that is configured.
 * Without --json all texts are safe to show. Returns 0 or an exit status, after saying what is
 * wrong. */
int fleet_ask(const struct options *o, const char *command, json_t **ret);
int fleet_ask_words(const struct options *o, const char *const *words, json_t **ret);
/* What this host is called in its fleet. Returns 0 or an exit status, after saying what is wrong.
 */
int fleet_own_name(const struct options *o, char buf[static FLEET_NAME_SIZE]);
