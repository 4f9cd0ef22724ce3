/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

static void run_end(struct sampler *s)
{
	double mean = s->run_n > 0 ? s->run_sum / (double)s->run_n : 0;

	s->runs += s->run_n > 0;
	s->means += mean;
	s->squares += mean * mean;
	s->run_sum = 0;
	s->run_n = 0;
}

bool sampler_next(struct sampler *s)
{
	uint64_t i = s->seen++, at;

	assert(s->whole > 0 && s->window > SAMPLE_RUN);
	s->in_part = i >= s->whole;
	if (!s->in_part)
		return true;
	at = (i - s->whole) % s->window;
	if (at == 0) {
		run_end(s);
		s->run_start = (unsigned)nrand48(s->random) % (s->window - SAMPLE_RUN + 1);
	}
	return at >= s->run_start && at < s->run_start + SAMPLE_RUN;
}

void sampler_examined(struct sampler *s, uint64_t bytes)
{
	s->examined[s->in_part]++;
	assert(s->examined[0] + s->examined[1] <= s->seen);
	sampler_add(s, SAMPLE_BYTES, bytes);
	if (s->in_part) {
		s->run_sum += (double)bytes;
		s->run_n++;
	}
}

void sampler_add(struct sampler *s, enum sample_sum sum, uint64_t value)
{
	s->sums[sum][s->in_part] += value;
}

bool sampler_exact(const struct sampler *s)
{
	return s->seen <= s->whole;
}

uint64_t sampler_total(const struct sampler *s, enum sample_sum sum)
{
	const uint64_t *v = s->sums[sum];
	/* A remainder too short for its first run is taken to be like what came before. */
	bool part = s->examined[1] > 0;

	if (sampler_exact(s))
		return v[0];
	return v[0] + (uint64_t)((double)v[part] * (double)(s->seen - s->whole) /
				 (double)MAX(s->examined[part], 1U));
}

uint64_t sampler_margin(const struct sampler *s)
{
	struct sampler of = *s;
	double runs, variance;

	run_end(&of);
	if (sampler_exact(s) || of.runs < 2)
		return 0;
	runs = (double)of.runs;
	variance = (of.squares - of.means * of.means / runs) / (runs - 1);
	return (uint64_t)(2 * sqrt(MAX(variance, 0) / runs) * (double)(s->seen - s->whole));
}
