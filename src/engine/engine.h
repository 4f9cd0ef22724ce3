/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The engine: deletes names beneath pinned directories, on one filesystem at a time.
 *
 *   roots (dirfd + names) --> tasks --> lanes: walker --> batch --> queue (threads | uring)
 *                               ^                 |                      |
 *                               +-- node (rmdir when the last child is gone) <--+
 *
 * A walker is a state machine that goes through one subtree and yields batches of names in one
 * directory; a queue performs them; subtrees are handed to idle
 * lanes, and backend and number of lanes change as the tuner finds better ones. The caller's thread
 * runs engine_run: it tunes and calls the progress callback; it deletes nothing itself. Knows no
 * D-Bus, no YAML, no SQL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fd.h"
#include "engine/core/engine-options.h"
#include "engine/guard/roots.h"
#include "pace.h"

struct engine;

/* fd is any descriptor on the filesystem to be worked on, and stays the caller's; so does what
 * options point to, which must outlive the engine. *ret is the caller's. Returns 0, -ENOMEM,
 * -EMFILE if RLIMIT_NOFILE is below 32, -EOPNOTSUPP if BACKEND_URING is fixed and the kernel has no
 * usable io_uring, or the negative errno of fstatfs(2) or getrlimit(2). */
int engine_new(struct engine **ret, const struct engine_options *options, int fd);
struct engine *engine_free(struct engine *e);

/* The profile of the filesystem, as options and limits have changed it. Lives as long as e. */
const struct fs_profile *engine_profile(const struct engine *e);

/* Has the pace asked before each slice of work from now on; it must outlive the engine's run.
 * Before engine_run. NULL: no limits. */
void engine_pace(struct engine *e, const struct pace *pace);

/* Adds the names of one group, and takes them over: the group's list is empty afterwards. Its pins
 * and its dir must outlive the engine. A pinned name that is something else when the work begins is
 * left alone (I3), and so is a whole group whose directory was replaced. Before engine_run. Returns
 * 0 or -ENOMEM, and then g is as it was. */
int engine_add(struct engine *e, struct root_group *g);

/* Deletes everything added. Returns 0 when all of it ran, whatever single entries met (see the
 * statistics: errors, first_error), or a negative errno if the work could not be begun. */
int engine_run(struct engine *e);

/* Other hosts would take so many units from now on, instead of what was said before; each one that
 * is given away takes one off. Nothing where the engine does not give. Safe on any thread. */
void engine_demand(struct engine *e, unsigned units);

/* Stops at the next entry. Safe in a signal handler and on any thread. */
void engine_cancel(struct engine *e);

/* Stops at the first entry that it comes to at that time (boot_usec) or later, unless a later time
 * was said before. 0: at no time. Safe on any thread. */
void engine_until(struct engine *e, uint64_t usec);

/* Was it stopped, or did it come to an entry too late? */
bool engine_cancelled(const struct engine *e);

/* The statistics so far; after engine_run, of all of it. */
void engine_result(const struct engine *e, struct engine_progress *ret);

/* "ext: threads, 2 lanes, inode order": what was done, into buf. Returns buf. */
char *engine_strategy(const struct engine *e, char *buf, size_t len);
