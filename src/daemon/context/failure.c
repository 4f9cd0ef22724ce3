/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/workers/worker-handle.h"

void failure_setv(struct failure *f, enum error_cause cause, const char *format, va_list ap)
{
	f->cause = cause;
	safe_text_formatv(&f->text, format, ap);
}

void failure_set(struct failure *f, enum error_cause cause, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	failure_setv(f, cause, format, ap);
	va_end(ap);
}

void failure_errno(struct failure *f, int error, const char *format, ...)
{
	struct safe_text what;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&what, format, ap);
	va_end(ap);
	failure_set(f, error_from_errno(error, ERROR_AT_DAEMON), "%s: %s", what.line,
		    strerror(-error));
}

void failure_from_intake(struct failure *f, int error, const struct intake_failure *said)
{
	if (error == -EPIPE)
		failure_set(f, ERROR_FAILED,
			    "the process that checks the paths has died; nothing was accepted: "
			    "try again, and look into the journal if it happens again");
	else if (said)
		failure_set(f, said->cause, "%s", said->text);
	else
		failure_errno(f, error, "the paths could not be checked");
}
