/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every file uses: array length, cleanup attributes. No state, owns nothing. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
/* Each argument is evaluated once: it may be a call, or what another process writes. */
#define MIN(a, b) EITHER(<, a, b, __COUNTER__)
#define MAX(a, b) EITHER(>, a, b, __COUNTER__)
#define EITHER(op, a, b, n) EITHER_NAMED(op, a, b, n)
#define EITHER_NAMED(op, a, b, n)                                                                  \
	__extension__({                                                                            \
		__auto_type either_a##n = (a);                                                     \
		__auto_type either_b##n = (b);                                                     \
		either_a##n op either_b##n ? either_a##n : either_b##n;                            \
	})
#define CLAMP(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))
#define KiB(n) ((size_t)(n) << 10)
#define MiB(n) ((size_t)(n) << 20)
#define USEC_PER_SEC 1000000ULL
#define NSEC_PER_SEC 1000000000LL
#define USEC_PER_MSEC 1000ULL
/* As to chown(2): no user. */
#define UID_NONE ((uid_t)-1)

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

static inline void freep(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ _cleanup_(freep)
