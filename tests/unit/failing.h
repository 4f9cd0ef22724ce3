/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests in which each call of some kind fails in turn, alone or with those that come after it.
 * The calls may be made on any thread. */
#pragma once

#include <stdbool.h>

/* From now on the nth call fails, and n_more that come after it; nth 0: none. */
void failing_arm(unsigned nth, unsigned n_more);

/* Whether the nth call has been made since then. */
bool failing_met(void);

/* None fails any more. Returns what failing_met did before. */
bool failing_disarm(void);

/* Asked once for each call: whether it is to fail. If so, errno is error. */
bool fails(int error);

/* Fails with that value and that error, or calls the C library. The linker puts it in the library's
 * place where our own code calls it (--wrap). */
#define FAILING(value, error, type, name, parameters, ...)                                         \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return fails(error) ? (value) : __real_##name(__VA_ARGS__);                        \
	}
