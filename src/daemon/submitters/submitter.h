/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose authority jobs have: one object for each set of uid, gid and groups that has jobs, with the
 * intake workers that live as it. The same user may come with other groups (SAFETY test 3): that is
 * another owner of the same user, whose limits they share. So do the subordinate ids of an account
 * (account.h); authority over jobs goes by the uid alone.
 *
 * A filesystem that is frozen, or whose server is silent, keeps a worker waiting, and not even
 * SIGKILL ends the wait. So there is one intake worker for each owner and filesystem: what hangs
 * there holds up nothing elsewhere. A worker that has been given up and still waits is counted
 * until the kernel lets it go; where there are several, no more are sent after them. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "base/mounts.h"
#include "daemon/context/context.h"
#include "daemon/context/held.h"
#include "daemon/workers/worker-handle.h"

struct failure;

/* A filesystem as far as it can be told without asking it: its device number by the mount table, or
 * one of the numbers that no device has. Good for keeping apart what may hang, and for nothing
 * else: what is where, the worker finds out. */
typedef uint64_t filesystem_t;
#define FILESYSTEM_MANY UINT64_MAX /* one after the other */

/* What the descriptor, or an absolute path, is on. Does not touch it. */
filesystem_t filesystem_of_fd(struct context *c, int fd);
filesystem_t filesystem_of_path(struct context *c, const char *path);
/* Of all that is looked at together, the one that is likeliest to hang. */
filesystem_t filesystem_of_groups(struct context *c, const struct intake_group *groups, size_t n);

/* A process that was started for a user on a filesystem, until it is reaped. */
struct attendant {
	LIST_ENTRY(attendant) link;
	struct user *user;
	filesystem_t filesystem;
	uint64_t left_usec; /* when it was given up; 0: it was not */
};

struct user {
	LIST_ENTRY(user) link;
	uid_t account; /* 0: root, and no other id is that */
	unsigned refs;
	LIST_HEAD(attendant_list, attendant) attendants;
	uint64_t jobs; /* unfinished, and being submitted */
	struct held held;
	uint64_t served; /* when a job of it began last, on the manager's count */
};
LIST_HEAD(user_list, user);

struct intake {
	LIST_ENTRY(intake) link;
	struct owner *owner;   /* NULL: it has ended before the last session was given back */
	struct worker *worker; /* NULL: it has ended */
	filesystem_t filesystem;
	unsigned sessions; /* that are open, and known to this worker only */
	bool retired;      /* finishes what it was asked, and gets nothing new */
	uint64_t used_usec;
};
LIST_HEAD(intake_list, intake);

struct owner {
	LIST_ENTRY(owner) link;
	struct submitters *submitters;
	struct user *user;
	unsigned refs;
	struct submitter id;
	struct intake_list intakes;
	sd_event_source *idle;
	uint64_t sessions; /* the number of the last one */
};
LIST_HEAD(owner_list, owner);

LIST_HEAD(staging_area_list, staging_area);
LIST_HEAD(busy_mount_list, busy_mount);

/* All of them, and where their names are staged (staging-area.h). */
struct submitters {
	struct context *context;
	struct owner_list owners;
	struct user_list users;
	struct held held; /* of all but root */
	struct staging_area_list areas;
	struct busy_mount_list busy_mounts;
	struct owner *root; /* whose intake worker makes staging directories */
};

/* Without root, who is found by owner_get. All zeroes but for the context. */
void submitters_init(struct submitters *s, struct context *c);
/* What they were told does not hold any more: their workers are replaced. */
void submitters_renew(struct submitters *s);
/* Ends the intake workers, at once; who waits for them is told. */
void submitters_end_workers(struct submitters *s);
/* Frees what is left of them at the end, after staging_areas_done. */
void submitters_done(struct submitters *s);

/* The owner of that identity, made if there is none. Drop it with owner_unref. */
int owner_get(struct owner **ret, struct submitters *submitters, const struct submitter *id);
struct owner *owner_ref(struct owner *o);
struct owner *owner_unref(struct owner *o);
static inline void owner_unrefp(struct owner **o)
{
	(void)owner_unref(*o);
}

/* The intake worker for a filesystem, started if there is none; it lives half a minute after its
 * last use. -EUSERS: too many processes of that user wait already. */
int owner_intake(struct owner *o, filesystem_t filesystem, struct worker **ret);
/* Says so, and for what they wait. */
void owner_say_full(const struct owner *o, filesystem_t filesystem, struct failure *f);

/* The same for a session, which no other worker knows: to be given back. */
int owner_intake_take(struct owner *o, filesystem_t filesystem, struct intake **ret);
/* NULL is accepted. */
void intake_give(struct intake *i);
/* NULL if it has ended, or i is NULL. */
struct worker *intake_worker(const struct intake *i);

/* Starts a worker of any role, which counts as one of that user's there. -EUSERS as above. */
int owner_worker_new(struct owner *o, filesystem_t filesystem, struct worker_options *options,
		     struct worker **ret);

/* The intake workers were told what does not hold any more: others are started at the next use, and
 * these end when they have done what they have begun. */
void owner_renew(struct owner *o);

/* At once, whatever they have begun: who waits for it is told. */
void owner_end_workers(struct owner *o);
