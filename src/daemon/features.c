/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "features.h"

#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

/* landlock_create_ruleset(2): asks for the ABI's version. */
#define LANDLOCK_VERSION_FLAG 1U

static void add(struct features *f, size_t *n, const char *format, ...) _printf_(3, 4);

static void add(struct features *f, size_t *n, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(f->text[*n], sizeof(f->text[*n]), format, ap);
	va_end(ap);
	f->names[*n] = f->text[*n];
	f->names[++*n] = NULL;
}

void features_detect(struct features *f)
{
	struct io_uring_params params = { 0 };
	long landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
	long ring = syscall(SYS_io_uring_setup, 1, &params);
	size_t n = 0;

	*f = (struct features){ 0 };
	if (ring >= 0)
		(void)close((int)ring);
	add(f, &n, "%cio_uring", ring >= 0 ? '+' : '-');
	if (landlock > 0)
		add(f, &n, "+landlock:%ld", landlock);
	else
		add(f, &n, "-landlock");
#ifdef RECLAIM_VARLINK
	add(f, &n, "+varlink");
#else
	add(f, &n, "-varlink");
#endif
}
