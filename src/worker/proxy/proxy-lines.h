/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages that end with a NUL, as those of Varlink do, cut out of a stream: what a proxy may pass
 * on of what it has read. Short messages go when they are whole; of a long one the first part goes
 * once there is a permit, and the rest as it comes. Pure: the proxy reads and writes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A message, with its NUL. Names of 4096 bytes fit into it 250 times, and more of the usual ones;
 * a client with more makes several calls. */
#define LINE_BYTES_MOST ((size_t)1 << 20)

struct lines {
	size_t held;  /* bytes in the buffer */
	size_t begun; /* of the message that they begin with, how many have gone before */
};

/* How many bytes at the beginning of the buffer may be passed on: 0 if more must be read first.
 * *ret_long: they are of a message that needs a permit. -EMSGSIZE: of one that is too long. */
int lines_ready(const struct lines *l, const char *buf, size_t size, size_t *ret_n, bool *ret_long);

/* They have been passed on, and what is left is moved to the beginning. Returns whether the last of
 * them was the end of a message. */
bool lines_gone(struct lines *l, char *buf, size_t n);
