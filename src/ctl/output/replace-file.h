/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replacing a file as a whole: a program that reads it finds the old text or the new one. What is
 * not finished yet is beside it, with a dot and six letters behind its name. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* durable: also after a power cut it is one of the two. Returns 0 or a negative errno. */
int file_replace(const char *path, mode_t mode, bool durable,
		 void (*write)(FILE *f, const void *userdata), const void *userdata);
