/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file in memory that no process can change any more, to be handed over as a descriptor: it is
 * read without a copy having to be compared. */
#pragma once

#include <fcntl.h>
#include <stdio.h>

/* What it is sealed with. */
#define SEALED_FILE (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Has `write` write `what` into it. Returns a descriptor at its beginning, the caller's to close,
 * or a negative errno: -ENOSPC if not all could be written. */
int sealed_file(void (*write)(FILE *f, const void *what), const void *what);
