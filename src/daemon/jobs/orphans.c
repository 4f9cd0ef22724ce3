/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Job directories in staging that are of no unfinished job: kept and told of, or removed if they
 * are empty; and marks that no job needs any more. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "daemon/context/log.h"
#include "job-recover.h"
#include "stale-marks.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/staging-dir.h"
#include "base/units.h"

/* Root's worker may die on the way and is replaced: so often in one round. */
#define DEATHS_MOST 8

/* A user may put any number of directories there, of any name: so many are named. */
#define SHOWN_MOST 3

/* <mount>/.reclaim, the parts in it that hosts of a fleet have, each user's directory in it and in
 * each part, each job's in that: one after the other, and into each before the next. */
enum depth { MOUNTS, PARTS, USERS, DIRS, DEPTHS };

struct orphans {
	struct jobs *jobs;
	unsigned deaths;
	enum depth depth;
	struct {
		/* Mount points; "" for .reclaim itself, and hosts; uids in words; directories of no
		 * unfinished job. */
		char **names;
		size_t n, at; /* at: so many of them have been begun with */
	} levels[DEPTHS];
	int user_fd;
	size_t n_kept;
	char shown[SHOWN_MOST * (NAME_MAX + 1)]; /* of those that are kept */
	char (*known)[33];                       /* of unfinished jobs, sorted */
	size_t n_known;
};

static void names_clear(struct orphans *o, enum depth depth)
{
	for (size_t i = 0; i < o->levels[depth].n; i++)
		free(o->levels[depth].names[i]);
	free(o->levels[depth].names);
	o->levels[depth].names = NULL;
	o->levels[depth].n = o->levels[depth].at = 0;
}

/* Without memory it is told of at another start. */
static void names_add(struct orphans *o, enum depth depth, const char *name)
{
	(void)strings_add(&o->levels[depth].names, &o->levels[depth].n, strdup(name));
}

static const char *begun(const struct orphans *o, enum depth depth)
{
	return o->levels[depth].names[o->levels[depth].at - 1];
}

/* Of which the users' directories are. Malloc'ed, or NULL. */
static char *dir_path(const struct orphans *o)
{
	return staging_dir_path(begun(o, MOUNTS), begun(o, PARTS));
}

static int compare_known(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Is what failed with r to be done once more? */
static bool once_more(struct orphans *o, int r)
{
	return (r == -EPIPE || r == -ECANCELED) && !o->jobs->context->stopping &&
	       o->deaths++ < DEATHS_MOST;
}

static void show(struct orphans *o, const char *name)
{
	_cleanup_free_ char *escaped = escape_name(name);
	size_t len = strlen(o->shown);

	if (o->n_kept++ < SHOWN_MOST)
		(void)snprintf(o->shown + len, sizeof(o->shown) - len, "%s%.*s",
			       len > 0 ? ", " : "", NAME_MAX - 1, escaped ? escaped : "?");
}

/* One line about what is kept of a user's. */
static void log_orphan(struct orphans *o)
{
	_cleanup_free_ char *dir = dir_path(o), *at = escape_name(dir ? dir : "?");
	const char *user = begun(o, USERS);
	char n[COUNTED_SIZE], more[48] = "";

	if (o->n_kept > SHOWN_MOST)
		(void)snprintf(more, sizeof(more), " and %zu more", o->n_kept - SHOWN_MOST);
	log_user(LOG_WARNING, (uid_t)strtoul(user, NULL, 10), MESSAGE_STAGING_ORPHAN,
		 "%s/%s has %s of no job that is on record (%s%s): kept; look at what is in "
		 "there, and move it to its place, or delete it",
		 at ? at : "?", user,
		 counted_format(n, sizeof(n), o->n_kept, "directory", "directories"), o->shown,
		 more);
	o->n_kept = 0;
	o->shown[0] = '\0';
}

static void next(struct orphans *o);

static void on_orphan_removed(int r, void *userdata)
{
	struct orphans *o = userdata;

	if (once_more(o, r)) {
		o->levels[DIRS].at--;
	} else if (r == -ENOTEMPTY || r == -EEXIST) {
		/* An empty one is what was left of a job that ended just before the daemon did. */
		o->jobs->orphans++;
		tell_daemon_changed(o->jobs->context, "Orphans");
		show(o, begun(o, DIRS));
	}
	next(o);
}

/* Does it belong to a job that was submitted since the known ones were collected? Jobs are in the
 * table before their directories are made. */
static bool is_of_new_job(const struct orphans *o, const char *name)
{
	const struct job_stub *s;
	char uuid[33];

	TAILQ_FOREACH_REVERSE(s, &o->jobs->table.in_order, job_list, in_order) {
		job_uuid_format(s->uuid, uuid);
		if (strcmp(uuid, name) == 0)
			return true;
	}
	return false;
}

/* If .reclaim is listed once more, it is known. NULL is accepted. */
static void part_add(struct orphans *o, const char *host)
{
	for (size_t i = 0; host && i < o->levels[PARTS].n; i++)
		if (strcmp(o->levels[PARTS].names[i], host) == 0)
			return;
	if (host)
		names_add(o, PARTS, host);
}

static void on_entry(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct orphans *o = userdata;

	(void)id;
	if (o->depth == PARTS) {
		if (strspn(name, "0123456789") == strlen(name))
			names_add(o, USERS, name);
		else if (!*begun(o, PARTS))
			part_add(o, staging_part_host(name));
		return;
	}
	if (o->n_known > 0 && bsearch(name, o->known, o->n_known, sizeof(*o->known), compare_known))
		return;
	if (!is_of_new_job(o, name))
		names_add(o, DIRS, name);
}

/* What was listed is dealt with, also if not all was. */
static void on_listed(int r, void *userdata)
{
	struct orphans *o = userdata;

	if (once_more(o, r)) {
		names_clear(o, o->depth + 1);
		o->levels[o->depth].at--;
	} else {
		o->depth++;
	}
	next(o);
}

static int root_intake(const struct orphans *o, struct worker **ret)
{
	return submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, ret);
}

