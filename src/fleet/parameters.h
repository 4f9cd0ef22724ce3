/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parameters of a statement as texts, as PostgreSQL reads them: numbers, texts, and arrays of
 * those. Knows no connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"

#define PARAMETERS_MOST 12 /* publish() has as many */

/* All zero is empty. Owns what the values are made of. */
struct parameters {
	const char *v[PARAMETERS_MOST]; /* NULL: the value NULL */
	int n;
	char *owned[PARAMETERS_MOST];
	size_t sizes[PARAMETERS_MOST];
	FILE *array; /* the one that is being made */
	bool failed; /* out of memory */
};

/* text stays the caller's, and valid until the statement was sent. NULL is NULL. */
void parameters_text(struct parameters *p, const char *text);
void parameters_number(struct parameters *p, int64_t n);

/* An array: begin, its elements, end. */
void parameters_array(struct parameters *p);
void parameters_add_text(struct parameters *p, const char *text);
void parameters_add_number(struct parameters *p, int64_t n);
void parameters_add_bytes(struct parameters *p, const void *bytes, size_t len);
void parameters_array_end(struct parameters *p);

void parameters_done(struct parameters *p);
#define _cleanup_parameters_ _cleanup_(parameters_done)
