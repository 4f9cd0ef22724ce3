/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "staging-area.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "base/array.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/lock-holder.h"
#include "base/staging-dir.h"

#define IDLE_USEC USEC_PER_SEC

/* Its staging directory is being opened, for one that waits for it. */
struct staging_opening {
	struct staging_area *area;
	uint64_t mnt_id; /* of the mount that the worker is asked for */
	bool make;
	staging_area_opened_t done;
	void *userdata;
};

static struct staging_area *staging_area_free(struct staging_area *area)
{
	if (!area)
		return NULL;
	worker_free(area->deleter);
	submitter_unref(area->deleter_submitter);
	sd_event_source_disable_unref(area->idle);
	sd_event_source_disable_unref(area->flush.timer);
	fd_closep(&area->staging_fd);
	submitter_unref(area->submitter);
	free(area->mount);
	free(area->host);
	free(area->dir);
	free(area);
	return NULL;
}

void staging_host(const struct context *c, const char *mount, char ret[FLEET_NAME_SIZE])
{
	const struct config *config = c->config;

	ret[0] = '\0';
	for (size_t i = 0; config->fleet_database && i < config->n_fleet_filesystems; i++)
		if (strcmp(config->fleet_filesystems[i].path, mount) == 0 &&
		    config_fleet_name(config, ret) < 0)
			ret[0] = '\0';
}

int staging_area_get(struct staging_area **ret, struct submitters *submitters,
		     struct submitter *submitter, const char *mount, const char *host, dev_t dev)
{
	struct staging_area *area;

	LIST_FOREACH(area, &submitters->areas, link)
		if (area->submitter->id.uid == submitter->id.uid &&
		    strcmp(area->mount, mount) == 0 && strcmp(area->host, host) == 0) {
			area->dev = dev ? dev : area->dev;
			*ret = staging_area_ref(area);
			return 0;
		}
	area = calloc(1, sizeof(*area));
	if (!area)
		return -ENOMEM;
	area->staging_fd = -1;
	area->refs = 1;
	area->submitters = submitters;
	area->dev = dev;
	area->mount = strdup(mount);
	area->host = strdup(host);
	area->dir = staging_dir_path(mount, host);
	if (!area->mount || !area->host || !area->dir) {
		staging_area_free(area);
		return -ENOMEM;
	}
	area->submitter = submitter_ref(submitter);
	for (size_t i = 0; i < PRIORITIES; i++)
		TAILQ_INIT(&area->queues[i]);
	STAILQ_INIT(&area->flush.waiting);
	STAILQ_INIT(&area->flush.covered);
	LIST_INSERT_HEAD(&submitters->areas, area, link);
	*ret = area;
	return 0;
}

struct staging_area *staging_area_ref(struct staging_area *area)
{
	area->refs++;
	return area;
}

static void staging_area_drop_if_unused(struct staging_area *area)
{
	if (area->refs > 0 || area->staging_fd >= 0)
		return;
	LIST_REMOVE(area, link);
	staging_area_free(area);
}

struct staging_area *staging_area_unref(struct staging_area *area)
{
	if (area) {
		area->refs--;
		staging_area_drop_if_unused(area);
	}
	return NULL;
}

/* Nothing of the filesystem is open for it any more. */
static void staging_area_close(struct staging_area *area)
{
	area->deleter = worker_free(area->deleter);
	area->deleter_submitter = submitter_unref(area->deleter_submitter);
	fd_closep(&area->staging_fd);
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct staging_area *area = userdata;

	(void)source;
	(void)usec;
	if (area->users > 0)
		return 0; /* staging_area_release will set it again */
	staging_area_close(area);
	staging_area_drop_if_unused(area);
	return 0;
}

void staging_area_use(struct staging_area *area)
{
	area->users++;
	staging_area_ref(area);
}

void staging_area_release(struct staging_area *area)
{
	if (--area->users == 0 && area->staging_fd >= 0)
		(void)timer_after(area->submitters->context->event, &area->idle, IDLE_USEC,
				  USEC_PER_SEC / 4, on_idle, area, "staging-idle");
	staging_area_unref(area);
}

