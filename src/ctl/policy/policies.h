/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: what they would do now, ready to be shown or done. */
#pragma once

#include "config/config.h"
#include "engine/guard/protect.h"
#include "ctl/common/options.h"
#include "ctl/output/messages.h"
#include "policy/rules.h"
#include "policy/scan/holders.h"
#include "policy/scan/scan.h"

struct policy_preview {
	const struct config_policy *policy;
	/* Why it could not be looked at, after which of its paths; then there is nothing else. */
	const char *where, *problem;
	struct scan scan;
	struct policy_plan plan;
	int64_t now_nsec;
	bool open_known; /* all processes' open files were seen */
	/* The clock was set by this much since policies ran last, and it is not known which time is
	 * right; else 0. */
	int64_t clock_jump_usec;
};

/* What the verb knows while it runs. */
struct policy_session {
	struct options o;
	struct config *config;
	struct protect *protect;
	struct holders holders;
	bool open_known, failed;
	bool is_silent; /* problems with other policies are not reported */
	size_t n_shown;
};

/* Finds out what is protected and what is open now. Returns 0 or an exit status. */
int policy_prepare(struct policy_session *s);
/* Frees what policy_prepare found out. The configuration stays the caller's. */
void policy_session_done(struct policy_session *s);

/* Scans and decides for l->policy; the scan was SCAN_NONE. Returns 0 or a negative errno, with
 * l->problem. After policy_prepare. */
int policy_preview(struct policy_session *s, struct policy_preview *l);
void policy_preview_done(struct policy_preview *l);

/* Just before what is to be deleted goes: keeps what has changed since, or is held by now. Returns
 * how many of it these are. */
size_t policy_recheck(struct policy_session *s, struct policy_preview *l);

/* Makes the plan and hands what it deletes to the daemon, as one job; with --wait, waits until that
 * has ended. Returns the exit status. */
int policy_run(struct policy_session *s, const struct config_policy *p);

/* Returns an array of sentences: which limits the plan does not meet and why, and, if max-delete
 * keeps entries, what a scheduled run will do. The plan, the run and the list print the same. */
json_t *policy_notes(const struct policy_preview *l);

/* Returns the notes of a policy that has never run, which are about what its first run will do; an
 * empty array if there is nothing to note. After policy_prepare. */
json_t *policy_first_notes(struct policy_session *s, const struct config_policy *p);

/* Prints. The entries come one by one: there may be millions. JSON is an element of an array. */
void policy_preview_print(const struct policy_preview *l);
void policy_preview_json(const struct policy_preview *l, enum json_mode mode);

/* Which mark of free space or inodes does nothing, as the filesystem does not tell how much there
 * is in all, in words to follow the path; NULL: none. */
const char *policy_marks_words(const struct policy_preview *l);

/* Its directories, one behind the other, escaped; NULL: out of memory. */
char *policy_paths_text(const struct policy *p);

/* "keep", "delete", or "excess": it is to go, and max-delete keeps it in this run. */
const char *entry_fate(const struct policy_entry *e);

/* The table of all policies, from policy_states_json. */
void policies_print(const json_t *states);
