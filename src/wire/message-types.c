/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "message-types.h"

#include <limits.h>
#include <string.h>

bool is_component(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && !memchr(name, '/', len) && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

bool is_component_path(const char *path)
{
	char name[NAME_MAX + 1];
	size_t len = strlen(path);

	for (const char *at = path; len > 0 && at <= path + len;) {
		size_t n = strcspn(at, "/");

		if (n > NAME_MAX)
			return false;
		memcpy(name, at, n);
		name[n] = '\0';
		if (!is_component(name))
			return false;
		at += n + 1;
	}
	return len < PATH_MAX;
}
