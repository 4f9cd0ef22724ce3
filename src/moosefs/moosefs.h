/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The engine's side of the conversation with the master of a mounted MooseFS. reclaim-moosefs, a
 * program of its own (moosefs/master), speaks to the master over TCP; this process only exchanges
 * small messages with it. Everything is addressed by inode number, nothing by a path.
 *
 * Functions that return int return 0 or a negative errno. -EPERM, -ENOENT, -EACCES and -EIO are the
 * master's own answers. Any other error ends the conversation, and comes again from then on:
 * -EPROTO (an answer makes no sense), -ETIMEDOUT, -EPIPE (the connection or the program ended),
 * -ENOMEM. None takes longer than 22 s. Names are components of at most 255 bytes. For one thread
 * at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "moosefs/master/master-protocol.h"

struct moosefs;
struct mounts;

/* For how many µs the master is held up at once, unless another time is asked for. */
#define MOOSEFS_STALL_USEC 20000
#define MOOSEFS_STALL_LEAST 1000
#define MOOSEFS_STALL_MOST 10000000

/* Starts the program for the filesystem that fd is on, with all its privileges, which it gives up;
 * mounts may be NULL. *ret is the caller's. -EOPNOTSUPP: it is no MooseFS; -EPERM: it was not
 * mounted by root, so anything might answer; -ENOENT: the program is not installed; or the errno of
 * statfs(2), socketpair(2), pipe(2) or posix_spawn(3). */
int moosefs_start(struct moosefs **ret, int fd, const struct mounts *mounts);

/* Has it connect to the master of the mount that the directory fd is on, whose file of addresses is
 * read with this process's credentials. -EOPNOTSUPP: it is not of the version whose protocol is
 * known (3); or another errno of open(2), connect(2) or the confinement of the program. */
int moosefs_connect(struct moosefs *m, int fd);

/* Both. */
int moosefs_open(struct moosefs **ret, int fd, const struct mounts *mounts);

/* Ends the program, whatever it does. m may be NULL. Returns NULL. */
struct moosefs *moosefs_close(struct moosefs *m);

/* µs that the master's last answer took, way included. */
uint64_t moosefs_took_usec(const struct moosefs *m);

/* Asks anything but for a list; see master-protocol.h. Of *ret, the member of that question is set;
 * on failure none is. */
int moosefs_ask(struct moosefs *m, const struct master_request *q, union master_values *ret);

/* Lists a directory, `most` entries at most, "." and ".." left out: the master does nothing else
 * meanwhile. Returns how many there were, or -EPROTO if there were more. The error of `each` ends
 * the conversation, too. */
typedef int (*moosefs_entry_t)(const struct moosefs_entry *e, void *userdata);
int moosefs_list(struct moosefs *m, uint32_t directory, uint32_t most, moosefs_entry_t each,
		 void *userdata);
