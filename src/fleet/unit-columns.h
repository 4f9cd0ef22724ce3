/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A unit as it is in the database: the columns that say what is to be done. What comes from there
 * may be anything, and is a unit only if all of it has the shape of one. Knows no connection. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/fleet-messages.h"

struct unit_columns {
	char *directory; /* components beneath the job's directory, or "" */
	struct lasting_identity parent;
	uint32_t slice, slices;
	char *names; /* each with a NUL behind it */
	size_t names_len, n_names;
	struct lasting_identity *ids; /* of the names */
};

void unit_columns_done(struct unit_columns *u);

/* Adds a name to a unit that is being made. Returns 0, -E2BIG or -ENOMEM. */
int unit_columns_add(struct unit_columns *u, const struct unit_name *name);

/* Whether it is a unit: 0 or -EBADMSG. */
int unit_columns_check(const struct unit_columns *u);

/* "INODE:BIRTH:TYPE", TYPE one letter as find(1) has it. IDENTITY_TEXT bytes are enough. */
#define IDENTITY_TEXT 64
void identity_text(char buf[static IDENTITY_TEXT], const struct lasting_identity *id);

/* The identities of all names, a blank between. NULL: out of memory. */
char *unit_columns_identities(const struct unit_columns *u);

/* Reads what the columns have; bytes are as PostgreSQL writes them, "\x" and hexadecimal digits.
 * *ret is empty before. Returns 0, -EBADMSG if that is no unit, or -ENOMEM; on failure, too, *ret
 * is for unit_columns_done. */
int unit_columns_read(struct unit_columns *ret, const char *directory, const char *parent,
		      const char *slice, const char *slices, const char *names,
		      const char *identities);

/* A number from `least` to `most` and nothing else. Returns 0 or -EBADMSG. */
int number_read_between(const char *text, int64_t least, int64_t most, int64_t *ret);

/* What a column of bytes has, with a NUL behind it. Returns 0, -EBADMSG or -ENOMEM. */
int bytes_read(const char *text, size_t most, char **ret, size_t *ret_len);
