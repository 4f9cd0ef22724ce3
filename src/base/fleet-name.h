/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names in a fleet: of a host, whose directory in a shared filesystem has it, and of a filesystem.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* With its NUL. */
#define FLEET_NAME_SIZE 64

/* 1 to 63 small letters, digits, - and ., the first of which is a letter or a digit. */
static inline bool fleet_name_is_valid(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	return len > 0 && len < FLEET_NAME_SIZE && name[len] == '\0' && name[0] != '.' &&
	       name[0] != '-';
}

/* name is a valid one, or "". */
static inline void fleet_name_copy(char to[static FLEET_NAME_SIZE], const char *name)
{
	size_t len = strlen(name);

	assert(len < FLEET_NAME_SIZE);
	memcpy(to, name, len + 1);
}
