/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The command lines of all verbs, parsed: one table of options says which verbs have them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/filesystem/profile.h"
#include "ctl/output/modes.h"
#include "policy/policy.h"

enum wait_mode { WAIT_NOT, WAIT_DONE, WAIT_FREE };

/* Of submit and set; PRIORITY_NONE: not given. */
enum priority_choice { PRIORITY_NONE, PRIORITY_LOW, PRIORITY_NORMAL, PRIORITY_HIGH };

enum metrics_format { FORMAT_OPENMETRICS, FORMAT_PROMETHEUS };

struct options {
	char **words;       /* all, the verb first */
	char *const *paths; /* or job ids: what is no option */
	size_t n_paths;
	const char *runtime_dir; /* NULL: not given */
	const char *host;        /* where it is done; NULL: here */
	const char *machine;     /* the container whose daemon is meant, or NULL */

	/* of run; latency, progress and verbose also of trim */
	uint64_t latency_usec; /* a bound, or 0: found out */
	const char *trace;     /* file for what the sensors said, or NULL */
	uint64_t stall_usec; /* MooseFS: by its snapshots, holding up its master so long; 0: not */
	enum backend backend;
	enum switch_mode progress;

	/* of trim */
	uint64_t min_bytes; /* what is free in smaller pieces is left; 0: nothing is */

	/* of run and submit */
	const char *files_from; /* NULL: none; "-": standard input */

	/* of submit, set and wait */
	uint64_t undo_usec;
	uint64_t by_usec;         /* has_by: CLOCK_REALTIME, or 0 */
	struct policy_space free; /* WAIT_FREE */
	enum wait_mode wait;
	enum priority_choice priority;

	/* of pin */
	uint64_t until_usec; /* CLOCK_REALTIME, or 0: for ever */

	/* of list */
	const char *states; /* only in these, with commas between them, or NULL */
	uint64_t lines;     /* only so many, the newest; 0: all */
	uid_t uid;          /* one_user: only those of this one */
	bool one_user;

	enum json_mode json;
	const char *to;                /* of restore, or NULL */
	uint64_t interval_usec;        /* of devices and top */
	const char *database;          /* of fleet and list; NULL: as it is configured */
	const char *configuration_dir; /* of policy; NULL: the system's */
	const char *state_dir;         /* of policy and trim; NULL: the daemon's */
	const char *output;            /* of metrics; NULL: standard output */
	enum metrics_format format;

	bool null; /* names in files_from end with NUL, not with a newline */
	bool dry_run, has_undo, has_by;
	bool latency_off, fixed_backend, verbose, no_settle; /* of run */
	bool configured;                                     /* of trim */
	bool all;                   /* of list, show, pause, resume, trim */
	bool fleet;                 /* of list */
	bool no_legend;             /* of list and spools */
	bool list;                  /* of pin */
	bool no_ask_password;       /* of what is done with jobs */
	bool force, clock_is_right; /* of policy run */
	bool user;                  /* of policy: those of the user, not of the system */
	bool quiet, no_pager, help, version;
};

enum verb_flags {
	VERB_RUN = 1 << 0,
	VERB_PLAN = 1 << 1,
	VERB_DEVICES = 1 << 2,
	VERB_CHECK_CONFIG = 1 << 3,
	VERB_SUBMIT = 1 << 4,
	VERB_LIST = 1 << 5,
	VERB_SHOW = 1 << 6,
	VERB_WAIT = 1 << 7,
	VERB_CANCEL = 1 << 8,
	VERB_PAUSE = 1 << 9,
	VERB_RESUME = 1 << 10,
	VERB_RESTORE = 1 << 11,
	VERB_SPOOLS = 1 << 12,
	VERB_STATUS = 1 << 13,
	VERB_POLICY = 1 << 14,
	VERB_METRICS = 1 << 15,
	VERB_TOP = 1 << 16,
	VERB_TRIM = 1 << 17,
	VERB_HELP = 1 << 18,
	VERB_RETRY = 1 << 19,
	VERB_SET = 1 << 20,
	VERB_PIN = 1 << 21,
	VERB_UNPIN = 1 << 22,
	VERB_FLEET = 1 << 23,
};

#define VERBS_ALL (~0U)
#define VERBS_JSON (VERBS_ALL & ~(VERB_METRICS | VERB_TOP | VERB_HELP))
/* What speaks to the daemon. */
#define VERBS_DAEMON                                                                               \
	(VERB_SUBMIT | VERB_LIST | VERB_SHOW | VERB_WAIT | VERB_CANCEL | VERB_PAUSE |              \
	 VERB_RESUME | VERB_RESTORE | VERB_RETRY | VERB_SET | VERB_SPOOLS | VERB_STATUS |          \
	 VERB_DEVICES | VERB_POLICY | VERB_METRICS | VERB_TOP)

/* Of these, what can be asked of the daemon in a container: paths would be of this machine, and
 * restore needs the mounts of the process that asks. */
#define VERBS_MACHINE                                                                              \
	(VERB_LIST | VERB_SHOW | VERB_WAIT | VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_SET |   \
	 VERB_SPOOLS | VERB_STATUS | VERB_METRICS | VERB_TOP)

/* Options may come before the verb, too: moves the verb before them, to argv[1]. False: there is
 * none. */
bool options_verb_first(int argc, char **argv);

/* Parses the words behind the verb; argv[0] is its name. VERBS_ALL: there is none, which is wrong
 * unless --help or --version are asked for. What is in *o points into argv. With -H it becomes ssh
 * (remote.h) and does not return. Returns 0; EXIT_USAGE or EXIT_FAILED after having said what is
 * wrong. */
int options_parse(struct options *o, enum verb_flags verb, int argc, char **argv);

/* Prints the options of these verbs: of VERBS_ALL under headings that say whose they are, of one
 * verb under "Options:". */
void options_help(unsigned verbs);

/* As the API calls it; "" for PRIORITY_NONE. */
static inline const char *options_priority(const struct options *o)
{
	static const char *const priorities[] = { "", "low", "normal", "high" };

	return priorities[o->priority];
}

/* Returns the directory in the environment variable, or NULL if it is unset or is a list. */
const char *options_environment_dir(const char *variable);

/* Returns the state directory: --state-directory=, $STATE_DIRECTORY or /var/lib/reclaimd. */
const char *options_state_dir(const struct options *o);

/* Returns true if the results may go through a pager. */
static inline bool options_page(const struct options *o)
{
	return !o->no_pager && !o->quiet && o->json == JSON_OFF;
}

/* Parses a job's number. Returns 0, or EXIT_USAGE after having said what is wrong. What is given to
 * verbs that take jobs is one already once options_parse has returned 0. */
int job_id_parse(const char *word, uint64_t *ret_id);
