/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The schema of the database, as its numbered steps: the files sql/NNN-NAME.sql, in this order. One
 * that was released is never changed; what is to be otherwise is a further step. */
#pragma once

#include <stddef.h>

/* The number of the last one. */
#define SCHEMA_VERSION 1

struct migration {
	const char *name, *statements;
};

/* migrations[i] leads from version i to i + 1. */
extern const struct migration migrations[SCHEMA_VERSION];
