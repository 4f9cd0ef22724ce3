/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void failure_setv(struct failure *f, const char *name, const char *format, va_list ap)
{
	f->name = name;
	safe_text_formatv(&f->text, format, ap);
}

void failure_set(struct failure *f, const char *name, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	failure_setv(f, name, format, ap);
	va_end(ap);
}

static const char *name_of_errno(int error)
{
	switch (-error) {
	case EPERM:
	case EACCES:
		return "NotAuthorized";
	case EXDEV:
		return "CrossesMount";
	case ENOENT:
		return "NoSuchPath";
	case ESTALE:
		return "IdentityChanged";
	case EINVAL:
		return "InvalidArgument";
	case EOPNOTSUPP:
		return "Unsupported";
	default:
		return "Failed";
	}
}

void failure_errno(struct failure *f, int error, const char *format, ...)
{
	struct safe_text what;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&what, format, ap);
	va_end(ap);
	failure_set(f, name_of_errno(error), "%s: %s", what.line, strerror(-error));
}

void failure_from_intake(struct failure *f, int error, const struct intake_failure *said)
{
	static const char *const names[] = {
		"Protected",   "NotAuthorized",   "CrossesMount",
		"InvalidPath", "IdentityChanged", "LimitExceeded",
		"Unsupported", "NoSuchPath",      "InvalidArgument",
	};

	if (error == -EPIPE) {
		failure_set(
			f, "Failed",
			"the process that looks at the paths has died; nothing "
			"was accepted: try again, and look into the journal if it happens again");
		return;
	}
	if (!said || !said->name) {
		failure_errno(f, error, "the paths could not be looked at");
		return;
	}
	failure_set(f, "Failed", "%s", said->text ? said->text : "");
	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (strcmp(names[i], said->name) == 0)
			f->name = names[i];
}
