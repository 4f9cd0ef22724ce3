/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Divides a filesystem into the ranges that FITRIM is called with, one after another, each with at
 * most so many bytes that may be free. Pure: what is free is asked of a function.
 *
 *   exact       XFS, btrfs and others: the kernel trims what is free in the range, cut at its ends
 *   by runs     ext4: since Linux 6.8 the kernel trims each free run that begins in the range to
 * its end, so that a range that ends inside of one would have the next one trim the rest of it
 * again. Ranges end behind runs. A run that is too long is asked for in part, and what came of that
 * says how this kernel does it. by units    where not even that is known: a block group, an
 * allocation group, or all at once
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranges are no smaller, and their ends are multiples: the largest block of any filesystem. */
#define TRIM_RANGE_LEAST 65536

/* As ext_runs_next (ext-runs.h). */
typedef bool trim_next_run(void *userdata, uint64_t from, uint64_t *ret_start, uint64_t *ret_end);

/* A part of the address space, without what lies between it and the next. */
struct trim_area {
	uint64_t start, end;
};

/* Embedded by its users, who set it up; addresses are in bytes. */
struct trim_ranges {
	uint64_t at, end; /* where the next range begins, and where there is no more */
	/* No range goes over a multiple of `unit` behind `base`; 0: there are no units. */
	uint64_t base, unit;
	const struct trim_area *areas; /* ascending; NULL: all up to `end` */
	size_t n_areas;
	trim_next_run *next_run; /* NULL: it is not known what is free */
	void *userdata;
	uint64_t least;   /* what is free in pieces below this size is not trimmed */
	bool whole_units; /* a unit or an area is not divided */
	bool counts_once; /* FITRIM says how much of the range it trimmed, each byte once */
	bool open;        /* `end` is a guess: the last range goes as far as there are addresses */
};

struct trim_range {
	uint64_t start, bytes; /* as FITRIM takes them */
	uint64_t free;         /* of these so many may be free; 0: nothing is to be done */
	uint64_t run_end;      /* of a run that it has but a part of, or 0 */
};

/* The next range with at most so many free bytes, if it can be divided so. Returns false if there
 * is none. */
bool trim_ranges_next(struct trim_ranges *r, uint64_t most_bytes, struct trim_range *ret);

/* It was trimmed, or there was nothing to be done (0). The next one begins behind it. */
void trim_ranges_done(struct trim_ranges *r, const struct trim_range *range, uint64_t trimmed);
