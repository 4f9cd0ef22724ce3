/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Submitters, with whose rights jobs are done: one object for each set of uid, gid and groups that
 * has jobs, with the intake workers that run as it. The same user may come with other groups
 * (negative test 3): that is another submitter of the same user, whose limits they share. So do the
 * subordinate ids of an account (account.h); authority over jobs goes by the uid alone.
 *
 * A filesystem that is frozen, or whose server is silent, keeps a worker waiting, and not even
 * SIGKILL ends the wait. So there is one intake worker for each submitter and filesystem: what
 * hangs there holds up nothing elsewhere. A worker that has been given up and still waits is
 * counted until the kernel lets it go; where there are several, no more are sent after them. */
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
/* Of all that is validated together, the one that is likeliest to hang. */
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
	uint64_t jobs;            /* unfinished, and being submitted */
	uint64_t submitter_bytes; /* what its submitters take in memory, groups included */
	struct held held;
	uint64_t served; /* when a job of it began last, on the manager's count */
};
LIST_HEAD(user_list, user);

struct intake {
	LIST_ENTRY(intake) link;
	struct submitter *submitter; /* NULL: it has ended before the last session was given back */
	struct worker *worker;       /* NULL: it has ended */
	filesystem_t filesystem;
	unsigned sessions; /* that are open, and known to this worker only */
	bool retired;      /* finishes what it was asked, and gets nothing new */
	uint64_t used_usec;
};
LIST_HEAD(intake_list, intake);

struct submitter {
	LIST_ENTRY(submitter) link;
	struct submitters *submitters;
	struct user *user;
	unsigned refs;
	struct credentials id;
	struct intake_list intakes;
	sd_event_source *idle;
	uint64_t sessions; /* the number of the last one */
};
LIST_HEAD(submitter_list, submitter);

LIST_HEAD(staging_area_list, staging_area);

/* All of them, and where their names are staged (staging-area.h). */
struct submitters {
	struct context *context;
	struct submitter_list list;
	struct user_list users;
	struct held held; /* of all but root */
	struct staging_area_list areas;
	char **busy_dirs; /* of staging, that another daemon has, which has been logged */
	size_t n_busy_dirs;
	struct submitter *root; /* whose intake worker makes staging directories */
};

/* Without root, which submitter_get finds. All zeroes but for the context. */
void submitters_init(struct submitters *s, struct context *c);
/* The intake workers were told what does not hold any more: others are started at the next use, and
 * these end when they have done what they have begun. */
void submitters_renew(struct submitters *s);
/* Ends the intake workers, at once; their requests fail. */
void submitters_end_workers(struct submitters *s);
/* Frees what is left of them at the end, after staging_areas_done. */
void submitters_done(struct submitters *s);

/* The submitter with those credentials, made if there is none. Drop it with submitter_unref. */
int submitter_get(struct submitter **ret, struct submitters *submitters,
		  const struct credentials *id);
/* Returns false if another submitter with these credentials would take too much memory: an account
 * has up to 65,536 subordinate ids, and processes with as many groups each. */
bool submitter_has_room(const struct submitters *submitters, const struct credentials *id);
struct submitter *submitter_ref(struct submitter *submitter);
struct submitter *submitter_unref(struct submitter *submitter);
static inline void submitter_unrefp(struct submitter **submitter)
{
	(void)submitter_unref(*submitter);
}

/* The intake worker for a filesystem, started if there is none; it ends a second or two after its
 * last use. -EUSERS: too many processes of that user wait already. */
int submitter_intake(struct submitter *submitter, filesystem_t filesystem, struct worker **ret);
/* Says so in *f, and which filesystem they wait for. */
void submitter_set_full_failure(const struct submitter *submitter, filesystem_t filesystem,
				struct failure *f);

/* The same for a session, which no other worker knows: to be given back. */
int submitter_intake_take(struct submitter *submitter, filesystem_t filesystem,
			  struct intake **ret);
/* NULL is accepted. */
void intake_give(struct intake *i);
/* NULL if it has ended, or i is NULL. */
struct worker *intake_worker(const struct intake *i);

/* Starts a worker of any role, which counts as one of that user's there. -EUSERS as above. */
int submitter_worker_new(struct submitter *submitter, filesystem_t filesystem,
			 struct worker_options *options, struct worker **ret);

/* At once, whatever they have begun: their requests fail. */
void submitter_end_workers(struct submitter *submitter);
