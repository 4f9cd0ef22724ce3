/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The users whose entries a policy is about, as the user database has them now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* All zero is none. */
struct owners {
	uid_t *v;
	size_t n;
};

/* Looks up names, and takes numbers as they are (NULL-terminated; NULL for none). Returns 0,
 * -ENOMEM, or -ESRCH: there is no such user, or that cannot be found out, and *ret_unknown is the
 * name. It may ask a server, and take its time. */
int owners_find(struct owners *ret, char *const *names, const char **ret_unknown);
bool owners_have(const struct owners *o, uid_t uid);
void owners_done(struct owners *o);
