/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Job directories in staging that are of no unfinished job: kept and told of, or removed if they
 * are empty. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon/context/log.h"
#include "job-recover.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/units.h"

/* Root's worker may die on the way and is replaced: so often in one round. */
#define DEATHS_MOST 8

/* A user may put any number of directories there, of any name: so many are named. */
#define SHOWN_MOST 3

/* One mount after the other: <mount>/.reclaim, each user's directory in it, each job's in that. */
struct orphans {
	struct jobs *jobs;
	unsigned deaths;
	char **mounts;
	size_t n, at;
	char **users; /* of the mount: uids in words */
	size_t n_users, at_user;
	int reclaim_fd;
	char **dirs; /* of the user: job directories that are no unfinished job's */
	size_t n_jobs, at_job, n_kept;
	char shown[SHOWN_MOST * (NAME_MAX + 1)]; /* of those that are kept */
	int user_fd;
	char (*known)[33]; /* of unfinished jobs, sorted */
	size_t n_known;
};

static void names_clear(char ***v, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		free((*v)[i]);
	free(*v);
	*v = NULL;
	*n = 0;
}

static void names_add(char ***v, size_t *n, const char *name)
{
	char **bigger = reallocarray(*v, *n + 1, sizeof(*bigger));

	if (!bigger)
		return; /* it is told of at another start */
	*v = bigger;
	bigger[*n] = strdup(name);
	if (bigger[*n])
		++*n;
}

static void orphans_end(struct orphans *o)
{
	struct jobs *jobs = o->jobs;

	names_clear(&o->mounts, &o->n);
	names_clear(&o->users, &o->n_users);
	names_clear(&o->dirs, &o->n_jobs);
	fd_closep(&o->reclaim_fd);
	fd_closep(&o->user_fd);
	free(o->known);
	free(o);
	context_flow_ends(jobs->context);
}

static void next_mount(struct orphans *o);
static void next_user(struct orphans *o);
static void next_job(struct orphans *o);

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
	_cleanup_free_ char *mount = escape_name(o->mounts[o->at - 1]);
	const char *user = o->users[o->at_user - 1];
	char n[COUNTED_SIZE], more[48] = "";

	if (o->n_kept > SHOWN_MOST)
		(void)snprintf(more, sizeof(more), " and %zu more", o->n_kept - SHOWN_MOST);
	log_user(LOG_WARNING, (uid_t)strtoul(user, NULL, 10), MESSAGE_STAGING_ORPHAN,
		 "%s/.reclaim/%s has %s of no job that is on record (%s%s): kept; look at what is "
		 "in "
		 "there, and move it to its place, or delete it",
		 mount ? mount : "?", user,
		 counted_format(n, sizeof(n), o->n_kept, "directory", "directories"), o->shown,
		 more);
	o->n_kept = 0;
	o->shown[0] = '\0';
}

static void on_orphan_removed(int r, void *userdata)
{
	struct orphans *o = userdata;
	const char *name;

	if (once_more(o, r)) {
		next_job(o);
		return;
	}
	name = o->dirs[o->at_job++];
	/* An empty one is what was left of a job that ended just before the daemon did. */
	if (r == -ENOTEMPTY || r == -EEXIST) {
		o->jobs->orphans++;
		tell_daemon_changed(o->jobs->context, "Orphans");
		show(o, name);
	}
	next_job(o);
}

static void next_job(struct orphans *o)
{
	struct worker *intake;

	while (o->at_job < o->n_jobs && !o->jobs->context->stopping) {
		if (submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, &intake) >= 0 &&
		    worker_remove_staging(intake, o->user_fd, o->dirs[o->at_job], on_orphan_removed,
					  o) >= 0)
			return;
		o->at_job++;
	}
	if (o->n_kept > 0)
		log_orphan(o);
	names_clear(&o->dirs, &o->n_jobs);
	fd_closep(&o->user_fd);
	next_user(o);
}

/* Does it belong to a job that was submitted since the known ones were collected? Jobs are in the
 * table before their directories are made. */
static bool is_of_new_job(const struct orphans *o, const char *name)
{
	const struct job *j;

	TAILQ_FOREACH_REVERSE(j, &o->jobs->table.in_order, job_list, in_order)
	if (strcmp(j->uuid_text, name) == 0)
		return true;
	return false;
}

