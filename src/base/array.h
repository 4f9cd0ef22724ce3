/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays that grow: a pointer to the elements and their number, kept by their owner, which
 * frees the pointer. Elements move when an array grows. */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

/* Appends an element of `size` bytes, all zero, to the array of *n that the pointer at `array`
 * leads to (NULL: none yet), and returns it. NULL: out of memory, and nothing has changed.
 *
 * The array has room for the next power of two, so that its capacity is kept nowhere: only what
 * this function has made may be given to it. *n may be lowered at any time. */
static inline void *array_add(void *array, size_t *n, size_t size)
{
	char **v = array;

	if ((*n & (*n - 1)) == 0) {
		void *more = *n > SIZE_MAX / 2 ? NULL : reallocarray(*v, *n ? 2 * *n : 1, size);

		if (!more)
			return NULL;
		*v = more;
	}
	return memset(*v + (*n)++ * size, 0, size);
}

/* Adds a text to a list that ends with NULL, as argv does, and that strings_add alone makes longer;
 * *n does not count the NULL. Takes the text over, also on failure; NULL stands for one for which
 * there was no memory. Returns 0 or -ENOMEM. */
static inline int strings_add(char ***list, size_t *n, char *text)
{
	size_t have = *list ? *n + 1 : 0;

	/* One more, and before the first the NULL behind it. */
	if (!text || (have == 0 && !array_add(list, &have, sizeof(char *))) ||
	    !array_add(list, &have, sizeof(char *))) {
		free(text);
		return -ENOMEM;
	}
	assert(*list && have == *n + 2);
	(*list)[(*n)++] = text;
	return 0;
}

/* Makes room for at least n elements of `size` bytes in the array that the pointer at `array` leads
 * to, which has room for *cap of them: at least twice as many as before, so that adding one by one
 * costs no more than copying each twice. Returns 0, or -ENOMEM, and nothing has changed. */
static inline int array_reserve(void *array, size_t *cap, size_t n, size_t size)
{
	size_t most = MAX(MAX(n, (size_t)16), *cap > SIZE_MAX / 2 ? *cap : 2 * *cap);
	void **v = array, *more;

	if (n <= *cap)
		return 0;
	more = reallocarray(*v, most, size);
	if (!more)
		return -ENOMEM;
	*v = more;
	*cap = most;
	return 0;
}
