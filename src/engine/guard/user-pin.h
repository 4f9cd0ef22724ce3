/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pin: the mark of a person on a file or directory, which keeps it, and all that is in it, until
 * a date or until the mark is taken off (reclaimctl pin). Not to be mistaken for the `pins` of the
 * engine, which are the identities of what was accepted.
 *
 * It is an extended attribute, so that it goes where the file goes, and of the namespace "user":
 * who may write to a file may pin it, and a worker may read it, which of "trusted" takes
 * CAP_SYS_ADMIN. Hence symbolic links and special files have no pins, and one of a file that the
 * submitter may not read is not seen. Its value:
 *
 *   always                 until it is taken off
 *   2027-01-31T22:59:59Z   until then, by the clock of this host
 *   entries                of a directory: it is not pinned itself, but a file in it is, or was
 *
 * or one of the first two, a blank, and "entries". Anything else is in doubt, and a pin for ever.
 *
 * Who deletes a tree asks each directory in it, by one system call, and its files only where it has
 * "entries": asking each would take half as many calls more than deleting them all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USER_PIN_ATTRIBUTE "user.reclaimd.pin"

/* Room for a value, and for words. */
#define USER_PIN_VALUE 40
#define USER_PIN_WORDS 192

struct user_pin {
	enum user_pin_kind {
		USER_PIN_NOT,
		USER_PIN_UNTIL,
		USER_PIN_ALWAYS,
		USER_PIN_UNCLEAR, /* its value is none of the above */
		USER_PIN_UNREAD,  /* whether there is one could not be read */
	} kind;
	int64_t until_sec; /* USER_PIN_UNTIL: CLOCK_REALTIME */
	int error;         /* USER_PIN_UNREAD: negative errno */
	bool entries;
};

/* Of a value as it is. Pure: a date that has passed is one, too. */
struct user_pin user_pin_parse(const char *value, size_t len);
/* The value of one that is not in doubt. Returns its length; 0: none is needed. */
size_t user_pin_format(const struct user_pin *p, char value[USER_PIN_VALUE]);

/* That of `name` beneath dirfd ("": of dirfd itself), as it is now: past its date it is none. A
 * symbolic link is not followed. What the filesystem, or the caller's rights, let not be known is
 * none; any other error may hide one. */
struct user_pin user_pin_read(int dirfd, const char *name);

/* The first that holds of a directory and of all those that it lies in, as far as they may be
 * searched. */
struct user_pin user_pin_around(int dirfd);

/* Does it keep what has it? */
static inline bool user_pin_holds(const struct user_pin *p)
{
	return p->kind != USER_PIN_NOT;
}

/* Why something stays, to follow its path: "is pinned until ...". around: a directory that it lies
 * in is. Returns words. */
const char *user_pin_words(const struct user_pin *p, bool around, char words[USER_PIN_WORDS]);
