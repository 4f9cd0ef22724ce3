/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs as a table for people. */
#pragma once

#include "job-list.h"
#include "ctl/output/screen.h"

struct job_table;

/* Returns 0 or -ENOMEM. */
int job_table_new(struct job_table **ret);
struct job_table *job_table_free(struct job_table *t);
static inline void job_table_freep(struct job_table **t)
{
	*t = job_table_free(*t);
}
#define _cleanup_job_table_ _cleanup_(job_table_freep)

/* Adds a row for each job, when the locale is known (screen.h). The jobs' texts outlive the table.
 * Returns 0 or -ENOMEM. */
int job_table_add(struct job_table *t, const struct job_line *v, size_t n);

/* Columns in which all is as usual are left out. */
void job_table_print(struct job_table *t, const struct screen *screen);
