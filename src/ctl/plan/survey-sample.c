/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey-sample.h"

#include <math.h>

#include "base/macros.h"

void sampler_init(struct sampler *s, uint64_t whole, unsigned run, unsigned window)
{
	*s = (struct sampler){
		.whole = whole,
		.run = run,
		.window = window,
		.dice = 0x9e3779b97f4a7c15U,
	};
}

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t roll(struct sampler *s)
{
	uint64_t z = s->dice += 0x9e3779b97f4a7c15U;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

static void run_end(struct sampler *s)
{
	double mean, delta;

	if (s->run_n == 0)
		return;
	mean = s->run_sum / s->run_n;
	delta = mean - s->mean;
	s->runs++;
	s->mean += delta / (double)s->runs;
	s->m2 += delta * (mean - s->mean);
	s->run_sum = 0;
	s->run_n = 0;
}

bool sampler_next(struct sampler *s)
{
	uint64_t i = s->seen++, at;

	s->in_part = i >= s->whole;
	if (!s->in_part)
		return true;
	at = (i - s->whole) % s->window;
	if (at == 0) {
		run_end(s);
		s->run_start = (unsigned)(roll(s) % (s->window - s->run + 1));
	}
	return at >= s->run_start && at < s->run_start + s->run;
}

void sampler_looked(struct sampler *s, double value)
{
	if (!s->in_part) {
		s->looked_whole++;
		return;
	}
	s->looked_part++;
	s->run_sum += value;
	s->run_n++;
}

void tally_add(struct tally *t, const struct sampler *s, uint64_t value)
{
	if (s->in_part)
		t->part += value;
	else
		t->whole += value;
}

bool sampler_exact(const struct sampler *s)
{
	return s->seen <= s->whole;
}

uint64_t tally_total(const struct tally *t, const struct sampler *s)
{
	double rest = sampler_exact(s) ? 0 : (double)(s->seen - s->whole);

	if (rest <= 0)
		return t->whole;
	/* A rest too short for its first run is taken to be like what came before. */
	if (s->looked_part == 0)
		return t->whole +
		       (uint64_t)((double)t->whole * rest / (double)MAX(s->looked_whole, 1U));
	return t->whole + (uint64_t)((double)t->part * rest / (double)s->looked_part);
}

uint64_t sampler_margin(const struct sampler *s)
{
	struct sampler ended = *s;
	double error;

	if (sampler_exact(s))
		return 0;
	run_end(&ended);
	if (ended.runs < 2)
		return 0;
	error = sqrt(ended.m2 / (double)(ended.runs - 1) / (double)ended.runs);
	return (uint64_t)(2 * error * (double)(s->seen - s->whole));
}
