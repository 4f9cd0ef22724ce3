/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose authority jobs have: one object for each set of uid, gid and groups that has jobs, with the
 * intake worker that lives as it. The same user may come with other groups (SAFETY test 3): that is
 * another owner of the same user, whose limits they share. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "held.h"
#include "worker.h"

struct manager;

struct user {
	LIST_ENTRY(user) link;
	uid_t uid;
	unsigned refs;
	uint64_t jobs; /* unfinished, and being submitted */
	struct held held;
	uint64_t served; /* when a job of it began last, on the manager's count */
};
LIST_HEAD(user_list, user);

/* An intake worker that finishes what it was asked, and gets nothing new. */
struct retired {
	struct worker *worker;
	uint64_t sessions_old, sessions_last; /* those in between it knows */
	struct retired *next;
};

struct owner {
	LIST_ENTRY(owner) link;
	struct manager *manager;
	struct user *user;
	unsigned refs;
	struct submitter id;
	struct worker *intake;
	struct retired *retired;
	sd_event_source *idle;
	bool stale;            /* the worker is to be replaced */
	uint64_t sessions;     /* the number of the last one */
	uint64_t sessions_old; /* the last one that this worker has never heard of */
};
LIST_HEAD(owner_list, owner);

/* The owner of that identity, made if there is none. Drop it with owner_unref. */
int owner_get(struct owner **ret, struct manager *m, const struct submitter *id);
struct owner *owner_ref(struct owner *o);
struct owner *owner_unref(struct owner *o);
static inline void owner_unrefp(struct owner **o)
{
	(void)owner_unref(*o);
}

/* The intake worker, started if there is none; it lives half a minute after its last use. */
int owner_intake(struct owner *o, struct worker **ret);

/* The one that was asked about that session, or NULL if it is no more: another does not know it. */
struct worker *owner_intake_of(const struct owner *o, uint64_t session);

/* The intake worker was told what does not hold any more: another is started at the next use, and
 * this one ends when it has done what it has begun. */
void owner_renew(struct owner *o);

/* At once, whatever they have begun: who waits for it is told. */
void owner_end_workers(struct owner *o);

/* Frees what is left of them at the end. */
void owners_done(struct manager *m);