static void on_opened(int r, int fd, void *userdata)
{
	_cleanup_(fd_closep) int own = fd;
	struct orphans *o = userdata;
	struct worker *intake;

	if (r >= 0)
		r = root_intake(o, &intake);
	if (r >= 0)
		r = worker_list_staging(intake, own, NULL, on_entry, on_listed, o);
	if (r < 0) {
		on_listed(r, o);
	} else if (o->depth == USERS) {
		fd_closep(&o->user_fd);
		o->user_fd = fd_take(&own);
	}
}

static int begin(struct orphans *o, struct worker *intake, const char *name)
{
	_cleanup_free_ char *path = NULL;
	const char *host;

	switch (o->depth) {
	case PARTS:
		path = dir_path(o);
		return path ? worker_open_dir(intake, -1, path, NULL, on_opened, o) : -ENOMEM;
	case USERS:
		host = begun(o, PARTS);
		/* Checked as closely as where something is to be put into it: the owner of the root
		 * of the mount can call anything .reclaim, and root is about to remove there. */
		return worker_make_staging(
			intake,
			&(struct make_staging_message){ .mount_path = begun(o, MOUNTS),
							.uid = (uid_t)strtoul(name, NULL, 10),
							.holder = o->jobs->context->holder,
							.host = *host ? host : NULL },
			on_opened, o);
	default:
		return worker_remove_staging(intake, o->user_fd, name, on_orphan_removed, o);
	}
}

static void on_marks_removed(void *userdata)
{
	next(userdata);
}

/* When the directories in a host's part that are empty are gone. */
static bool marks_begin(struct orphans *o)
{
	return *begun(o, PARTS) && !o->jobs->context->stopping &&
	       stale_marks_remove(o->jobs, begun(o, MOUNTS), begun(o, PARTS), on_marks_removed,
				  o) >= 0;
}

/* Goes on with the next name, up again where there is none; frees o at the end. */
static void next(struct orphans *o)
{
	struct context *c = o->jobs->context;
	struct worker *intake;

	for (;;) {
		if (o->levels[o->depth].at < o->levels[o->depth].n && !c->stopping) {
			o->levels[o->depth].at++;
			if (o->depth == MOUNTS) {
				names_add(o, PARTS, "");
				o->depth = PARTS;
				continue;
			}
			if (root_intake(o, &intake) >= 0 &&
			    begin(o, intake, begun(o, o->depth)) >= 0)
				return;
			continue;
		}
		if (o->depth == DIRS && o->n_kept > 0)
			log_orphan(o);
		names_clear(o, o->depth);
		if (o->depth == MOUNTS)
			break;
		o->depth--;
		if (o->depth == PARTS && marks_begin(o))
			return;
	}
	fd_closep(&o->user_fd);
	free(o->known);
	free(o);
	context_flow_ends(c);
}

/* Returns 0, or -ENOMEM. */
static int known_collect(struct orphans *o)
{
	const struct job_stub *s;

	TAILQ_FOREACH(s, &o->jobs->table.in_order, in_order) {
		char *uuid = array_add(&o->known, &o->n_known, sizeof(*o->known));

		if (!uuid)
			return -ENOMEM;
		job_uuid_format(s->uuid, uuid);
	}
	if (o->n_known > 0)
		qsort(o->known, o->n_known, sizeof(*o->known), compare_known);
	return 0;
}

/* Kernel filesystems have no staging directories, nor have those that a user's process serves. */
static bool may_have_staging(const struct mount *mount)
{
	static const char *const without[] = { "proc",        "sysfs",      "cgroup", "cgroup2",
					       "devpts",      "devtmpfs",   "mqueue", "debugfs",
					       "tracefs",     "securityfs", "bpf",    "configfs",
					       "autofs",      "nsfs",       "pstore", "efivarfs",
					       "binfmt_misc", "rpc_pipefs", "fusectl" };

	for (size_t i = 0; i < ELEMENTSOF(without); i++)
		if (strcmp(mount->type, without[i]) == 0)
			return false;
	return !mount_is_users(mount);
}

void recover_orphans(struct jobs *jobs)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	struct orphans *o = calloc(1, sizeof(*o));

	if (!o || !mounts) {
		free(o);
		return;
	}
	*o = (struct orphans){ .jobs = jobs, .user_fd = -1 };
	context_flow_begins(jobs->context);
	/* Unless all known ones are known, none is looked for. */
	for (size_t i = known_collect(o) < 0 ? mounts->n : 0; i < mounts->n; i++)
		if (may_have_staging(&mounts->v[i]))
			names_add(o, MOUNTS, mounts->v[i].target);
	next(o);
}
