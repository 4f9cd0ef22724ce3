/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The jobs that are held or wait to be tried again, by when they are due: a binary heap, so that
 * one timer does for a hundred thousand of them. */
#pragma once

#include "job.h"

/* When that is, by context_clock. */
uint64_t due_usec(const struct job *j);

/* Room for n jobs in all; adding then cannot fail. */
int due_reserve(struct due *d, size_t n);
void due_add(struct due *d, struct job *j);
/* Does nothing if it is not in there. */
void due_remove(struct due *d, struct job *j);
/* The next one, or NULL. */
struct job *due_first(const struct due *d);
void due_done(struct due *d);
