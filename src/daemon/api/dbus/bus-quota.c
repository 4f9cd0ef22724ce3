/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-quota.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/macros.h"

/* For one user, and for all but root together, so that root always gets in. Names are what memory
 * is needed for: an API call has at most 8 MiB of them, and 13 MB for 100,000 paths. */
static const struct {
	size_t user, all;
} most[QUOTA_KINDS] = {
	[QUOTA_LINKS] = { .user = 64, .all = 448 },
	[QUOTA_CALLS] = { .user = 1024, .all = 8192 },
	[QUOTA_NAMES] = { .user = MiB(64), .all = MiB(256) },
	[QUOTA_ASKS] = { .user = 8, .all = 64 },
	[QUOTA_SUBSCRIPTIONS] = { .user = 16, .all = 128 },
};

/* Connections of root, so that not even that one uses up all descriptors. */
#define ROOT_LINKS_MOST 512

/* Long messages on their way at the same time. */
#define PERMITS 2

struct usage {
	uid_t uid;
	int permits;
	size_t used[QUOTA_KINDS];
	struct usage *next;
};

struct quota {
	struct usage *users; /* users that use anything */
	size_t used[QUOTA_KINDS];
};

static void usage_free(struct usage *u)
{
	fd_closep(&u->permits);
	free(u);
}

int quota_new(struct quota **ret)
{
	struct quota *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	*ret = q;
	return 0;
}

struct quota *quota_free(struct quota *q)
{
	while (q && q->users) {
		struct usage *u = q->users;

		q->users = u->next;
		usage_free(u);
	}
	free(q);
	return NULL;
}

static struct usage **usage_find(struct quota *q, uid_t uid)
{
	struct usage **u = &q->users;

	while (*u && (*u)->uid != uid)
		u = &(*u)->next;
	return u;
}

int quota_take(struct quota *q, uid_t uid, enum quota_kind kind, size_t n)
{
	struct usage **at = usage_find(q, uid), *u = *at;
	size_t had = u ? u->used[kind] : 0;

	if (uid == 0 && kind == QUOTA_LINKS && had >= ROOT_LINKS_MOST)
		return -ENFILE;
	if (uid != 0 && had + n > most[kind].user)
		return -EDQUOT;
	if (uid != 0 && q->used[kind] + n > most[kind].all)
		return -ENFILE;
	if (uid != 0 && kind != QUOTA_LINKS && had + n > most[kind].all - q->used[kind])
		return had > 0 ? -EDQUOT : -ENFILE;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->uid = uid;
		u->permits = -1;
		*at = u;
	}
	u->used[kind] += n;
	if (uid != 0)
		q->used[kind] += n;
	return 0;
}

size_t quota_used(const struct quota *q, uid_t uid, enum quota_kind kind)
{
	const struct usage *u = q->users;

	while (u && u->uid != uid)
		u = u->next;
	return u ? u->used[kind] : 0;
}

size_t quota_share(const struct quota *q, uid_t uid, enum quota_kind kind)
{
	size_t users = 1;

	for (const struct usage *u = q->users; u; u = u->next)
		users += u->uid != 0 && u->uid != uid && u->used[kind] > 0;
	return MIN(most[kind].user, MAX(most[kind].all / users, (size_t)1));
}

void quota_give(struct quota *q, uid_t uid, enum quota_kind kind, size_t n)
{
	struct usage **at = usage_find(q, uid), *u = *at;
	size_t left = 0;

	if (!u)
		return;
	u->used[kind] -= n;
	if (uid != 0)
		q->used[kind] -= n;
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		left += u->used[k];
	if (left > 0)
		return;
	*at = u->next;
	usage_free(u);
}

int quota_permits(struct quota *q, uid_t uid)
{
	struct usage *u = *usage_find(q, uid);

	if (!u)
		return -ENOENT;
	if (u->permits < 0)
		u->permits = eventfd(PERMITS, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	return u->permits < 0 ? -errno : u->permits;
}
