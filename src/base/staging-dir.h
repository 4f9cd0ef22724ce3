/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where names are staged on a filesystem: each user's in a directory of <mount>/.reclaim, and of a
 * host of a fleet in one of <mount>/.reclaim/@HOST, which is to that host what .reclaim is to a
 * daemon by itself. No user's directory is called so, and none but root can make one there. */
#pragma once

#include "fleet-name.h"

#define STAGING_DIR ".reclaim"

/* With the @ before it. */
#define STAGING_PART_SIZE (FLEET_NAME_SIZE + 1)

/* What the part of that host is called, whose name is valid. */
void staging_part_format(char buf[STAGING_PART_SIZE], const char *host);
/* The host whose part is called so; NULL: it is none. Points into it. */
const char *staging_part_host(const char *name);

/* <mount>/.reclaim, or that host's part of it; "" is no host's. Malloc'ed; NULL: out of memory. */
char *staging_dir_path(const char *mount, const char *host);
