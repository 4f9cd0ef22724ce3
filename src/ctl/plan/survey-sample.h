/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which entries of a tree are looked at one by one, and what those say about all of them.
 *
 * Pure: no files, no clock. The first entries are all looked at, so that small trees are known
 * exactly; of the rest a small share in short runs, because neighbours in inode order lie in one
 * block of the disk and cost one read together. Where each run lies in its window is a matter of
 * chance, so that no pattern in the tree can hide from it; the dice are the same each time, so that
 * the same tree gets the same answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampler {
	uint64_t whole;       /* so many are all looked at */
	unsigned run, window; /* then `run` in a row out of each `window` */

	uint64_t seen, looked_whole, looked_part;
	bool in_part; /* the entry last asked about is past the whole ones */
	unsigned run_start;
	uint64_t dice;

	/* Means of the runs, and how they differ (Welford), for the margin. */
	double run_sum, mean, m2;
	unsigned run_n;
	uint64_t runs;
};

/* A sum over the looked-at entries, in both parts of the tree. */
struct tally {
	uint64_t whole, part;
};

void sampler_init(struct sampler *s, uint64_t whole, unsigned run, unsigned window);

/* The next entry of the tree: shall it be looked at? */
bool sampler_next(struct sampler *s);

/* It was; `value` is what the margin is about. */
void sampler_looked(struct sampler *s, double value);

/* Adds to a sum for the entry last looked at. */
void tally_add(struct tally *t, const struct sampler *s, uint64_t value);

/* What the sum would be had every entry been looked at. */
uint64_t tally_total(const struct tally *t, const struct sampler *s);

/* True if all were looked at. */
bool sampler_exact(const struct sampler *s);

/* How far off the total of the values may well be: twice its standard error, 0 if it is exact. */
uint64_t sampler_margin(const struct sampler *s);
