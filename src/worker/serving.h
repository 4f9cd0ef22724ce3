/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker process knows while it serves: its end of the socket, its identity, what is
 * protected. Everything else in this directory is given one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/protocol.h"

struct last_reference_process;
struct moosefs;
struct protect;
struct remote_pace;
struct session;
struct tuner;
struct view;

struct serving {
	int sock;
	struct wire_in in;       /* the request ... */
	union protocol_record m; /* ... and what it has once; descriptors that are not taken are
				  * closed */
	struct wire_out out;     /* the answer; of the main thread */
	uint32_t serial;
	uint64_t said_usec; /* when an answer was last sent */

	bool deletes;                                  /* role */
	struct remote_pace *pace;                      /* or NULL */
	struct last_reference_process *last_reference; /* or NULL */
	struct moosefs *moosefs;                       /* or NULL */
	uint64_t stall_usec; /* how long its master may be held up; 0: not at all */
	struct worker_page *page;
	char **protect_extra; /* NULL-terminated */

	struct protect *protect;
	uint64_t protect_usec;

	struct tuner *tuner; /* of the deletions, one after the other; or NULL */
	struct session *sessions;

	struct view *view; /* of a caller that has things put back, and its number; or NULL */
	uint64_t view_number;
};

/* Serves until the socket is closed. Returns 0 or the negative errno of what went wrong. */
int intake_serve(struct serving *s);
int delete_serve(struct serving *s);

/* What is protected, as things are now. Returns NULL, with *ret_culprit (malloc'ed, may be NULL)
 * and *ret_error, if that cannot be told. */
const struct protect *serving_protect(struct serving *s, char **ret_culprit, int *ret_error);

/* Answers the request. Returns 0 or the negative errno of wire_post. */
int answer(struct serving *s, enum protocol_answer type, const void *once);

/* The same in steps: in s->out an answer is begun, and sent. */
struct wire_out *answer_begin(struct serving *s, enum protocol_answer type);
int answer_send(struct serving *s);

/* For answers that consist of many records: sends what there is if less than `room` bytes are left,
 * or if it has been silent for a second, and begins the next. Returns 0 or a negative errno. */
int answer_flush(struct serving *s, enum protocol_answer type, size_t room);

/* Says that it is still at work, at most once a second. Returns 0 or a negative errno. */
int answer_alive(struct serving *s);
