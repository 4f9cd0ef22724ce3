/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who has which file open: read once from /proc, then asked by identity.
 *
 * By identity because a name says little: a process in a container knows the file under another
 * path. The files' own attributes are asked for through the descriptors that hold them, without
 * going to a server for them, so that a hanging network mount holds nobody up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In the order of what is worth saying first. */
enum holder_how { HOLDER_OPEN, HOLDER_EXE, HOLDER_MAPPED, HOLDER_CWD, HOLDER_ROOT, HOLDER_LOOP };

struct holder {
	uint64_t dev, ino;
	pid_t pid; /* of HOLDER_LOOP: the loop device's number */
	enum holder_how how;
};

struct holders {
	struct holder *v; /* sorted by identity, then by pid */
	size_t n, cap;
	size_t hidden;         /* processes whose descriptors the caller may not see */
	bool processes_hidden; /* there are processes that the caller may not even see */
};

/* Reads everything. `proc` is "/proc" and `sys` is "/sys", but for tests. The caller's own process
 * is left out. Returns 0 or a negative errno. */
int holders_read(struct holders *ret, const char *proc, const char *sys);
void holders_done(struct holders *h);

/* The first of those that hold a file, or NULL; the others follow it with the same identity. *ret_n
 * is how many they are. */
const struct holder *holders_find(const struct holders *h, uint64_t dev, uint64_t ino,
				  size_t *ret_n);

/* "open", "mapped", ...: how it is held. */
const char *holder_how_name(enum holder_how how);

/* Writes the name of the process (or loop device) into buf, "?" if it is gone. Returns buf. */
char *holder_command(const struct holder *h, char *buf, size_t len);
