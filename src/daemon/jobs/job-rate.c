/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-rate.h"

#include <stdbool.h>

#include "base/macros.h"
#include "store/store.h"

/* What lies further back counts for less and less. */
#define MEMORY_USEC (10 * USEC_PER_SEC)
/* From this size on the time that an entry takes is that of its bytes. */
#define LARGE_BYTES MiB(1)
/* Longer than this is not known: the job hardly gets on. */
#define LEFT_USEC_MOST (10.0 * 365 * 24 * 3600 * USEC_PER_SEC)

static double second(uint64_t before, uint64_t now, uint64_t usec)
{
	return (double)(now - MIN(before, now)) / (double)usec * USEC_PER_SEC;
}

void job_rate_add(struct job_rate *r, uint64_t now_usec, uint64_t entries, uint64_t bytes)
{
	uint64_t passed = now_usec - r->usec;
	double weight;

	if (r->usec == 0) {
		r->begun_usec = now_usec;
	} else if (passed == 0) {
		return;
	} else {
		/* A plain mean as long as it is young. */
		weight = (double)passed / (double)MIN(now_usec - r->begun_usec, MEMORY_USEC);
		weight = MIN(weight, 1.0);
		r->entries_second +=
			weight * (second(r->entries, entries, passed) - r->entries_second);
		r->bytes_second += weight * (second(r->bytes, bytes, passed) - r->bytes_second);
	}
	r->usec = now_usec;
	r->entries = entries;
	r->bytes = bytes;
}

static double left(uint64_t all, uint64_t done, double rate)
{
	if (all <= done)
		return all > 0 ? 0 : LEFT_USEC_MOST;
	return rate > 0 ? (double)(all - done) / rate * USEC_PER_SEC : LEFT_USEC_MOST;
}

uint64_t job_rate_left_usec(const struct job_rate *r, const struct job_record *j)
{
	double bytes = left(j->bytes, j->bytes_freed, r->bytes_second);
	double entries = left(j->entries, j->entries_done, r->entries_second);
	bool is_large = j->entries > 0 && j->bytes / j->entries >= LARGE_BYTES;
	double is;

	/* How many large files are done says little of what is left. */
	if (bytes < LEFT_USEC_MOST && (is_large || entries >= LEFT_USEC_MOST))
		is = bytes;
	else
		is = bytes < LEFT_USEC_MOST ? MAX(bytes, entries) : entries;
	return is < LEFT_USEC_MOST ? (uint64_t)is : UINT64_MAX;
}
