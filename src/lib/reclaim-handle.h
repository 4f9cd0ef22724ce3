/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of libreclaim have in common: the handle, calls on it, and how their failures are
 * told. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/reach.h"
#include "reclaim.h"
#include "base/macros.h"

#define MANAGER_PATH "/org/reclaimd1"
#define MANAGER_INTERFACE "org.reclaimd1.Manager"

#define _cleanup_message_ _cleanup_(sd_bus_message_unrefp)

struct reclaim {
	struct reach way;
	int fd; /* of the connection */
	/* 0 in a child process, however that was made: the kernel wipes the page. What sd-bus knows
	 * of processes is from pthread_atfork(3) and a process id. */
	volatile unsigned char *own;
	bool start;
	char *error; /* NULL: there was none, or no memory for it */
	int last;    /* the error that it is about, or 0 */
	sd_bus_slot *finished_slot;
	reclaim_finished_fn finished;
	void *finished_userdata;
};

/* Remember what has failed and return it: in these words; in those of the answer to a call, from
 * which the errno follows; in those of the errno. */
int fail(struct reclaim *r, int error, const char *format, ...) _printf_(3, 4);
int fail_answer(struct reclaim *r, const sd_bus_error *e, int error);
int fail_errno(struct reclaim *r, int error);

/* Fails where the handle is another process's (-ECHILD), or there is no daemon any more. */
int handle_check(struct reclaim *r);

/* A call of the Manager, to be filled in. */
int handle_message(struct reclaim *r, const char *member, sd_bus_message **ret);

/* Sends it, and waits. */
int handle_send(struct reclaim *r, sd_bus_message *m, uint64_t timeout_usec, sd_bus_message **ret);

/* All at once, with arguments as to sd_bus_message_append(3). */
int handle_call(struct reclaim *r, const char *member, uint64_t timeout_usec, sd_bus_message **ret,
		const char *types, ...);

/* Processes what comes until *stop is set, if it is not NULL, or the time (CLOCK_MONOTONIC) has
 * come. Returns 0 or a negative errno that has not been remembered. */
int handle_listen(struct reclaim *r, const bool *stop, uint64_t end_usec);

/* The end of a time span that begins now. */
uint64_t end_of(uint64_t timeout_usec);

/* Structures that the caller's header may know less or more of: fails if one does not begin with
 * its size; fills what both know of it, but for the size, and leaves 0 in the rest. */
int size_check(struct reclaim *r, uint64_t size);
void result_give(void *ret, const void *known, uint64_t size, uint64_t known_size);
