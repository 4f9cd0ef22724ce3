/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast a job gets on, and how long it will take at that rate. Pure: what was done by which time
 * in, rates out. The last ten seconds count for most, so that a pause between two steps of a large
 * file is no end of it, and a device that has become busy is soon seen. */
#pragma once

#include <stdint.h>

struct job_record;

/* All zero: not measured. */
struct job_rate {
	uint64_t begun_usec, usec; /* the first and the last time, of one clock */
	uint64_t entries, bytes;   /* what was done by the last */
	double entries_second, bytes_second;
};

/* So much was done by now; the first time only that is noted. */
void job_rate_add(struct job_rate *r, uint64_t now_usec, uint64_t entries, uint64_t bytes);

/* How long until all is done that the job is known to have; UINT64_MAX if that is not known. */
uint64_t job_rate_left_usec(const struct job_rate *r, const struct job_record *j);
