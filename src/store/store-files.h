/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files of the store in the state directory: whether they may be trusted, and how they are put
 * out of the way. Knows no SQL. Internal to src/store. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_FILE "reclaimd.db"
/* A new database gets its tables under this name, so that one called STORE_FILE is never empty. */
#define STORE_FILE_NEW "reclaimd.db.new"
#define STORE_FILE_RESERVE "reserve"
#define STORE_FILE_LOCK "lock"

/* Opens the state directory, which must be a directory, ours, and writable by no other user, and
 * takes its lock, which is held until *ret_lock_fd is closed. Returns the directory's descriptor or
 * a negative errno: -EPERM, -EBUSY (another process has the lock), or the system's; then *ret_why
 * says why and *ret_lock_fd is negative. */
int files_open_dir(const char *dir, int *ret_lock_fd, const char **ret_why);

enum store_found {
	FOUND_NOTHING,
	FOUND_FILE,     /* something to be opened */
	FOUND_EMPTY,    /* a file without content */
	FOUND_LEFTOVER, /* a log without its database */
};

/* What is there. Returns enum store_found, or a negative errno with *ret_why in words: -EPERM where
 * it is not a file of ours that only we can write. */
int files_find(int dir_fd, const char **ret_why);

/* Makes the empty file that a new database begins with; what an earlier attempt left goes first. */
int files_make_new(int dir_fd);
/* Gives the new database its name; durable when it returns 0. */
int files_publish_new(int dir_fd);

/* Reads the database and its log from end to end. Returns 0 or the error that the disk gives. */
int files_read(int dir_fd);

/* Space that is kept for when there is none: a file that can be given up. Making it leaves as much
 * again to other files, else -ENOSPC, as with -EDQUOT; it is durable when this returns 0, also
 * where it was there already. */
int files_reserve_make(int dir_fd, uint64_t bytes);
void files_reserve_give(int dir_fd);

/* Finds a name for what is set aside, which has the time in it. Returns 0 or a negative errno. */
int files_name_aside(int dir_fd, char *ret_name, size_t size);
/* Renames the database and what belongs to it to that name. Returns 0 or a negative errno;
 * *ret_moved is whether something has been renamed, also then. */
int files_set_aside(int dir_fd, const char *name, bool *ret_moved);
