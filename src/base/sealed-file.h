/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file in memory that nobody can change any more, to be handed over as a descriptor. */
#pragma once

#include <stdio.h>

/* Has `write` write `what` into it. Returns a descriptor at its beginning, or a negative errno. */
int sealed_file(void (*write)(FILE *f, const void *what), const void *what);
