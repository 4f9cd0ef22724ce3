/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became of names, collected and then recorded as one piece of work. */
#pragma once

#include "store/store-queue.h"

struct outcome;

struct outcome *outcome_new(uint64_t job);
struct outcome *outcome_free(struct outcome *o);

/* Names are in this directory of staging: goes on record with those that are marked so. */
void outcome_staging(struct outcome *o, const struct lasting_identity *id);
/* Names with consecutive numbers and the same end are one range. */
int outcome_mark(struct outcome *o, uint64_t from, uint64_t to, enum entry_state state);
/* The first thousand; the rest is counted by others. */
int outcome_problem(struct outcome *o, const struct problem_record *p);

/* Takes o. recorded may be NULL; it is called once, in this call if nothing could be posted. */
void outcome_record(struct outcome *o, struct store_queue *q,
		    void (*recorded)(int r, void *userdata), void *userdata);
