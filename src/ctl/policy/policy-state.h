/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How policies are: what became of their last runs, which is in the state directory, one file for
 * each, and when they run next.
 *
 * The keys of each in JSON, beside those of policy list:
 *
 *   min_free               null, or {below, until}: each {share, bytes}, one of them null
 *   watched, path_exists   it runs when space is short, or too much is there; and its directory, or
 *                          null: that is not known
 *   next_usec              when its timer elapses, or null: there is none
 *   success_usec           when a run that did all it was to do had ended last, or null
 *   oldest_kept_usec       the time of the oldest entry that stayed in the last run, or null
 *   deleted                {entries, bytes}: by all runs together
 *   last                   null if there was none, or it may not be read, else
 *     time_usec, job       when it began; and its job, or null
 *     result               "done", "partial", "failed", or "cancelled" or "restored" if a person
 * did that to its job; before its job has ended, the job's state entries, bytes       what it
 * handed over refused, excess      {entries, bytes}: what it was to delete and could not; and what
 *                          max-delete kept from it
 *     pinned               likewise: what pins kept
 *     unmet                [{limit, have, wanted}]: limits that did not hold after it
 *     gained_bytes         what the filesystem gained by the last run that was measured, as df
 *                          shows it, or null
 *     why                  what was refused, and why: texts
 *   error                  why that cannot be read, or null
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "ctl/common/client.h"
#include "policy/result.h"

/* Reads the last result of a policy; where there is none, *ret is all zero. Returns 0 or a negative
 * errno. */
int policy_result_read(const char *dir, const char *name, struct policy_result *ret);

/* Replaces it as a whole. */
int policy_result_write(const char *dir, const char *name, const struct policy_result *r);

/* Asks the daemon, quietly, what has become of jobs whose end is not known. */
void policy_result_refresh(struct client *c, struct policy_result *r);

/* An array with an object for each policy. client may be NULL. */
json_t *policy_states_json(const struct options *o, const struct config *config,
			   struct client *client);

/* The same for verbs that are not about policies, if the configuration is that of their daemon:
 * NULL if it is not known to be, or cannot be read. *ret_wrong: it has errors, and the policies are
 * those that are in force. */
json_t *policy_states_of_daemon(const struct options *o, struct client *client, bool *ret_wrong);

/* What is said then; the daemon was not told of it, and so has none. */
#define CONFIGURATION_WRONG                                                                        \
	"the configuration on disk has errors and is not in force: see reclaimctl check-config"

/* An array of its directories. */
json_t *policy_paths_json(const struct policy *p);

/* "done 9h ago", and "in 14h"; buf has room for POLICY_WORDS bytes. */
#define POLICY_WORDS 64
char *policy_last_format(char *buf, const json_t *state);
char *policy_next_format(char *buf, const json_t *state);
