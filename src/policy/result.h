/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became of the last run of a policy, as a text that outlives restarts. What becomes of jobs
 * is the history's to tell: of those that had not ended there are only the numbers. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/escape.h"
#include "base/macros.h"
#include "rules.h"

/* More unfinished jobs of one policy are not followed, nor is more said of why something stayed. */
#define RESULT_JOBS_MOST 16
#define RESULT_WHY_SIZE 2048
/* Where the text is: in the state directory, by the policy's name. */
#define RESULT_FILE "%s/policy-result-%s"
/* It is shorter than this. */
#define RESULT_TEXT_MOST 8192

/* max-delete bounds how much limits delete in a period. A period begins with the first deletion
 * after the last period has ended. It is a little shorter than a day, so that each run of a daily
 * timer begins a period, even if the timer delays it. */
#define PERIOD_USEC (20 * 3600 * USEC_PER_SEC)

/* Runs in a row that gained less than a tenth of the space that they should have, after which a
 * policy stops. */
#define STALLS_MOST 2

/* How a run ended, or a job; of a run and its job, the larger. A person who cancels or restores the
 * job has decided that it is not to be done, so that it has not failed. */
enum result_status {
	RESULT_DONE,
	RESULT_PARTIAL,
	RESULT_FAILED,
	RESULT_CANCELLED,
	RESULT_RESTORED,
	RESULT_STATUSES
};

/* What a limit had and demanded at the end of a run; wanted 0: it was met. See limits.h. */
struct result_unmet {
	uint64_t have, wanted;
};

/* All zero: there was no run. Times are CLOCK_REALTIME. */
struct policy_result {
	uint64_t began_usec;
	uint64_t success_usec; /* when one that did all it was to do had ended last; 0: none did */
	uint64_t oldest_usec;  /* the time of the oldest entry that stayed; 0: not known */
	uint64_t status;       /* enum result_status; of its job too, once that has ended */
	uint64_t job;          /* 0: there was nothing to delete */
	struct policy_sum handed, refused, excess; /* as in struct policy_plan */
	struct policy_sum pinned;
	struct policy_sum total; /* what the jobs of all runs have deleted */
	struct result_unmet unmet[LIMITS];
	/* when the period of max-delete began, and what limits have deleted in it */
	uint64_t period_usec;
	struct policy_sum spent;
	uint64_t spent_referenced_bytes;
	/* what the last run that was measured was to free, and what the filesystem gained */
	uint64_t expected_bytes, gained_bytes;
	uint64_t stalls; /* number of runs in a row that gained next to nothing */
	struct result_job {
		uint64_t id, status; /* of the run that it is of */
	} jobs[RESULT_JOBS_MOST];    /* that have not ended, as far as is known */
	size_t n_jobs;
	char why[RESULT_WHY_SIZE]; /* lines, each of which can be shown */
};

/* The result of a run that begins now, after one that may be all zero. */
void result_begin(struct policy_result *r, const struct policy_result *before, uint64_t now_usec);

/* Adds a line to why, if there is room. */
void result_say(struct policy_result *r, const struct safe_text *line);

/* The run, all but its job, has ended. */
void result_end(struct policy_result *r, enum result_status status, uint64_t now_usec);

/* One of its jobs has ended, and is forgotten. */
void result_job_ended(struct policy_result *r, size_t i, enum result_status status,
		      uint64_t ended_usec, const struct policy_sum *deleted);

/* What has become of one of its jobs will not be known any more. */
void result_job_forget(struct policy_result *r, size_t i);

/* Returns what limits have deleted in the period that lasts now. */
struct policy_set result_spent(const struct policy_result *r, uint64_t now_usec);

/* Adds what limits delete in a run, and begins a period if none lasts. */
void result_spend(struct policy_result *r, const struct policy_set *limited, uint64_t now_usec);

/* Notes what a run was to free and what the filesystem gained. */
void result_measured(struct policy_result *r, uint64_t expected_bytes, uint64_t gained_bytes);

/* Notes which limits the run does not meet. */
void result_note_unmet(struct policy_result *r, const struct policy_plan *plan);

/* "done", "partial", "failed", "cancelled" or "restored". */
const char *result_word(const struct policy_result *r);

void result_write(FILE *f, const struct policy_result *r);

/* Returns 0 or -EBADMSG. What a later version may have added is passed over. */
int result_parse(const char *text, struct policy_result *ret);
