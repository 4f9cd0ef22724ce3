/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "similar.h"

#include <stdint.h>
#include <string.h>

#include "macros.h"

#define WORD_MOST 31

/* The optimal string alignment distance, by the textbook's table. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned char d[WORD_MOST + 1][WORD_MOST + 1];

	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned char)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= n; i++)
		for (size_t j = 1; j <= m; j++) {
			size_t least = MIN(d[i - 1][j], d[i][j - 1]) + 1UL;

			least = MIN(least, d[i - 1][j - 1] + (size_t)(a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				least = MIN(least, d[i - 2][j - 2] + 1UL);
			d[i][j] = (unsigned char)least;
		}
	return d[n][m];
}

size_t slips_between(const char *word, const char *known)
{
	size_t n = strnlen(word, WORD_MOST + 1), m = strnlen(known, WORD_MOST + 1);
	size_t d;

	if (n > WORD_MOST || m > WORD_MOST)
		return SIZE_MAX;
	d = distance(word, n, known, m);
	return d <= 2 && 2 * d < m ? d : SIZE_MAX;
}

void similar_offer(struct similar *s, const char *known)
{
	size_t n = slips_between(s->word, known);

	if (n == SIZE_MAX || (s->near && n >= s->slips))
		return;
	s->near = known;
	s->slips = n;
}
