/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs as a table for people. */
#pragma once

#include "job-list.h"
#include "screen.h"

/* Prints a row for each job. Returns 0 or -ENOMEM. */
int job_table_print(const struct job_list *l, const struct screen *screen);
