/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An adoption of what a host that is gone for good has left. Private to its two files.
 *
 *   adoption.c        whether it may be begun, and what waits for it
 *   adoption-walk.c   what is gone through, and becomes jobs of this host
 *
 * Which of it may be is decided by adoptable.h; what is told of it is in findings.h. */
#pragma once

#include <sys/queue.h>

#include "adoptable.h"
#include "findings.h"
#include "fleet-state.h"
#include "fleet.h"

/* What waits for an adoption. */
struct adoption_request {
	bool look;
	adoption_done_t done; /* NULL: nothing does */
	void *userdata;
};

struct adoption {
	LIST_ENTRY(adoption) link;
	struct fleet *fleet; /* NULL: that has ended */
	struct jobs *jobs;
	char host[FLEET_NAME_SIZE], by[FLEET_NAME_SIZE];
	struct adoption_request request; /* look: nothing is done */
	struct adoption_request next;    /* that came while it went on by itself */
	bool asked;                      /* root has asked for it, now or before */
	bool again;                      /* another one follows */
	sd_event_source *waits;
	/* Directories that jobs of this host have adopted: the last component, which no other has.
	 * Sorted when all are there. */
	struct left_records records, late; /* late: of those that have ended since that was read */
	bool records_end;                  /* all are there */
	bool unsure; /* or not, for want of memory: nothing is taken any more */
	struct findings findings;

	/* What is gone through: adoption-walk.c. */
	size_t next_filesystem;
	char *mount;
	uint64_t mnt_id;
	bool all_seen;    /* of this filesystem */
	bool left;        /* of any of them, something */
	bool may_succeed; /* next time: what could not be looked at, taken or left */
	struct left_mark *marks;
	size_t n_marks, mark; /* mark: the next */
	char **users;
	size_t n_users, user; /* the same */
	int user_fd;
	uid_t uid;
	struct left_dir *dirs;
	size_t n_dirs, dir;    /* dir: that is looked at */
	size_t unnamed;        /* of them, by no mark */
	sd_event_source *turn; /* of the loop, before the next of them; or NULL */
	const struct left_mark *taken;
	bool jobs_go_on;    /* that have adopted something, at the end of a filesystem */
	size_t kept_before; /* of what was found, this filesystem */
};

/* Goes through all, and calls adoption_finish, in this call or later. */
void adoption_walk(struct adoption *a);
/* Frees what it has. */
void adoption_walk_clear(struct adoption *a);

/* ---- adoption.c ---- */

/* f: NULL, or why not all was gone through. a is gone afterwards. */
void adoption_finish(struct adoption *a, const struct failure *f);
/* Ends it where it cannot go on; true then. */
bool adoption_is_over(struct adoption *a);
/* Nothing is left: what root has asked for is done. */
void adoption_forget(const struct adoption *a);
/* Does a job go on that has adopted something of that host? What it cannot delete stays with it. */
bool adoption_some_go_on(const struct jobs *jobs, const char *host);
/* Have jobs that were to end this directory failed so often that none is begun by itself? */
bool adoption_is_given_up(const struct adoption *a, const char *dir_name);
