/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Directories and names of a submit on their way from the intake worker to the store. */
#pragma once

#include "store/store.h"
#include "daemon/workers/worker-handle.h"

struct rows;

struct rows *rows_new(void);
struct rows *rows_free(struct rows *r);

/* Both copy. */
int rows_add_dir(struct rows *r, const struct intake_dir *d);
int rows_add_entry(struct rows *r, const struct entry_record *e);

/* Enough for one piece of the store's work. */
bool rows_full(const struct rows *r);

int rows_store(const struct rows *r, struct store *s, uint64_t job);
