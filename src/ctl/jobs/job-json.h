/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of jobs as JSON: an array of what job_line_json() (job-print.h) makes of each, as
 * json_print() would print it, in a twentieth of the time. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "job-list.h"
#include "ctl/common/options.h"
#include "ctl/output/printer.h"

#define JOB_KEYS 15

struct job_json {
	struct printer printer;
	struct job_json_lead { /* what comes before a value, its key and all */
		char text[40];
		size_t len;
	} leads[JOB_KEYS];
	bool pretty, some;
};

void job_json_begin(struct job_json *j, FILE *out, enum json_mode mode);
void job_json_add(struct job_json *j, const struct job_line *v, size_t n);
void job_json_end(struct job_json *j);
