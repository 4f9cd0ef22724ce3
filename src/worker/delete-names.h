/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One run: names in one directory, each deleted only if it is still the same file. Owns the names
 * from run_take to run_done; run_all may be on another thread, and tells by itself. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/filesystem/profile.h"
#include "remainders.h"
#include "wire/protocol.h"

struct engine;
struct serving;

struct run_name {
	struct run_item is; /* the name is in the request's memory, which is the run's now */
	uint64_t ino, dev;
	int error;     /* why it is not gone */
	bool left_out; /* of what the engine is given */
};

struct run {
	struct serving *s;
	struct wire_in in;   /* the request */
	struct wire_out out; /* of answers; under the lock */
	pthread_mutex_t lock;
	struct run_message m;
	struct run_name *v;
	size_t n;
	struct run_name **by_name; /* made when there is something to be looked up */
	unsigned problems;         /* told so far */
	uint64_t skipped;          /* before the engine began */
	bool missing;              /* a name was not there then */
	struct engine *engine;
	_Atomic bool cancelled, ended;
	struct remainders remainders;
	struct fs_profile profile; /* of the engine, for the remainders */
};

/* Takes over the request that has just come. Returns 0, -EBADMSG or -ENOMEM; then there is no run.
 */
int run_take(struct run *r, struct serving *s);
/* Deletes the names, tells what is kept, and answers. On any thread; ends when all is done, the
 * remainders included. */
void run_all(struct run *r);
/* Has it answered, and are there no remainders? Then the next may be taken. */
bool run_ended(const struct run *r);
/* Stops at the next entry. keep: what is left of large files is held then. Again, once the run has
 * said that it was stopped: holds them again, or drops them. */
void run_cancel(struct run *r, bool keep);
/* What is held is freed at its pace. */
void run_free_remainders(struct run *r);
void run_done(struct run *r);
