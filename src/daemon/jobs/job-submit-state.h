/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A submit as its two files see it: job-submit.c until it is on record, job-stage.c from there on.
 */
#pragma once

#include <limits.h>

#include "daemon/manager.h"
#include "outcome.h"
#include "name-rows.h"

struct submit {
	struct manager *m;
	struct owner *owner;
	struct intake *intake; /* that knows the session */
	uint64_t session;
	bool dry_run, validated;
	bool told_to_stop; /* the worker, while it looks */
	bool held_back;    /* the worker waits for the store */
	bool counts;       /* among its user's jobs: the job itself does as soon as there is one */
	bool (*is_awaited)(void *userdata);
	bool keep_moved;
	bool (*is_expected)(const struct entry_record *e, void *userdata);
	void *expected_userdata;
	submit_done_t done;
	void *userdata;
	uint64_t undo_usec;
	int64_t clock_offset; /* when the window began */

	struct job_record record; /* strings: path is the submit's, the others static or below */
	char *path, *origin, *dir_path;
	char staging[33];
	char mount[PATH_MAX];
	struct rows *rows;
	struct held held;
	unsigned posted; /* pieces the store has not answered */
	int error;       /* the first that went wrong */
	struct failure failure;
	struct submitted result;

	uint64_t id; /* the store's thread's until the last piece is answered */

	struct job *job; /* once it is one */
	struct place *place;
	struct outcome *outcome;
	uint64_t staged;
	void (*stopped)(struct job *j, void *userdata); /* of who cancels it meanwhile, or NULL */
	void *stopped_userdata;
};

/* It is on record: moves names out of the way, answers, and lets the job go on. If something has
 * gone wrong before, or there is nobody to be answered, it is taken off the record first. */
void stage_begin(struct submit *s);

/* Whether the caller is gone, so that there is nobody to be answered. */
bool submit_is_unanswerable(const struct submit *s);

/* Answers and frees it. */
void submit_end(struct submit *s);
