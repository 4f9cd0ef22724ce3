/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose a user id is, for limits and for nothing else: the ids that an account may use in user
 * namespaces of its own (subuid(5)) are the account's, or one account could be 65,537 users. */
#pragma once

#include <sys/types.h>

/* The account of a user id; the id itself, if it is nobody's subordinate one. Ids that are
 * subordinate to root, or to an account that is not in the password file, are one account of their
 * own, by the first of them: never root. */
uid_t account_of(uid_t uid);

/* The same by other files; reads them anew. */
uid_t account_find(uid_t uid, const char *subuid, const char *passwd);
