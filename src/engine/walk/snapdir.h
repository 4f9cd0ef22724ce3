/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Snapshots that a directory shows in a subdirectory which its listing does not name. */
#pragma once

#include <stdbool.h>

/* What is said of such a directory. */
#define SNAPDIR_HOLDS "has snapshots in its .snap, and stays until they are removed (rmdir)"

/* True if the open directory has snapshots of its own in its subdirectory `name` (NULL: there is
 * no such thing on its filesystem). It lists empty, and cannot be removed while it has. */
bool snapdir_holds(int fd, const char *name);