/* ---- the staging directory -------------------------------------------------------------------
 */

static bool is_same_dir(int a, int b)
{
	struct identity x, y;

	return fd_whereabouts(a, "", 0, &x) >= 0 && fd_whereabouts(b, "", 0, &y) >= 0 &&
	       x.mnt_id == y.mnt_id && x.dev == y.dev && x.ino == y.ino;
}

/* Takes over fd, which has the directory's name now. */
static void directory_set(struct staging_area *area, int fd)
{
	if (area->staging_fd >= 0 && is_same_dir(area->staging_fd, fd)) {
		(void)close(fd);
		return;
	}
	/* The one that was open was removed or renamed. The worker may only delete there. */
	area->stale = area->deleter;
	fd_closep(&area->staging_fd);
	area->staging_fd = fd;
}

static void opened(struct staging_opening *o, int r, int fd)
{
	struct staging_area *area = o->area;

	if (r >= 0) {
		directory_set(area, fd);
		area->absent = false;
	}
	o->done(MIN(r, 0), area->staging_fd, o->userdata);
	free(o);
	staging_area_release(area);
}

/* The mount, if it is one just now: else what is at that path belongs to another filesystem. */
static const struct mount *mount_of(const struct staging_area *area)
{
	const struct mounts *mounts = context_mounts(area->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;

	return mount && strcmp(mount->target, area->mount) == 0 ? mount : NULL;
}

bool staging_area_is_mounted(const struct staging_area *area)
{
	return !*area->mount || mount_of(area);
}

filesystem_t staging_area_filesystem(const struct staging_area *area)
{
	const struct mount *mount = mount_of(area);

	return mount ? mount->dev : area->dev;
}

int staging_area_intake(const struct staging_area *area, struct submitter *submitter,
			struct worker **ret)
{
	return submitter_intake(submitter, staging_area_filesystem(area), ret);
}

/* ---- another daemon's ---- */

static bool is_logged(const struct staging_area *area)
{
	for (char **dir = area->submitters->busy_dirs; dir && *dir; dir++)
		if (strcmp(*dir, area->dir) == 0)
			return true;
	return false;
}

static void on_holder(const char *name, const struct lasting_identity *id, void *userdata)
{
	const struct staging_opening *o = userdata;
	const struct staging_area *area = o->area;
	_cleanup_free_ char *mount = escape_name(area->mount), *dir = escape_name(area->dir);
	char holder[160];

	(void)id;
	if (is_logged(area) || strings_add(&area->submitters->busy_dirs,
					   &area->submitters->n_busy_dirs, strdup(area->dir)) < 0)
		return;
	holder_describe(name, holder, sizeof(holder));
	if (*area->host)
		log_line(LOG_WARNING,
			 "%s: another reclaimd (%s) is called %s in the fleet, too, and has the "
			 "staging areas there, so jobs delete in place. Give this one another "
			 "`fleet: {name: }`; or, if that one is gone for good, remove "
			 "%s/" HOLDER_DIR,
			 mount ? mount : "?", holder, area->host, dir ? dir : "?");
	else
		log_line(LOG_WARNING,
			 "%s: another reclaimd (%s) has the staging areas there, so jobs delete in "
			 "place. If that one is gone for good, remove %s/" HOLDER_DIR,
			 mount ? mount : "?", holder, dir ? dir : "?");
}

static void on_holder_listed(int r, void *userdata)
{
	(void)r;
	opened(userdata, -EBUSY, -1);
}

static void on_lock(int r, int fd, void *userdata)
{
	_cleanup_close_ int lock_fd = fd;
	struct staging_opening *o = userdata;
	struct worker *root;

	if (r >= 0)
		r = staging_area_intake(o->area, o->area->submitters->root, &root);
	if (r >= 0)
		r = worker_list_staging(root, lock_fd, NULL, on_holder, on_holder_listed, o);
	if (r < 0)
		on_holder_listed(r, o);
}

/* Logs once which daemon has the mount. */
static int find_holder(struct staging_opening *o)
{
	struct staging_area *area = o->area;
	_cleanup_free_ char *path = NULL;
	struct worker *root;
	int r = staging_area_intake(area, area->submitters->root, &root);

	if (asprintf(&path, "%s/" HOLDER_DIR, area->dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return r < 0 ? r : worker_open_dir(root, -1, path, NULL, on_lock, o);
}

/* Returns why the directory was not found: r, or that its mount has changed meanwhile. */
static int absence(const struct staging_opening *o, int r)
{
	const struct mount *mount;

	context_mounts_changed(o->area->submitters->context);
	mount = mount_of(o->area);
	if (!mount)
		return -ENODEV;
	return mount->id != o->mnt_id ? -EAGAIN : r;
}

static void on_made(int r, int fd, void *userdata)
{
	struct staging_opening *o = userdata;

	if (r == -EXDEV || r == -ENOENT)
		r = absence(o, r);
	if (r != -EBUSY || is_logged(o->area) || find_holder(o) < 0)
		opened(o, r, fd);
}

const char *staging_area_error(int error)
{
	return error == -ENODEV ? "its filesystem is not mounted" : strerror(-error);
}

static int request_open(struct staging_opening *o)
{
	struct staging_area *area = o->area;
	const struct mount *mount = mount_of(area);
	struct worker *root;
	int r;

	if (!mount)
		return -ENODEV;
	/* All users' staging directories are made by one process, which no user may keep waiting.
	 */
	if (mount_is_users(mount))
		return -EOPNOTSUPP;
	o->mnt_id = mount->id;
	r = staging_area_intake(area, area->submitters->root, &root);
	if (r < 0)
		return r;
	return worker_make_staging(
		root,
		&(struct make_staging_message){ .mount_path = area->mount,
						.mnt_id = o->mnt_id,
						.uid = area->submitter->id.uid,
						.gid = area->submitter->id.gid,
						.make = o->make,
						.uses = true,
						.holder = area->submitters->context->holder,
						.host = *area->host ? area->host : NULL },
		on_made, o);
}

void staging_area_open(struct staging_area *area, bool make, staging_area_opened_t done,
		       void *userdata)
{
	struct staging_opening *o;
	int r;

	if (area->staging_fd >= 0 &&
	    !context_is_mounted(area->submitters->context, area->staging_fd)) {
		if (area->users > 1) {
			done(-EAGAIN, -1, userdata);
			return;
		}
		staging_area_close(area);
	}
	o = malloc(sizeof(*o));
	if (!o) {
		done(-ENOMEM, -1, userdata);
		return;
	}
	*o = (struct staging_opening){
		.area = area, .make = make, .done = done, .userdata = userdata
	};
	staging_area_use(area);
	r = request_open(o);
	if (r < 0)
		opened(o, r, -1);
}

/* ---- workers ----------------------------------------------------------------------------------
 */

static void deleter_gone(struct worker *w, const char *how, void *userdata)
{
	struct staging_area *area = userdata;

	log_user(LOG_WARNING, area->submitter->id.uid, SD_ID128_NULL,
		 "The process that deletes for uid %u on %s has ended: %s",
		 (unsigned)area->submitter->id.uid,
		 *area->mount ? area->mount : "a filesystem that is not mounted here", how);
	/* Any other is freed by the part that has it, whose request failed with -EPIPE. */
	if (area->deleter == w)
		area->deleter = worker_free(w);
}

int staging_area_deleter_for(struct staging_area *area, struct submitter *submitter,
			     int landlock_fd, struct worker **ret)
{
	const struct config *c = area->submitters->context->config;
	struct worker_options options = {
		.program = area->submitters->context->worker_program,
		.role = WORKER_DELETE,
		.credentials = &submitter->id,
		.landlock_fd = landlock_fd,
		.pacers = area->submitters->context->pacers,
		.stall_usec = c->moosefs_snapshot ? c->moosefs_stall_usec : 0,
		.protect = (const char *const *)c->protect,
		.gone = deleter_gone,
		.userdata = area,
	};

	if (area->submitters->context->ended)
		return -ECANCELED;
	return submitter_worker_new(submitter, staging_area_filesystem(area), &options, ret);
}

/* What waits for it is answered here, and may have another one begun in its place. */
static void deleter_end(struct staging_area *area)
{
	struct worker *w = area->deleter;
	struct submitter *submitter = area->deleter_submitter;

	area->deleter = NULL;
	area->deleter_submitter = NULL;
	area->stale = false;
	worker_free(w);
	submitter_unref(submitter);
}

int staging_area_deleter(struct staging_area *area, struct submitter *submitter,
			 struct worker **ret)
{
	int r;

	while (area->deleter && (area->stale || area->deleter_submitter != submitter))
		deleter_end(area);
	if (!area->deleter) {
		r = staging_area_deleter_for(area, submitter, area->staging_fd, &area->deleter);
		if (r < 0)
			return r;
		area->stale = false;
		submitter_unref(area->deleter_submitter);
		area->deleter_submitter = submitter_ref(submitter);
	}
	*ret = area->deleter;
	return 0;
}

void staging_area_detach_deleter(struct staging_area *area)
{
	area->deleter = NULL;
	area->deleter_submitter = submitter_unref(area->deleter_submitter);
}

void staging_areas_renew(struct submitters *s)
{
	struct staging_area *area;

	LIST_FOREACH(area, &s->areas, link)
		area->stale = area->deleter;
}

void staging_areas_done(struct submitters *s)
{
	struct staging_area *area;

	while ((area = LIST_FIRST(&s->areas))) {
		LIST_REMOVE(area, link);
		staging_area_free(area);
	}
	for (char **dir = s->busy_dirs; dir && *dir; dir++)
		free(*dir);
	free(s->busy_dirs);
	s->busy_dirs = NULL;
}

/* ---- what is empty goes -----------------------------------------------------------------------
 */

/* Workers may be killed, and are replaced; what then still is not gone, the next start removes. */
#define TIDY_TRIES 4

struct tidy {
	struct staging_area *area;
	struct submitter *submitter;
	unsigned tries;
	char job_dir[33];
};

static void on_tidy_staging(int r, int fd, void *userdata);

static bool worker_died(int r)
{
	return r == -EPIPE || r == -ECANCELED;
}

static void tidy_done(struct tidy *t, int r)
{
	struct context *c = t->area->submitters->context;

	if (worker_died(r) && ++t->tries < TIDY_TRIES && !c->stopping) {
		staging_area_open(t->area, /* make= */ false, on_tidy_staging, t);
		return;
	}
	staging_area_release(t->area);
	submitter_unref(t->submitter);
	free(t);
	context_flow_ends(c);
}

static void on_removed(int r, void *userdata)
{
	struct tidy *t = userdata;

	if (r < 0 && r != -ENOENT && r != -ENOTEMPTY && !worker_died(r))
		log_user(LOG_WARNING, t->submitter->id.uid, SD_ID128_NULL,
			 "%s/%u/%s could not be removed: %s", t->area->dir,
			 (unsigned)t->submitter->id.uid, t->job_dir, strerror(-r));
	tidy_done(t, r);
}

static void on_tidy_staging(int r, int fd, void *userdata)
{
	struct tidy *t = userdata;
	struct worker *intake;

	if (r >= 0)
		r = staging_area_intake(t->area, t->submitter, &intake);
	if (r >= 0)
		r = worker_remove_staging(intake, fd, t->job_dir, on_removed, t);
	if (r < 0)
		tidy_done(t, r);
}

void staging_tidy(struct staging_area *area, struct submitter *submitter, const char *job_dir)
{
	struct tidy *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->area = area;
	t->submitter = submitter_ref(submitter);
	(void)snprintf(t->job_dir, sizeof(t->job_dir), "%s", job_dir);
	staging_area_use(area);
	context_flow_begins(area->submitters->context);
	staging_area_open(area, /* make= */ false, on_tidy_staging, t);
}
