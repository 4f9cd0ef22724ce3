/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What fuzzers share. Each is one function, called by libFuzzer with inputs that it makes up (the
 * fuzz preset), and by replay.c with the ones that were kept (every other build). */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. */
#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			__builtin_trap();                                                          \
	} while (0)
