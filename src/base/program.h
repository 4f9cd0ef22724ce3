/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where the project's other programs are. */
#pragma once

#include <stddef.h>

/* The path of a program of libexec: beside the one that runs, as in a build tree, or else where it
 * is installed. Returns 0, or -ENOENT if there is none in either place. */
int program_find(const char *name, char *buf, size_t size);
