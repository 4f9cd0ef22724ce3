/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* group-by: a regular expression (pattern.h) that takes out of a name what it belongs to: one
 * series of retention for each host or database. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "pattern.h"

/* Says in words what is wrong with an expression, to follow "expected"; NULL if nothing is. */
const char *series_check(const char *expression);

/* Between what one group and the next have matched; no name that people make has it. */
#define SERIES_SEPARATOR "\x1f"

/* Writes what the groups match in a name into buf; "" without a pattern, which may be NULL: then
 * everything is one series. Returns false if the name does not match, buf is too small, or there is
 * no memory: it belongs to no series then. */
bool series_of(struct pattern *p, const char *name, char *buf, size_t len);
