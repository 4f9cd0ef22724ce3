/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of jobs as JSON. */
#pragma once

#include <stdio.h>

#include "job-list.h"
#include "options.h"

/* Prints an array of what job_line_json() (job-print.h) makes of each, as json_print()
 * would: lists may be long, and this takes a twentieth of the time. */
void job_lines_json_print(FILE *out, const struct job_line *v, size_t n, enum json_mode mode);
