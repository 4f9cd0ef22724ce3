/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Words for what an operation answers when it fails. */
#pragma once

#include <stdarg.h>

#include "operations.h"
#include "base/macros.h"

void failure_set(struct failure *f, const char *name, const char *format, ...) _printf_(3, 4);
void failure_setv(struct failure *f, const char *name, const char *format, va_list ap)
	_printf_(3, 0);

/* The same from a negative errno, whose words are put behind, with the error's name that fits it
 * best. */
void failure_errno(struct failure *f, int error, const char *format, ...) _printf_(3, 4);

/* From what a worker said; a name that is none of ours becomes Failed. */
void failure_from_intake(struct failure *f, int error, const struct intake_failure *said);
