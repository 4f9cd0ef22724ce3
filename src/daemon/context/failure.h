/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an operation answers when it fails: a cause of base/error-table.h, and words. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#include "base/error-table.h"
#include "base/escape.h"
#include "base/macros.h"

struct intake_failure;

struct failure {
	enum error_cause cause; /* ERROR_NONE: no failure */
	struct safe_text text;  /* what, which, why, what to do */
	/* It takes authority over jobs that are not the caller's, or there is no such job: which of
	 * the two, only a caller with that authority learns. Nothing was done. */
	bool others;
};

void failure_set(struct failure *f, enum error_cause cause, const char *format, ...) _printf_(3, 4);
void failure_setv(struct failure *f, enum error_cause cause, const char *format, va_list ap)
	_printf_(3, 0);

/* Something of reclaimd itself failed with a negative errno, whose words are put behind. */
void failure_errno(struct failure *f, int error, const char *format, ...) _printf_(3, 4);

/* What a worker has said; NULL: it has said nothing, because of a negative errno. */
void failure_from_intake(struct failure *f, int error, const struct intake_failure *said);
