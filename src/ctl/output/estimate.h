/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long what is left may take, by how fast it went lately. As long as there is no basis for
 * that, nothing is said: the first moments of a deletion are no measure of it. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

#define ESTIMATE_SAMPLES 16
/* What is less may be nothing but the start. */
#define ESTIMATE_BASIS_USEC (3 * USEC_PER_SEC)

/* All zero: nothing is known. */
struct estimate {
	struct estimate_sample {
		uint64_t usec;
		double done;
	} v[ESTIMATE_SAMPLES], now; /* v: the oldest first, and a second apart */
	size_t n;
};

/* So much is done at that time, which never goes back; what was done before the first call does not
 * count. */
void estimate_add(struct estimate *e, uint64_t usec, double done);

/* In microseconds; 0: not known. */
uint64_t estimate_left(const struct estimate *e, double left);

/* The same where only the whole is known: since when, and how much of all. */
uint64_t estimate_average(uint64_t elapsed_usec, double done, double all);
