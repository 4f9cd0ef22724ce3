/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables of messages (protocol.h, fleet-messages.h): from what a header says of each record, the
 * one function that writes it and the one that reads it, with every bound. */
#pragma once

#include "message-types.h"

/* ---- what fields are in a message --------------------------------------------------------- */

#define put_NUMBER wire_put
#define put_BOOL wire_put
#define put_ID wire_put
#define put_CAUSE wire_put
#define put_ERROR(o, error) wire_put(o, (uint64_t) - (error))
#define put_TEXT wire_put_string
#define put_OPT_TEXT wire_put_string
#define put_NAME wire_put_string
#define put_OPT_NAME wire_put_string
#define put_PATH wire_put_string
#define put_OPT_PATH wire_put_string
#define put_BYTES(o, bytes) wire_put_bytes(o, (bytes).data, (bytes).len)
#define put_FD wire_put_fd
#define put_OPT_FD message_put_fd
#define put_IDENTITY message_put_identity
#define put_SHARED_IDENTITY message_put_shared_identity

#define MESSAGE_ERRNO_MOST 4095

#define get_NUMBER wire_get
#define get_BOOL(in) wire_get_most(in, 1)
#define get_ID(in) ((wire_ID)wire_get_most(in, UINT32_MAX - 1))
#define get_CAUSE(in) ((wire_CAUSE)wire_get_most(in, ERROR_WORKER_LAST))
#define get_ERROR(in) (-(int)wire_get_most(in, MESSAGE_ERRNO_MOST))
#define get_TEXT wire_get_string
#define get_OPT_TEXT wire_get_string_or_null
#define get_NAME(in) message_check_component(in, wire_get_string(in))
#define get_OPT_NAME(in) message_check_component(in, wire_get_string_or_null(in))
#define get_PATH(in) message_check_path(in, wire_get_string(in))
#define get_OPT_PATH(in) message_check_path(in, wire_get_string_or_null(in))
#define get_BYTES message_get_bytes
#define get_FD wire_peek_fd
#define get_OPT_FD(in) (wire_get_most(in, 1) ? wire_peek_fd(in) : -1)
#define get_IDENTITY message_get_identity
#define get_SHARED_IDENTITY message_get_shared_identity

void message_put_fd(struct wire_out *o, int fd);
void message_put_identity(struct wire_out *o, struct lasting_identity id);
void message_put_shared_identity(struct wire_out *o, struct lasting_identity id);
const char *message_check_component(struct wire_in *in, const char *name);
const char *message_check_path(struct wire_in *in, const char *path);
struct wire_bytes message_get_bytes(struct wire_in *in);
struct lasting_identity message_get_identity(struct wire_in *in);
struct lasting_identity message_get_shared_identity(struct wire_in *in);

/* ---- records and messages ----------------------------------------------------------------- */

#define MESSAGE_PUT(type, name) put_##type(o, m->name);
#define MESSAGE_GET(type, name) m->name = get_##type(in);
#define MESSAGE_RECORD(s)                                                                          \
	static void s##_put(struct wire_out *o, const void *from)                                  \
	{                                                                                          \
		const struct s *m = from;                                                          \
		FIELDS_##s(MESSAGE_PUT)                                                            \
	}                                                                                          \
	static void s##_get(struct wire_in *in, void *to)                                          \
	{                                                                                          \
		struct s *m = to;                                                                  \
		FIELDS_##s(MESSAGE_GET)                                                            \
	}

#define nothing_put NULL
#define nothing_get NULL
#define MESSAGE_ROW(type, once, item)                                                              \
	[type] = { true, { once##_put, item##_put }, { once##_get, item##_get } },

/* What there is once, and what is repeated; by type. */
struct message {
	bool known;
	void (*put[2])(struct wire_out *o, const void *from);
	void (*get[2])(struct wire_in *in, void *to);
};

struct message_table {
	const struct message *v;
	size_t n;
};

/* As protocol_put, protocol_put_item, protocol_get and protocol_get_item. */
void message_put(const struct message_table *t, struct wire_out *o, const void *once);
void message_put_item(const struct message_table *t, struct wire_out *o, const void *item);
int message_get(const struct message_table *t, struct wire_in *in, void *ret);
int message_get_item(const struct message_table *t, struct wire_in *in, void *ret);
