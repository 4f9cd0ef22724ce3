/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Divides a filesystem into the ranges that FITRIM is called with, one after another, each with at
 * most so many bytes that may be free. Pure: what is free is asked of a function.
 *
 *   exact      FAT and others: the kernel trims what is free in the range, cut at its ends.
 *   by runs    ext4 and XFS, of which it is known what is free. Since Linux 6.8 ext4 trims each
 *              free run that begins in the range to its end, so that a range that ends inside of
 *              one would have the next one trim the rest of it again; XFS did before 6.11. Ranges
 *              end behind runs. A run that is too long is asked for in part, and what came of
 *              that says how this kernel does it.
 *   by units   where not even that is known, or the kernel divides no more: a block group, a
 *              chunk of btrfs, or all at once.
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
	bool whole_runs;  /* a run is not divided, as has been seen */
	/* FITRIM says what it has trimmed. If not, it says the length of the range (XFS since 6.6),
	 * and a range begins where the first run does. */
	bool counts;
	bool open; /* `end` is a guess: the last range goes as far as there are addresses */
};

struct trim_range {
	uint64_t start, bytes; /* as FITRIM takes them */
	uint64_t free;         /* of these so many may be free; 0: nothing is to be done */
	uint64_t run_end;      /* of a run that it has but a part of, or 0 */
};

/* The next range with at most so many free bytes, if it can be divided so. Returns false if there
 * is none. */
bool trim_ranges_next(struct trim_ranges *r, uint64_t most_bytes, struct trim_range *ret);

/* It was trimmed, and this is what FITRIM says of it; or there was nothing to be done (0). The next
 * one begins behind it. Returns how much was trimmed, as far as that is known. */
uint64_t trim_ranges_done(struct trim_ranges *r, const struct trim_range *range, uint64_t said);
