/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "staging-dir.h"

#include <stdio.h>
#include <string.h>

void staging_part_format(char buf[STAGING_PART_SIZE], const char *host)
{
	(void)snprintf(buf, STAGING_PART_SIZE, "@%s", host);
}

const char *staging_part_host(const char *name)
{
	return name[0] == '@' && fleet_name_is_valid(name + 1) ? name + 1 : NULL;
}

char *staging_dir_path(const char *mount, const char *host)
{
	char *path;

	return asprintf(&path, "%s/" STAGING_DIR "%s%s", strcmp(mount, "/") == 0 ? "" : mount,
			*host ? "/@" : "", host) < 0
		       ? NULL
		       : path;
}
