/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spools with the real kernel: a tmpfs of our own at /mnt, in a mount namespace of our own, real
 * events. Needs root. The accounts are those that every system has: root, daemon (1) and bin (2).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spools/spool.h"
#include "support.h"
#include "base/macros.h"

/* What becomes of the names of a batch. */
enum answer { REMOVE, LEAVE, DENY_BAD, NONE };

struct world {
	sd_event *event;
	struct spools *spools;
	int mounts_fd;
	sd_event_source *mounts;
	char *protect[2];
	enum answer answer;
	unsigned batches, tells;
	size_t names;   /* of all batches */
	char last[256]; /* the batch with few names: "1: a b" */
	char log[8192]; /* all of them */
	char told[2048];
	uint64_t last_id;
	uint64_t settle_usec, undo_usec;
	unsigned answered_bad;
};

/* Mounts and unmounts what is at /mnt, with spools that are offered once they have settled. */
void world_open(struct world *w, uint64_t settle_usec, const char *state_dir);
void world_close(struct world *w);
/* Mounts are watched no longer: before the loop goes. */
void world_ignore_mounts(struct world *w);

/* Configures this directory as the only spool. */
void serve(struct world *w, const char *path);
enum spool_state state_of(const struct world *w);

/* Whatever is under way holds what is mounted for a moment, and does not say when it lets go.
 */
void unmount(const struct world *w, const char *path);

/* Runs the loop until a condition holds; fails if nothing happens for a minute. */
#define run_until(w, condition)                                                                    \
	while (!(condition)) {                                                                     \
		int run_ = sd_event_run((w)->event, 60 * USEC_PER_SEC);                            \
		ck_assert_msg(run_ > 0, "%s: nothing happens; log %s, told %s", #condition,        \
			      (w)->log, (w)->told);                                                \
	}

/* Until nothing is under way: what comes next is noticed by its own event, or not at all. */
void run_out(const struct world *w);

/* Make a file or a directory, as its mode says; root's with the usual modes. */
void make_as(uid_t uid, const char *path, mode_t mode);
void make(const char *path);
void make_dir(const char *path);
bool exists(const char *path);

/* Runs the tests in a mount namespace of their own. Returns the exit status for main. */
int run_spool_case(const char *name, const TTest *const *tests, size_t n);
