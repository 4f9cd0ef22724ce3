/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs for people and for programs: in words, as a table, as JSON. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "job-list.h"
#include "ctl/output/screen.h"

/* The keys of a job in a list: id, state, uid, origin, priority, path, entries, entries_done,
 * bytes, bytes_freed (of a trim: trimmed), errors, created_usec, held_until_usec, started_usec,
 * finished_usec, kind (delete, rmdir), names (how many; path is of the first). */
json_t *job_line_json(const struct job_line *j);

/* Prints an array of these, as json_print() would. After json_init. */
void jobs_json_print(FILE *out, const struct job_line *v, size_t n, bool pretty);

/* Prints a table on standard output; columns in which all is as usual are left out, and so are the
 * titles without `titles`. To be called when the locale is known (screen.h). Returns 0 or -ENOMEM.
 */
int jobs_table_print(const struct job_line *v, size_t n, const struct screen *screen, bool titles);

/* "Job 12 done: 20,000 entries, 2.0 GiB, in 3min 2s" on stdout. */
void job_end_print(const struct job_line *j);

/* "Mon..Fri 08:00..18:00: at most 20.0 MiB/s until 2026-11-24 18:00:00 (in 2h)": the pacing window
 * that is in force, as the daemon tells of it; "" if none is. Returns buf. */
#define WINDOW_WORDS 256
char *window_format(char buf[static WINDOW_WORDS], const char *span, uint64_t rate,
		    uint64_t until_usec);

/* A user's name, or the number where there is none. Returns buf. */
char *user_format(char *buf, size_t len, uid_t uid);

/* "12,345 of 20,000" for " of ", or only what is done where the rest is not known. Returns buf; 60
 * bytes are enough. */
char *entries_format(char *buf, size_t len, uint64_t done, uint64_t total, const char *of);

/* The path of the first name, escaped, and how many more there are: "/srv/a +15 more". Malloc'ed,
 * or NULL. */
char *job_path_format(const struct job_line *j);

/* "1.2 of 2.0 GiB", likewise. 40 bytes are enough. */
char *bytes_format(char *buf, size_t len, uint64_t done, uint64_t total);

/* The same for a column of a table: "1.2G/2.0G". */
char *bytes_brief(char *buf, size_t len, uint64_t done, uint64_t total);
