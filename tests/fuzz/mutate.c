/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How libFuzzer gets from one input to the next: half of them are as the grammar has them, or have
 * one more message of it, and the other half has something broken. */
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct words w = { .state = seed, .v = data, .n = size, .most = max_size };
	bool anew = chance(&w, 50), whole = chance(&w, 50), breaks = !whole;

	if (anew)
		w.n = 0;
	if (anew || whole)
		grammar(&w);
	return breaks || w.n == 0 ? LLVMFuzzerMutate(data, w.n, max_size) : w.n;
}
