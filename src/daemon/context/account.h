/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose a user id is, for limits and for nothing else: the ids that an account may use in user
 * namespaces of its own (subuid(5)) are the account's, or one account could be 65,537 users. */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* The account of a user id; the id itself, if it is subordinate to none. Ids that are
 * subordinate to root, or to an account that is not in the password file, are one account of their
 * own, by the first of them: never root. */
uid_t account_of(uid_t uid);

/* Subordinate ids as their file had them when it was of that time and size. */
struct accounts {
	struct account_range *v;
	size_t n;
	struct timespec changed;
	off_t size;
	ino_t ino;
};

/* The same by other files, which are read anew where that of subordinate ids has changed. What
 * cannot be read now is read the next time, and until then all is as it was. a: zeroes at first. */
uid_t accounts_find(struct accounts *a, uid_t uid, const char *subuid, const char *passwd);
void accounts_done(struct accounts *a);
