/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is wrong with a configuration, collected so that it can be told in the order of the file,
 * however it was found. Owns the texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "base/macros.h"

/* All zero is empty. */
struct problems {
	struct config_error *v;
	size_t n, n_left_out; /* there is an end to what a person reads of one file */
	bool found;           /* any error, since the beginning; warnings do not count */
	bool out_of_memory;
};

/* Where a value is, from the outermost key to the innermost: for messages. On the stack. */
struct crumb {
	const struct crumb *up;
	const char *key;
};

/* Adds one at a place; `in` is what the text begins with ("spools: /a: settle: "), NULL for
 * nothing. A warning is of what is no error, but surely not meant. */
void problems_put(struct problems *p, bool is_warning, struct config_place at,
		  const struct crumb *in, const char *format, ...) _printf_(5, 6);
#define problems_add(p, ...) problems_put(p, /* is_warning= */ false, __VA_ARGS__)
#define problems_warn(p, ...) problems_put(p, /* is_warning= */ true, __VA_ARGS__)

/* Tells them all in the order of their places and forgets them. */
void problems_tell(struct problems *p, config_complain_t complain, void *userdata);

void problems_done(struct problems *p);

/* Writes something from a file as it can be shown into buf: escaped, and cut where it is long.
 * Returns buf. */
#define QUOTE_SIZE 256
char *problems_quote(const char *found, char buf[static QUOTE_SIZE]);
