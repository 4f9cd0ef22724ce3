/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which daemon a filesystem's staging directories belong to: the name of the one directory in
 * <mount>/.reclaim/lock. One daemon at a time makes staging directories there, and looks for what
 * is of no job; for any other the mount is as if it had none. Each host of a fleet has a part of
 * its own, with a lock of its own, and there looks only into what this state directory has had.
 *
 * It is a name, so that nothing is held open that would keep the filesystem from being unmounted;
 * and it is made and taken over by a rename, which is atomic on a cluster filesystem as well:
 *
 *   none         lock.PID.TIME, with the name in it, is renamed to lock: which fails if there is
 * one of an ended  lock/OLD is renamed to lock/OWN: which fails if another was quicker
 *
 * What can be told for certain of the daemon of such a name, and what is then:
 *   this boot and state directory, which is locked while one runs       it has ended
 *   the same machine and host name, an earlier boot                     it has ended
 *   this boot and PID namespace, but no such process                    it has ended
 *   anything else, also what cannot be read                             it may be running
 *
 * Of another host that is gone for good, a person has to remove the directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HOLDER_DIR "lock"
#define HOLDER_SIZE 256

/* This process, with the state directory of that id (32 hexadecimal digits). Returns 0 or a
 * negative errno. */
int holder_format(char buf[HOLDER_SIZE], const char *state_id);

enum holder_is {
	HOLDER_OWN,
	HOLDER_ENDED, /* for certain */
	HOLDER_OTHER
};

enum holder_is holder_compare(const char *own, const char *found);

/* Was it the daemon with this state directory, be it another life of it? */
bool holder_is_same_state(const char *own, const char *found);

/* "on HOST, process PID", for people. */
void holder_describe(const char *holder, char *buf, size_t size);
