/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The jobs that are held or wait to be tried again, by when they are due: a binary heap, so that
 * one timer does for a hundred thousand of them. */
#pragma once

#include "job.h"

/* When that is, by context_clock. */
uint64_t job_deadline_usec(const struct job *j);

/* Room for n jobs in all; adding then cannot fail. */
int deadlines_reserve(struct deadlines *d, size_t n);
void deadlines_add(struct deadlines *d, struct job *j);
/* Does nothing if it is not in there. */
void deadlines_remove(struct deadlines *d, struct job *j);
/* The next one, or NULL. */
struct job *deadlines_first(const struct deadlines *d);
void deadlines_done(struct deadlines *d);
