/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one user may have open at the API, so that no user uses up what all need. root may have what
 * there is. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum quota_kind {
	QUOTA_LINKS, /* connections to the private socket */
	QUOTA_CALLS, /* not answered yet */
	QUOTA_NAMES, /* bytes of names in them */
	QUOTA_ASKS,  /* that polkit thinks about */
	QUOTA_SUBSCRIPTIONS,
	QUOTA_KINDS
};

/* What a directory, a list or a path takes in a call, besides its text, until the worker has it. */
#define QUOTA_GROUP_BYTES 128

struct quota;

int quota_new(struct quota **ret);
struct quota *quota_free(struct quota *q);

/* Returns 0, -EDQUOT if that is too much for the user, -ENFILE if it is for all together, or
 * -ENOMEM. Users are accounts (account.h). Of everything but connections no user gets more than is
 * still free, so that shares shrink as more users come, and some is always left. */
int quota_take(struct quota *q, uid_t uid, enum quota_kind kind, size_t n);
/* How much of it that user has; and what each may have, were there one user more. */
size_t quota_used(const struct quota *q, uid_t uid, enum quota_kind kind);
size_t quota_share(const struct quota *q, uid_t uid, enum quota_kind kind);
/* Gives back what was taken. */
void quota_give(struct quota *q, uid_t uid, enum quota_kind kind, size_t n);

/* Permits to send a long message, of which a user who has something open has few: an eventfd for
 * poll(2), from which each read takes one and to which each is written back. Remains the quota's.
 * Or a negative errno. */
int quota_permits(struct quota *q, uid_t uid);
