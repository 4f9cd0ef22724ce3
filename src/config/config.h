/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The configuration: YAML in, one struct out. Files are read, checked as a whole, and only then
 * handed over; a struct is never changed afterwards but replaced. Knows no daemon. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fleet-name.h"
#include "policy/policy.h"

/* Where it is by default. */
#define CONFIG_DIR "/etc/reclaimd"
#define CONFIG_VENDOR_DIR "/usr/lib/reclaimd"

/* Where a key was, for messages about its value. */
struct config_place {
	const char *file;      /* the configuration's */
	unsigned line, column; /* from 1 */
};

/* Units of systemd that are started when a job has ended; NULL: none. Of a template,
 * "NAME@.service", the instance is that of the job's number. */
struct config_hooks {
	char *on_success, *on_failure;
	struct config_place success_place, failure_place;
};

struct config_spool {
	char *path; /* absolute, without . and .. */
	uint64_t settle_usec, undo_usec;
	struct config_hooks hooks;
	struct config_place place;
};

enum latency_mode { LATENCY_AUTO, LATENCY_OFF, LATENCY_BOUND };

struct config_pacing {
	enum latency_mode latency;
	uint64_t latency_usec;       /* LATENCY_BOUND */
	uint64_t rate_min, rate_max; /* bytes per second; UINT64_MAX: unlimited */
};

struct config_device {
	char *name; /* mount point, block device, or device number "8:0" */
	struct config_pacing pacing;
	struct config_place place;
};

/* No job goes faster in it (config/pacing-windows.h). */
struct config_window {
	char *span;
	uint64_t rate; /* bytes per second; 0: none runs */
	struct config_place place;
};

struct config_policy {
	char *name; /* letters, digits, - and _: it becomes part of the names of units */
	struct policy rules;
	char *schedule;     /* OnCalendar= of systemd.timer(5); NULL: none */
	uint64_t undo_usec; /* how long what goes can be taken back */
	struct config_hooks hooks;
	struct config_place place, path_place, owner_place, schedule_place;
};

/* What is true of the trims of all filesystems, or of one. */
struct config_trim_limits {
	uint64_t min_bytes; /* smallest free extent that is trimmed */
};

struct config_trim {
	char *mount;
	char *schedule; /* OnCalendar= of systemd.timer(5); NULL: none */
	struct config_trim_limits limits;
	/* The latter without a line: it has no schedule of its own, but that of all. */
	struct config_place place, schedule_place;
};

/* A filesystem that hosts of the fleet share. */
struct config_shared {
	char *path; /* where it is mounted here: absolute, without . and .. */
	char *name; /* what the fleet calls it */
	/* Bytes per second of all hosts of the fleet together; UINT64_MAX: unlimited. */
	uint64_t rate_max;
	struct config_place place;
};

struct config {
	struct config_spool *spools;
	size_t n_spools;
	struct config_pacing pacing;
	struct config_device *devices;
	size_t n_devices;
	struct config_window *windows;
	size_t n_windows;
	struct policy_space urgent_below, urgent_until;
	bool moosefs_snapshot;       /* its master removes subtrees at once */
	uint64_t moosefs_stall_usec; /* and does nothing else so long */
	bool staging;                /* auto: rename out of the way first; off: in place */
	char *trim_schedule;         /* OnCalendar= of systemd.timer(5); NULL: none */
	struct config_trim_limits trim_limits;
	struct config_trim *trims; /* the filesystems that are trimmed */
	size_t n_trims;            /* 0: all */
	uint64_t undo_usec;        /* of submits that do not say; 0 */
	uint64_t history_usec;     /* how long finished jobs are kept */
	uint64_t history_jobs;     /* finished jobs that are kept, at most */
	uint64_t history_bytes;    /* size of finished jobs that are kept, at most */
	uint64_t jobs_per_user;    /* unfinished, at most */
	uint64_t names_per_user;   /* on their way into jobs, at most */
	char **protect;            /* NULL-terminated, absolute */
	struct config_policy *policies;
	size_t n_policies;

	char *fleet_database;  /* a connection string of libpq; NULL: this host is in no fleet */
	char *fleet_name;      /* see config_fleet_name; NULL: that of the host */
	char *fleet_uid_space; /* see config_fleet_uid_space */
	struct config_shared *fleet_filesystems;
	size_t n_fleet_filesystems;

