/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages between reclaimd and reclaim-worker over a pair of SOCK_SEQPACKET sockets: a header,
 * numbers, strings, and descriptors (SCM_RIGHTS), put in and taken out in the same order.
 *
 * Both ends run the same build on the same machine, so numbers are as they are in memory; but
 * neither trusts the other: whatever does not fit exactly is -EBADMSG. Errors stick: any number of
 * puts or gets is followed by one look, in wire_pack or wire_end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

#define WIRE_MESSAGE KiB(64) /* header included */
#define WIRE_FDS 32          /* of one message */

/* What does not fit a message goes as a sealed file beside it, up to this; only where the receiver
 * allows it. */
#define WIRE_LONG MiB(64)

struct wire_bytes {
	const void *data;
	size_t len;
};

struct wire_header {
	uint32_t type, serial;
	uint32_t n_fds;
	uint32_t is_long; /* 1: the rest is in the last descriptor */
};

/* A message to be sent. It owns duplicates of the descriptors that are put. Zero is an empty one.
 */
struct wire_out {
	uint8_t *data; /* header first */
	size_t len, cap;
	int fds[WIRE_FDS];
	unsigned n_fds;
	bool packed;
	int error;
};

/* Begins anew; memory is kept from message to message. What is put after an error is ignored, and
 * wire_pack returns the first: -EMSGSIZE beyond WIRE_LONG bytes or WIRE_FDS - 1 descriptors,
 * -ENOMEM, or that of duplicating a descriptor. */
void wire_begin(struct wire_out *o, uint32_t type, uint32_t serial);
void wire_put(struct wire_out *o, uint64_t value);
void wire_put_bytes(struct wire_out *o, const void *data, size_t len);
void wire_put_string(struct wire_out *o, const char *s); /* NULL is another than "" */
void wire_put_fd(struct wire_out *o, int fd);
void wire_out_done(struct wire_out *o);

/* How many bytes still fit a message that is not long. */
size_t wire_room(const struct wire_out *o);

/* Makes the message ready to be sent: what is too long is moved to a file. Once is enough. Returns
 * 0 or the negative errno of what was put, or of making the file. */
int wire_pack(struct wire_out *o);

/* Sends a packed message. flags as of send(2). 0 or a negative errno: -EAGAIN, -EPIPE. */
int wire_send(int sock, const struct wire_out *o, int flags);

/* Packs, sends (waiting as long as it takes), closes the descriptors that were put, on failure too,
 * and keeps the memory for the next. Returns 0 or the negative errno of wire_pack or wire_send. */
int wire_post(int sock, struct wire_out *o);

/* A message that has come. Descriptors that are not taken are closed. Zero is an empty one. */
struct wire_in {
	uint32_t type, serial;
	uint8_t *data, *file; /* of WIRE_MESSAGE bytes; of a long one */
	const uint8_t *at;
	size_t left;
	int fds[WIRE_FDS];
	unsigned n_fds, fd_at;
	int error;
};

/* Receives one message, in place of the one before, whose descriptors are closed. flags as of
 * recv(2). Returns 1; 0 if the other end is closed; -EAGAIN with MSG_DONTWAIT if there is none;
 * -EBADMSG if it is malformed, or long and not allow_long; -ENOMEM; or another negative errno. */
int wire_receive(int sock, struct wire_in *in, int flags, bool allow_long);
/* What is taken after an error is 0, "", NULL or -1; wire_end returns it. */
uint64_t wire_get(struct wire_in *in);
/* A number up to `most`; a greater one is an error. */
uint64_t wire_get_most(struct wire_in *in, uint64_t most);
/* Valid until the next receive; NULL after an error. */
const void *wire_get_bytes(struct wire_in *in, size_t *ret_len);
/* Valid until the next receive; "" after an error. */
const char *wire_get_string(struct wire_in *in);
/* The same; NULL if NULL was sent. */
const char *wire_get_string_or_null(struct wire_in *in);
/* The message's, until the next receive; -1 after an error. */
int wire_peek_fd(struct wire_in *in);
/* A descriptor of the message becomes the caller's: returns it. -1 is none. */
int wire_keep_fd(struct wire_in *in, int fd);
/* The next one, the caller's to close; -1 after an error. */
int wire_get_fd(struct wire_in *in);
/* 0 if everything was there, and nothing is left; else -EBADMSG. */
int wire_end(struct wire_in *in);
/* Lets go of all that the message has, but for the memory of the next. */
void wire_in_clear(struct wire_in *in);
void wire_in_done(struct wire_in *in);
