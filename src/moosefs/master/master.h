/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The conversation with the master of a mounted MooseFS, the one that its own tools have: over TCP
 * with the mount, which passes it on. Everything is addressed by inode number, nothing by a path.
 *
 * Functions that return int return 0 or a negative errno: -EPROTO (the answer makes no sense),
 * -ETIMEDOUT (it took longer than MASTER_PATIENCE), -EPIPE (the connection ended) and -ENOMEM end
 * the conversation, and come again from then on; -EPERM, -ENOENT, -EACCES and -EIO are the master's
 * own answers. Names are components of at most 255 bytes. */
#pragma once

#include "master-protocol.h"

struct master;

/* Connects to where the MASTERINFO_BYTES of .masterinfo say; not a byte is read yet. The result is
 * the caller's, see master_close. Returns 0, -ENOMEM, or the negative errno of socket(2),
 * setsockopt(2) or connect(2); -ETIMEDOUT after MASTER_PATIENCE_CONNECT. */
int master_connect(struct master **ret, const uint8_t *info);
struct master *master_close(struct master *m);

/* Introduces this process as one of MooseFS's tools. Comes first. Within MASTER_PATIENCE_FIRST. */
int master_register(struct master *m, const uint8_t *info);

/* µs that the last answer took, way included. */
uint64_t master_took_usec(const struct master *m);

typedef int (*master_entry_t)(const struct moosefs_entry *e, void *userdata);

/* Asks any of MASTER_LOOKUP to MASTER_BACKLOG; the name has at most 255 bytes. Of a list, each
 * entry goes to `each`, whose error ends the listing; -EPROTO if there were more than asked for. */
int master_ask(struct master *m, const struct master_request *q, union master_values *ret,
	       master_entry_t each, void *userdata);
