/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How SQLite accesses the files of the store. Differs from the system's VFS in two ways:
 *
 * - The path is used as it is given. SQLite would resolve /proc/self/fd/N to a text, and open
 *   whatever that text leads to by then.
 * - The index of the log, which a writing and a reading connection share, is in memory. SQLite
 * would map a file. On a full copy-on-write filesystem a write to that mapping ends in SIGBUS. The
 * first connection locks the database exclusively until it is closed, because a process that knows
 *   nothing of the index in memory must not open the database.
 *
 * Internal to src/store. Two threads may use it, each with its own connection. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

struct store_vfs;

/* Makes a VFS and registers it with SQLite. Returns 0 or a negative errno. */
int store_vfs_new(struct store_vfs **ret);
/* To be called after both connections are closed. NULL is accepted; returns NULL. */
struct store_vfs *store_vfs_free(struct store_vfs *v);

/* Opens a database: for reading and writing, or for reading only. A database can have one
 * connection of each kind; the one that only reads is opened second and closed first. Returns a
 * result code of SQLite, with *ret as sqlite3_open_v2() sets it. */
int store_vfs_open(struct store_vfs *v, sqlite3 **ret, const char *path, bool read_only);
