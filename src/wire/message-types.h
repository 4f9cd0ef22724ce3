/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the records of messages (protocol.h, fleet-messages.h) are made of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error-table.h"
#include "base/lasting-identity.h"
#include "wire.h"

/* What there is in a record, as F(type, field): these are the types, and what is in a struct for
 * each. Whatever else comes is an error of the message: of a NAME, what is no component; of a BOOL,
 * what is neither 0 nor 1; an ID that is -1; an ERROR that is not 0 or a negative errno; an
 * IDENTITY whose type is none of S_IFMT; a TEXT that is NULL; an FD that did not come; a CAUSE that
 * a worker cannot find; a PATH that is not "" or components with a slash between them, and shorter
 * than PATH_MAX. */
typedef uint64_t wire_NUMBER;
typedef bool wire_BOOL;
typedef uid_t wire_ID;                                                     /* or gid_t */
typedef int wire_ERROR, wire_FD, wire_OPT_FD;                              /* OPT_FD -1: none */
typedef const char *wire_TEXT, *wire_OPT_TEXT, *wire_NAME, *wire_OPT_NAME; /* NULL: none */
typedef const char *wire_PATH, *wire_OPT_PATH;
typedef struct lasting_identity wire_IDENTITY;
typedef struct lasting_identity wire_SHARED_IDENTITY; /* of any host: its fsid is 0 */
typedef struct wire_bytes wire_BYTES;
typedef enum error_cause wire_CAUSE; /* that a worker can find */

/* Of a record, its struct; of a message, its type; of a record, its place in the union of all. */
#define MESSAGE_MEMBER(type, field) wire_##type field;
#define MESSAGE_STRUCT(s)                                                                          \
	struct s {                                                                                 \
		FIELDS_##s(MESSAGE_MEMBER)                                                         \
	};
#define MESSAGE_TYPE(type, once, repeated) type,
#define MESSAGE_UNION(s) struct s s;

/* A name that can only mean one thing in one directory: 1 to 255 bytes, no slash, not . or .. */
bool is_component(const char *name);

/* Components with a slash between them, or "": shorter than PATH_MAX. */
bool is_component_path(const char *path);