	struct config_place trim_schedule_place, fleet_database_place, fleet_name_place;

	char **files; /* that were read, NULL-terminated; config_place points here */
};

/* One thing that is wrong; `text` names the key and says what was expected. A warning is of what is
 * surely not meant, but can be done; with warnings alone the configuration is used. */
struct config_error {
	const char *file;      /* valid during the call */
	unsigned line, column; /* 0: of the whole file */
	bool is_warning;
	const char *text;
};

typedef void (*config_complain_t)(const struct config_error *e, void *userdata);

/* Reads, in this order, each over the one before:
 *
 *   <vendor>/reclaimd.yaml
 *   the *.yaml in <vendor>/reclaimd.d, by name
 *   <dir>/reclaimd.yaml
 *   the *.yaml in <dir>/reclaimd.d, by name
 *
 * Files and directories that do not exist are no error. Directories are NULL to leave them out.
 * A later file replaces scalars, adds to maps by name, and adds to lists. Every error is told, not
 * only the first, file by file and within one in the order of its lines. Returns 0 and *ret, or a
 * negative errno: -EBADMSG if an error was complained about, and then there is no configuration.
 * It reads files, and so may block: not for the thread of an event loop that must not. */
int config_load(struct config **ret, const char *vendor_dir, const char *dir,
		config_complain_t complain, void *userdata);

/* The same for a single file, which must exist, for check-config. */
int config_load_file(struct config **ret, const char *file, config_complain_t complain,
		     void *userdata);

/* That of the calling process's user, which has nothing but `policies` and `undo`:
 * $XDG_CONFIG_HOME/reclaimd/policies.yaml. It need not be there; if it is, it must be the user's,
 * and its directory, and no other user may write to them. Or, for check-config, any one file, which
 * must exist; NULL: that of the user. The same errors, and -ENOENT: the user has no home directory.
 */
int config_load_user(struct config **ret, const char *file, config_complain_t complain,
		     void *userdata);

/* A path in a directory for all programs of a user, which a variable names; else it is `otherwise`
 * in the home directory. name: "", or begins with a slash. Returns 0, -ENOENT if that is not known
 * either, or -ENAMETOOLONG. */
int config_user_path(const char *variable, const char *otherwise, const char *name, char *buf,
		     size_t len);

/* Protects one more directory, which is reclaimd's own (see protect_new): made absolute, with
 * symbolic links followed. Returns 0 or a negative errno, and then c protects what it did. */
int config_protect_own(struct config *c, const char *path);

/* What is true of the trims of the filesystem at this mount point, or NULL if `trim:` is not about
 * it. */
const struct config_trim_limits *config_trims(const struct config *c, const char *mount);

/* Has the filesystem a schedule of its own, which may be none? */
static inline bool config_trim_is_apart(const struct config_trim *t)
{
	return t->schedule_place.line > 0;
}

/* Is the schedule of `trim:` that of any filesystem? */
bool config_trims_together(const struct config *c);

/* Escapes a path as systemd-escape --path does. CONFIG_PATH_ESCAPED is the size of a buffer that
 * leaves room for the rest of a unit's name. Returns 0, or -ENAMETOOLONG if the result does not
 * fit.
 */
#define CONFIG_PATH_ESCAPED 224
int config_path_escape(char *buf, size_t size, const char *path);

/* Writes the name of the timer for the filesystem mounted at `mount`, which has a schedule of its
 * own. CONFIG_TRIM_TIMER is the timer of all others. Returns 0, or -ENAMETOOLONG if the name is too
 * long for a unit. */
#define CONFIG_TRIM_TIMER "reclaimd-trim-scheduled.timer"
#define CONFIG_TRIM_TIMER_MOST 256
int config_trim_timer(char buf[static CONFIG_TRIM_TIMER_MOST], const char *mount);

/* What this host is called in its fleet: `fleet: name:`, or else the first part of the host's name,
 * in small letters. Returns 0; -EINVAL if the host's name cannot be one; or another negative errno.
 */
int config_fleet_name(const struct config *c, char buf[static FLEET_NAME_SIZE]);

/* What the numbers of this host's users and groups are called: those of hosts that call them the
 * same are the same. `fleet: uid-space:`, or else "default". Valid as long as c. */
const char *config_fleet_uid_space(const struct config *c);

struct config *config_free(struct config *c);
