/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "estimate.h"

#include <string.h>

/* With one sample a second, the last quarter of a minute counts: pacing goes in bursts, and a
 * device changes its mind. */
#define SAMPLE_USEC USEC_PER_SEC
#define BASIS_SHARE 0.01

void estimate_add(struct estimate *e, uint64_t usec, double done)
{
	e->now = (struct estimate_sample){ usec, done };
	/* It begins when something is done; and anew when less is. */
	if (e->n > 0 && (done < e->v[e->n - 1].done || (e->n == 1 && done <= e->v[0].done)))
		e->n = 0;
	if (e->n > 0 && usec - e->v[e->n - 1].usec < SAMPLE_USEC)
		return;
	if (e->n == ESTIMATE_SAMPLES)
		memmove(e->v, e->v + 1, --e->n * sizeof(e->v[0]));
	e->v[e->n++] = e->now;
}

uint64_t estimate_left(const struct estimate *e, double left)
{
	uint64_t span = e->n > 0 ? e->now.usec - e->v[0].usec : 0;
	double did = e->n > 0 ? e->now.done - e->v[0].done : 0;

	if (span < ESTIMATE_BASIS_USEC || did <= 0 || left <= 0)
		return 0;
	return (uint64_t)(left / did * (double)span);
}

uint64_t estimate_average(uint64_t elapsed_usec, double done, double all)
{
	if (elapsed_usec < ESTIMATE_BASIS_USEC || done <= 0 || done >= all ||
	    done < all * BASIS_SHARE)
		return 0;
	return (uint64_t)((all - done) / done * (double)elapsed_usec);
}
