/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names in a file that the daemon can read: in memory, and sealed, so that it cannot change. */
#pragma once

#include "engine/core/dirlist.h"

/* Each name ended by a NUL. Returns a descriptor or a negative errno. */
int names_file(const struct dirlist *l);
