/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which entries of a tree are examined one by one, and what those say about all of them. Pure.
 *
 * The first entries are all examined, so that small trees are known exactly; of the remainder a
 * small share in short runs, because neighbours in inode order lie in one block of the disk and
 * cost one read together. Where each run lies in its window is random, so that no pattern in the
 * tree can hide from it; the seed is constant, so that the same tree gets the same answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What is summed up over the examined entries. */
enum sample_sum {
	SAMPLE_BYTES,
	SAMPLE_LARGE_FILES,
	SAMPLE_LINKED_ENTRIES,
	SAMPLE_LINKED_BYTES,
	SAMPLE_UNDELETABLE,
	SAMPLE_SUMS
};

/* Embedded by its users. The caller sets the first two members; all others begin as zero. */
struct sampler {
	uint64_t whole;  /* the first entries, all examined; at least 1 */
	unsigned window; /* then SAMPLE_RUN in a row out of each window, which is larger */

	uint64_t seen, examined[2]; /* [0]: of the first ones, [1]: of the remainder */
	uint64_t sums[SAMPLE_SUMS][2];
	bool in_part; /* the current entry belongs to the remainder */
	unsigned run_start;
	unsigned short random[3];

	/* Of the runs, for the margin of SAMPLE_BYTES: how many, their means and squares. */
	uint64_t runs, run_n;
	double run_sum, means, squares;
};

#define SAMPLE_RUN 16

/* Goes on to the next entry of the tree. Returns whether it is to be examined. */
bool sampler_next(struct sampler *s);

/* The current entry was examined, and `bytes` is its part of SAMPLE_BYTES. Once for each entry. */
void sampler_examined(struct sampler *s, uint64_t bytes);

/* Adds to another sum for the current entry. */
void sampler_add(struct sampler *s, enum sample_sum sum, uint64_t value);

/* What the sum would be had every entry been examined. */
uint64_t sampler_total(const struct sampler *s, enum sample_sum sum);

/* True if every entry was to be examined. */
bool sampler_exact(const struct sampler *s);

/* How far off the total of SAMPLE_BYTES may well be, in bytes: twice its standard error; 0 if it is
 * exact, or if there are too few runs to tell. */
uint64_t sampler_margin(const struct sampler *s);
