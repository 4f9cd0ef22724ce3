/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small text files of figures, as procfs and sysfs have them: read anew for each sample. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the sensors' files take is well below this. */
#define FIGURES_SIZE 4096

/* Reads the file from its beginning into buf and ends it with a NUL; what does not fit is left out.
 * Returns the length or a negative errno. */
ssize_t figures_read(int fd, char *buf, size_t size);

/* Finds the decimal number behind `label` at the beginning of a line, blanks between. Returns false
 * if there is none. */
bool figures_labelled(const char *text, const char *label, uint64_t *ret);

/* Reads the decimal numbers at s, blanks between and a newline or the end behind. Returns how many
 * they are, at most n of them in ret, or -EBADMSG. */
ssize_t figures_row(const char *s, uint64_t *ret, size_t n);
