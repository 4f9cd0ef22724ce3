/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "staging-area.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/context/log.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/lock-holder.h"

#define IDLE_USEC (10 * USEC_PER_SEC)

struct staging_area_waiter {
	struct staging_area_waiter *next;
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
	fd_closep(&area->lock_fd);
	free(area->lock_path);
	submitter_unref(area->submitter);
	free(area->mount);
	free(area);
	return NULL;
}

int staging_area_get(struct staging_area **ret, struct submitters *submitters,
		     struct submitter *submitter, const char *mount, dev_t dev)
{
	struct staging_area *area;

	LIST_FOREACH(area, &submitters->areas, link)
	if (area->submitter->id.uid == submitter->id.uid && strcmp(area->mount, mount) == 0) {
		area->dev = dev ? dev : area->dev;
		*ret = staging_area_ref(area);
		return 0;
	}
	area = calloc(1, sizeof(*area));
	if (!area)
		return -ENOMEM;
	area->staging_fd = area->lock_fd = -1;
	area->refs = 1;
	area->submitters = submitters;
	area->dev = dev;
	area->mount = strdup(mount);
	if (!area->mount) {
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
	if (area->refs > 0 || area->staging_fd >= 0 || area->making)
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

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct staging_area *area = userdata;

	(void)source;
	(void)usec;
	if (area->users > 0)
		return 0; /* staging_area_release will set it again */
	area->deleter = worker_free(area->deleter);
	area->deleter_submitter = submitter_unref(area->deleter_submitter);
	fd_closep(&area->staging_fd);
	area->ours = false;
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
	if (--area->users == 0 && area->staging_fd >= 0) {
		if (area->idle) {
			(void)sd_event_source_set_time_relative(area->idle, IDLE_USEC);
			(void)sd_event_source_set_enabled(area->idle, SD_EVENT_ONESHOT);
		} else if (sd_event_add_time_relative(area->submitters->context->event, &area->idle,
						      CLOCK_MONOTONIC, IDLE_USEC, USEC_PER_SEC,
						      on_idle, area) >= 0) {
			(void)sd_event_source_set_description(area->idle, "staging-idle");
		}
	}
	staging_area_unref(area);
}

/* ---- the staging directory -------------------------------------------------------------------
 */

static void open_next(struct staging_area *area);

static bool is_open(const struct staging_area *area, bool make)
{
	return area->staging_fd >= 0 && (area->ours || !make);
}

static void answer_waiter(struct staging_area *area, int r, int fd)
{
	struct staging_area_waiter *w = area->waiters;

	area->making = false;
	/* One that is there may be in use. */
	if (r >= 0 && area->staging_fd >= 0)
		(void)close(fd);
	else if (r >= 0)
		area->staging_fd = fd;
	if (r >= 0) {
		area->ours = w->make;
		area->absent = false;
	}
	/* Waiters are answered in order; one that would have it made is not answered by the
	 * failure of one that would not. */
	area->waiters = w->next;
	staging_area_use(area);
	w->done(r < 0 ? r : 0, area->staging_fd, w->userdata);
	free(w);
	open_next(area);
	staging_area_release(area);
}

filesystem_t staging_area_filesystem(const struct staging_area *area)
{
	const struct mounts *mounts = context_mounts(area->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;

	return mount && strcmp(mount->target, area->mount) == 0 ? mount->dev : area->dev;
}

/* ---- another daemon's ---- */

static bool is_logged(const struct staging_area *area)
{
	const struct busy_mount *b;

	LIST_FOREACH(b, &area->submitters->busy_mounts, link)
	if (strcmp(b->mount, area->mount) == 0)
		return true;
	return false;
}

static int remember_logged(const struct staging_area *area)
{
	struct busy_mount *b = malloc(sizeof(*b) + strlen(area->mount) + 1);

	if (!b)
		return -ENOMEM;
	memcpy(b->mount, area->mount, strlen(area->mount) + 1);
	LIST_INSERT_HEAD(&area->submitters->busy_mounts, b, link);
	return 0;
}

static void on_holder(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct staging_area *area = userdata;
	_cleanup_free_ char *mount = escape_name(area->mount);
	char holder[160];

	(void)id;
	if (is_logged(area) || remember_logged(area) < 0)
		return;
	holder_describe(name, holder, sizeof(holder));
	log_line(LOG_WARNING,
		 "%s: another reclaimd (%s) has the staging directories there, so jobs delete in "
		 "place. If that one is gone for good, remove %s/.reclaim/" HOLDER_DIR,
		 mount ? mount : "?", holder, mount ? mount : "?");
}

static void on_holder_listed(int r, void *userdata)
{
	struct staging_area *area = userdata;

	(void)r;
	fd_closep(&area->lock_fd);
	answer_waiter(area, -EBUSY, -1);
}

static void on_lock(int r, int fd, void *userdata)
{
	struct staging_area *area = userdata;
	struct worker *root;

	area->lock_fd = fd;
	if (r >= 0)
		r = submitter_intake(area->submitters->root, staging_area_filesystem(area), &root);
	if (r >= 0)
		r = worker_list_staging(root, fd, NULL, on_holder, on_holder_listed, area);
	if (r < 0)
		on_holder_listed(r, area);
}

/* Logs once which daemon has the mount. */
static int find_holder(struct staging_area *area)
{
	struct worker *root;
	int r = submitter_intake(area->submitters->root, staging_area_filesystem(area), &root);

	free(area->lock_path);
	if (asprintf(&area->lock_path, "%s/.reclaim/" HOLDER_DIR,
		     strcmp(area->mount, "/") == 0 ? "" : area->mount) < 0) {
		area->lock_path = NULL;
		return -ENOMEM;
	}
	return r < 0 ? r : worker_open_dir(root, -1, area->lock_path, NULL, on_lock, area);
}

static void on_made(int r, int fd, void *userdata)
{
	struct staging_area *area = userdata;

	if (r != -EBUSY || is_logged(area) || find_holder(area) < 0)
		answer_waiter(area, r, fd);
}

static int mount_id(struct staging_area *area, uint64_t *ret)
{
	const struct mounts *mounts = context_mounts(area->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;

	/* Not a mount point just now: what is at that path belongs to another filesystem. */
	if (!mount || strcmp(mount->target, area->mount) != 0)
		return -ENODEV;
	/* All users' staging directories are made by one process, which no user may keep waiting.
	 */
	if (mount_is_users(mount))
		return -EOPNOTSUPP;
	*ret = mount->id;
	return 0;
}

static int request_open(struct staging_area *area, const struct staging_area_waiter *w)
{
	struct worker *worker;
	uint64_t id;
	int r = mount_id(area, &id);

	if (r < 0)
		return r;
	r = submitter_intake(area->submitters->root, staging_area_filesystem(area), &worker);
	if (r < 0)
		return r;
	return worker_make_staging(worker,
				   &(struct make_staging_message){
					   area->mount, id, area->submitter->id.uid,
					   area->submitter->id.gid, w->make,
					   w->make ? area->submitters->context->holder : NULL },
				   on_made, area);
}

static void open_next(struct staging_area *area)
{
	struct staging_area_waiter *w;
	int r;

	while ((w = area->waiters) && !area->making) {
		bool there = is_open(area, w->make);

		r = there ? 0 : request_open(area, w);
		if (r >= 0 && !there) {
			area->making = true;
			return;
		}
		area->waiters = w->next;
		w->done(r, area->staging_fd, w->userdata);
		free(w);
	}
}

void staging_area_open(struct staging_area *area, bool make, staging_area_opened_t done,
		       void *userdata)
{
	struct staging_area_waiter *w, **last;

	if (is_open(area, make)) {
		done(0, area->staging_fd, userdata);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		done(-ENOMEM, -1, userdata);
		return;
	}
	*w = (struct staging_area_waiter){ .make = make, .done = done, .userdata = userdata };
	for (last = &area->waiters; *last; last = &(*last)->next)
		;
	*last = w;
	staging_area_use(area);
	open_next(area);
	staging_area_release(area);
}

/* ---- workers ----------------------------------------------------------------------------------
 */

static void deleter_gone(struct worker *w, const char *how, void *userdata)
{
	struct staging_area *area = userdata;

	log_user(LOG_WARNING, area->submitter->id.uid, SD_ID128_NULL,
		 "The process that deletes for uid %u on %s has ended: %s",
		 (unsigned)area->submitter->id.uid, area->mount, how);
	area->deleter = worker_free(w);
}

static void other_gone(struct worker *w, const char *how, void *userdata)
{
	struct staging_area *area = userdata;

	(void)w; /* freed by the part that has it, whose request failed with -EPIPE */
	log_user(LOG_WARNING, area->submitter->id.uid, SD_ID128_NULL,
		 "A process that deletes for uid %u has ended: %s",
		 (unsigned)area->submitter->id.uid, how);
}

static int deleter_new(struct worker **ret, struct staging_area *area, struct submitter *submitter,
		       int landlock_fd,
		       void (*gone)(struct worker *w, const char *how, void *userdata))
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
		.gone = gone,
		.userdata = area,
	};

	if (area->submitters->context->ended)
		return -ECANCELED;
	return submitter_worker_new(submitter, staging_area_filesystem(area), &options, ret);
}

int staging_area_deleter(struct staging_area *area, struct submitter *submitter,
			 struct worker **ret)
{
	int r;

