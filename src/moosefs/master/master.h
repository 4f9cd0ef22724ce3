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

int master_lookup(struct master *m, uint32_t directory, const char *name, uint32_t *ret_inode);

/* Lists a directory, `most` entries at most, "." and ".." left out. Returns how many there were, or
 * -EPROTO if there were more; or the error of `each`, which ends the listing. */
int master_list(struct master *m, uint32_t directory, uint32_t most,
		int (*each)(const struct moosefs_entry *e, void *userdata), void *userdata);

int master_census(struct master *m, uint32_t inode, struct moosefs_census *ret);

/* Marks a tree as a snapshot, or takes the mark away. *ret is how many entries have it now (or have
 * it not), without those that the master refuses to change. */
int master_mark(struct master *m, uint32_t inode, bool snapshot, uint64_t *ret);

/* Removes a tree all of whose entries have the mark, at once and past the trash; -EPERM if one has
 * it not. */
int master_remove(struct master *m, uint32_t directory, const char *name);

/* For how many seconds the trash keeps what is deleted of the files made here from now on. */
int master_trash_time(struct master *m, uint32_t inode, uint64_t *ret_seconds);

/* Bytes of all files in the trash, and of those that are deleted but open. */
int master_backlog(struct master *m, uint64_t *ret_trash_bytes, uint64_t *ret_open_bytes);
