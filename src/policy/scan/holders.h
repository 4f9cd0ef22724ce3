/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which files are held, and by which process: read once from /proc, then asked by identity.
 *
 * By identity because a name says little: a process in a container knows the file under another
 * path. The files' own attributes are asked for through the descriptors that hold them, without
 * going to a server for them, so that a hanging network mount blocks no caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In the order of what is worth saying first. */
enum holder_how {
	HOLDER_OPEN,
	HOLDER_EXE,
	HOLDER_MAPPED,
	HOLDER_CWD,
	HOLDER_ROOT,
	HOLDER_LOOP,
	HOLDER_SOCKET
};

struct file_holder {
	uint64_t dev, ino;
	pid_t pid; /* HOLDER_LOOP: the loop device's number; HOLDER_SOCKET: 0 */
	enum holder_how how;
};

/* All zero is an empty list. */
struct holders {
	struct file_holder *v; /* sorted by identity, then by pid */
	size_t n;
	size_t hidden;         /* processes whose descriptors the caller may not see */
	bool processes_hidden; /* there are processes that the caller may not even see */
};

/* Reads everything; *ret is the caller's, for holders_done. `proc` is "/proc" and `sys` is "/sys",
 * but for tests. The caller's own process is left out. Returns 0, -ENOMEM, or why `proc` cannot be
 * opened; *ret is then untouched. */
int holders_read(struct holders *ret, const char *proc, const char *sys);
void holders_done(struct holders *h);

/* Adds the sockets of our network namespace that are bound to an absolute path which is wanted,
 * from net/unix in `proc`: the process that listens holds no descriptor of the name. Only these are
 * looked up: others may be where a stat hangs. Returns 0, also if there is no such file, -ENOMEM,
 * or why it cannot be read. */
int holders_add_sockets(struct holders *h, const char *proc,
			bool (*wanted)(void *userdata, const char *path), void *userdata);

/* The first of those that hold a file, or NULL; further ones follow it with the same identity.
 * *ret_n is how many they are. */
const struct file_holder *holders_find(const struct holders *h, uint64_t dev, uint64_t ino,
				       size_t *ret_n);

/* How it is held, static: "open", "mapped", ... for programs; and what that name is for people,
 * before the name of the process: "open in", "mapped by", ... */
const char *holder_how_name(enum holder_how how);
const char *holder_how_words(const char *name);

/* Writes the name of the process (or loop device) into buf, "?" if it is gone. Returns buf. */
char *holder_command(const struct file_holder *h, char *buf, size_t len);
