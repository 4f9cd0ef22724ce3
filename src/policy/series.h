/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* group-by: a regular expression that takes out of a name what it belongs to: one series of
 * retention for each host or database. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct series;

/* Says in words what is wrong with an expression (pattern.h), to follow "expected"; NULL if nothing
 * is, and it has one to nine groups. */
const char *series_check(const char *expression);

/* `expression` may be NULL: then everything is one series. Returns 0, -ENOMEM, or -EINVAL where
 * series_check says no. */
int series_new(struct series **ret, const char *expression);
struct series *series_free(struct series *s);

/* Between what one group and the next have matched; no name that people make has it. */
#define SERIES_SEPARATOR "\x1f"

/* Writes what the groups match in a name into buf. Returns false if the name does not match, buf is
 * too small, or there is no memory: it belongs to no series then. */
bool series_of(const struct series *s, const char *name, char *buf, size_t len);