static void on_job_dir(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct orphans *o = userdata;

	(void)id;
	if (o->n_known > 0 && bsearch(name, o->known, o->n_known, sizeof(*o->known), compare_known))
		return;
	if (!is_of_new_job(o, name))
		names_add(&o->dirs, &o->n_jobs, name);
}

static void on_jobs_listed(int r, void *userdata)
{
	struct orphans *o = userdata;

	if (once_more(o, r)) {
		names_clear(&o->dirs, &o->n_jobs);
		o->at_user--;
	}
	/* What was listed is dealt with. */
	o->at_job = 0;
	next_job(o);
}

static void on_user_dir(int r, int fd, void *userdata)
{
	struct orphans *o = userdata;
	struct worker *intake;

	if (r >= 0) {
		o->user_fd = fd;
		r = submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, &intake);
	}
	if (r >= 0)
		r = worker_list_staging(intake, fd, NULL, on_job_dir, on_jobs_listed, o);
	if (r < 0)
		on_jobs_listed(r, o);
}

static void next_user(struct orphans *o)
{
	struct worker *intake;

	while (o->at_user < o->n_users && !o->jobs->context->stopping) {
		uid_t uid = (uid_t)strtoul(o->users[o->at_user++], NULL, 10);

		/* Checked as closely as where something is to be put into it: the owner of the root
		 * of the mount can call anything .reclaim, and root is about to remove there. */
		if (submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, &intake) >= 0 &&
		    worker_make_staging(
			    intake,
			    &(struct make_staging_message){ .mount_path = o->mounts[o->at - 1],
							    .uid = uid,
							    .holder = o->jobs->context->holder },
			    on_user_dir, o) >= 0)
			return;
	}
	names_clear(&o->users, &o->n_users);
	fd_closep(&o->reclaim_fd);
	next_mount(o);
}

static void on_user(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct orphans *o = userdata;

	(void)id;
	if (strspn(name, "0123456789") == strlen(name))
		names_add(&o->users, &o->n_users, name);
}

static void on_users_listed(int r, void *userdata)
{
	struct orphans *o = userdata;

	if (once_more(o, r)) {
		names_clear(&o->users, &o->n_users);
		o->at--;
	}
	o->at_user = 0;
	next_user(o);
}

static void on_reclaim_dir(int r, int fd, void *userdata)
{
	struct orphans *o = userdata;
	struct worker *intake;

	if (r >= 0) {
		o->reclaim_fd = fd;
		r = submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, &intake);
	}
	if (r >= 0)
		r = worker_list_staging(intake, fd, NULL, on_user, on_users_listed, o);
	if (r < 0)
		on_users_listed(r, o);
}

static void next_mount(struct orphans *o)
{
	struct worker *intake;
	char path[PATH_MAX];

	while (o->at < o->n && !o->jobs->context->stopping) {
		const char *mount = o->mounts[o->at++];

		(void)snprintf(path, sizeof(path), "%s/.reclaim",
			       strcmp(mount, "/") == 0 ? "" : mount);
		if (submitter_intake(o->jobs->submitters->root, FILESYSTEM_MANY, &intake) >= 0 &&
		    worker_open_dir(intake, -1, path, NULL, on_reclaim_dir, o) >= 0)
			return;
	}
	orphans_end(o);
}

static int known_collect(struct orphans *o)
{
	const struct job *j;

	if (o->jobs->table.n == 0)
		return 0;
	o->known = calloc(o->jobs->table.n, sizeof(*o->known));
	if (!o->known)
		return -ENOMEM;
	TAILQ_FOREACH(j, &o->jobs->table.in_order, in_order)
	memcpy(o->known[o->n_known++], j->uuid_text, sizeof(*o->known));
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
	*o = (struct orphans){ .jobs = jobs, .reclaim_fd = -1, .user_fd = -1 };
	context_flow_begins(jobs->context);
	for (size_t i = 0; i < mounts->n; i++)
		if (may_have_staging(&mounts->v[i]))
			names_add(&o->mounts, &o->n, mounts->v[i].target);
	if (known_collect(o) < 0)
		orphans_end(o);
	else
		next_mount(o);
}
