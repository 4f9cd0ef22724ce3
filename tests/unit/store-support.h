/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the store share: a state directory of their own, and jobs to put in it. */
#pragma once

#include "store/store.h"

struct state_dir {
	char path[64];
};

void state_make(struct state_dir *d);
void state_remove(struct state_dir *d);
/* Writes the path of a file in it; returns buf. 256 bytes are always enough. */
const char *state_file(const struct state_dir *d, const char *name, char *buf);
/* How many files there are whose name begins so. */
size_t state_count(const struct state_dir *d, const char *prefix);

/* Opens it; nothing is set aside. */
struct store *state_open(const struct state_dir *d);
/* Opens it; something is set aside, and the message has all of these words. */
struct store *state_open_aside(const struct state_dir *d, const char *words);

/* Changes a closed store, as an administrator with sqlite3(1) would. Returns how many rows. */
int state_change(const struct state_dir *d, const char *sql);

/* A job with so many entries, each in a call of its own. Returns 0 or the first error. */
int job_make(struct store *s, const char *path, unsigned int n_entries, uint64_t *ret_id);

/* How many jobs, and how many entries of a job, there are. */
uint64_t jobs_count(struct store *s);
uint64_t entries_count(struct store *s, uint64_t job);