	if (area->deleter && (area->stale || area->deleter_submitter != submitter)) {
		area->deleter = worker_free(area->deleter);
		area->deleter_submitter = submitter_unref(area->deleter_submitter);
	}
	area->stale = false;
	if (!area->deleter) {
		r = deleter_new(&area->deleter, area, submitter, area->staging_fd, deleter_gone);
		if (r < 0)
			return r;
		submitter_unref(area->deleter_submitter);
		area->deleter_submitter = submitter_ref(submitter);
	}
	*ret = area->deleter;
	return 0;
}

void staging_area_renew(struct staging_area *area)
{
	area->stale = area->deleter;
}

void staging_area_detach_deleter(struct staging_area *area)
{
	area->deleter = NULL;
	area->deleter_submitter = submitter_unref(area->deleter_submitter);
}

int staging_area_deleter_for(struct staging_area *area, struct submitter *submitter,
			     int landlock_fd, struct worker **ret)
{
	return deleter_new(ret, area, submitter, landlock_fd, other_gone);
}

void staging_areas_renew(struct submitters *s)
{
	struct staging_area *area;

	LIST_FOREACH(area, &s->areas, link)
	staging_area_renew(area);
}

void staging_areas_done(struct submitters *s)
{
	struct busy_mount *b;
	struct staging_area *area;

	while ((area = LIST_FIRST(&s->areas))) {
		LIST_REMOVE(area, link);
		staging_area_free(area);
	}
	while ((b = LIST_FIRST(&s->busy_mounts))) {
		LIST_REMOVE(b, link);
		free(b);
	}
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

static void tidy_try(struct tidy *t);

static void tidy_end(struct tidy *t)
{
	struct context *c = t->area->submitters->context;

	staging_area_release(t->area);
	submitter_unref(t->submitter);
	free(t);
	context_flow_ends(c);
}

static bool worker_died(int r)
{
	return r == -EPIPE || r == -ECANCELED;
}

static void tidy_retry(struct tidy *t, int r)
{
	if (worker_died(r) && t->tries < TIDY_TRIES && !t->area->submitters->context->stopping)
		tidy_try(t);
	else
		tidy_end(t);
}

static void on_removed(int r, void *userdata)
{
	struct tidy *t = userdata;

	if (r < 0 && r != -ENOENT && r != -ENOTEMPTY && !worker_died(r))
		log_user(LOG_WARNING, t->submitter->id.uid, SD_ID128_NULL,
			 "%s/.reclaim/%u/%s could not be removed: %s", t->area->mount,
			 (unsigned)t->submitter->id.uid, t->job_dir, strerror(-r));
	tidy_retry(t, r);
}

static void on_tidy_staging(int r, int fd, void *userdata)
{
	struct tidy *t = userdata;
	struct worker *intake;

	if (r >= 0)
		r = submitter_intake(t->submitter, staging_area_filesystem(t->area), &intake);
	if (r >= 0)
		r = worker_remove_staging(intake, fd, t->job_dir, on_removed, t);
	if (r < 0)
		tidy_retry(t, r);
}

static void tidy_try(struct tidy *t)
{
	t->tries++;
	staging_area_open(t->area, /* make= */ false, on_tidy_staging, t);
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
	tidy_try(t);
}
