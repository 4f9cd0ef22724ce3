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

struct place_waiter {
	struct place_waiter *next;
	bool make;
	place_staging_t done;
	void *userdata;
};

static struct place *place_free(struct place *p)
{
	if (!p)
		return NULL;
	worker_free(p->deleter);
	owner_unref(p->deleter_owner);
	sd_event_source_disable_unref(p->idle);
	sd_event_source_disable_unref(p->flush.timer);
	fd_closep(&p->staging_fd);
	fd_closep(&p->lock_fd);
	free(p->lock_path);
	owner_unref(p->owner);
	free(p->mount);
	free(p);
	return NULL;
}

int place_get(struct place **ret, struct submitters *submitters, struct owner *o, const char *mount,
	      dev_t dev)
{
	struct place *p;

	LIST_FOREACH(p, &submitters->places, link)
	if (p->owner->id.uid == o->id.uid && strcmp(p->mount, mount) == 0) {
		p->dev = dev ? dev : p->dev;
		*ret = place_ref(p);
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->staging_fd = p->lock_fd = -1;
	p->refs = 1;
	p->submitters = submitters;
	p->dev = dev;
	p->mount = strdup(mount);
	if (!p->mount) {
		place_free(p);
		return -ENOMEM;
	}
	p->owner = owner_ref(o);
	for (size_t i = 0; i < PRIORITIES; i++)
		TAILQ_INIT(&p->queues[i]);
	STAILQ_INIT(&p->flush.waiting);
	STAILQ_INIT(&p->flush.covered);
	LIST_INSERT_HEAD(&submitters->places, p, link);
	*ret = p;
	return 0;
}

struct place *place_ref(struct place *p)
{
	p->refs++;
	return p;
}

static void place_drop_if_unused(struct place *p)
{
	if (p->refs > 0 || p->staging_fd >= 0 || p->making)
		return;
	LIST_REMOVE(p, link);
	place_free(p);
}

struct place *place_unref(struct place *p)
{
	if (p) {
		p->refs--;
		place_drop_if_unused(p);
	}
	return NULL;
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct place *p = userdata;

	(void)source;
	(void)usec;
	if (p->users > 0)
		return 0; /* place_rest will set it again */
	p->deleter = worker_free(p->deleter);
	p->deleter_owner = owner_unref(p->deleter_owner);
	fd_closep(&p->staging_fd);
	p->ours = false;
	place_drop_if_unused(p);
	return 0;
}

void place_use(struct place *p)
{
	p->users++;
	place_ref(p);
}

void place_rest(struct place *p)
{
	if (--p->users == 0 && p->staging_fd >= 0) {
		if (p->idle) {
			(void)sd_event_source_set_time_relative(p->idle, IDLE_USEC);
			(void)sd_event_source_set_enabled(p->idle, SD_EVENT_ONESHOT);
		} else if (sd_event_add_time_relative(p->submitters->context->event, &p->idle,
						      CLOCK_MONOTONIC, IDLE_USEC, USEC_PER_SEC,
						      on_idle, p) >= 0) {
			(void)sd_event_source_set_description(p->idle, "place-idle");
		}
	}
	place_unref(p);
}

/* ---- the staging directory -------------------------------------------------------------------
 */

static void ask_next(struct place *p);

static bool is_there(const struct place *p, bool make)
{
	return p->staging_fd >= 0 && (p->ours || !make);
}

static void made(struct place *p, int r, int fd)
{
	struct place_waiter *w = p->waiters;

	p->making = false;
	/* One that is there may be in use. */
	if (r >= 0 && p->staging_fd >= 0)
		(void)close(fd);
	else if (r >= 0)
		p->staging_fd = fd;
	if (r >= 0) {
		p->ours = w->make;
		p->absent = false;
	}
	/* Whoever waited is answered in order; one who would have it made is not answered by the
	 * failure of one who would not. */
	p->waiters = w->next;
	place_use(p);
	w->done(r < 0 ? r : 0, p->staging_fd, w->userdata);
	free(w);
	ask_next(p);
	place_rest(p);
}

filesystem_t place_filesystem(const struct place *p)
{
	const struct mounts *mounts = context_mounts(p->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, p->mount) : NULL;

	return mount && strcmp(mount->target, p->mount) == 0 ? mount->dev : p->dev;
}

/* ---- another daemon's ---- */

static bool is_told(const struct place *p)
{
	const struct busy_mount *b;

	LIST_FOREACH(b, &p->submitters->busy_mounts, link)
	if (strcmp(b->mount, p->mount) == 0)
		return true;
	return false;
}

static int tell_no_more(const struct place *p)
{
	struct busy_mount *b = malloc(sizeof(*b) + strlen(p->mount) + 1);

	if (!b)
		return -ENOMEM;
	memcpy(b->mount, p->mount, strlen(p->mount) + 1);
	LIST_INSERT_HEAD(&p->submitters->busy_mounts, b, link);
	return 0;
}

static void on_holder(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct place *p = userdata;
	_cleanup_free_ char *mount = escape_name(p->mount);
	char who[160];

	(void)id;
	if (is_told(p) || tell_no_more(p) < 0)
		return;
	holder_describe(name, who, sizeof(who));
	log_line(LOG_WARNING,
		 "%s: another reclaimd (%s) has the staging directories there, so jobs delete in "
		 "place. If that one is gone for good, remove %s/.reclaim/" HOLDER_DIR,
		 mount ? mount : "?", who, mount ? mount : "?");
}

static void on_holder_listed(int r, void *userdata)
{
	struct place *p = userdata;

	(void)r;
	fd_closep(&p->lock_fd);
	made(p, -EBUSY, -1);
}

static void on_lock(int r, int fd, void *userdata)
{
	struct place *p = userdata;
	struct worker *root;

	p->lock_fd = fd;
	if (r >= 0)
		r = owner_intake(p->submitters->root, place_filesystem(p), &root);
	if (r >= 0)
		r = worker_list_staging(root, fd, NULL, on_holder, on_holder_listed, p);
	if (r < 0)
		on_holder_listed(r, p);
}

/* Says once whose the mount is. */
static int ask_holder(struct place *p)
{
	struct worker *root;
	int r = owner_intake(p->submitters->root, place_filesystem(p), &root);

	free(p->lock_path);
	if (asprintf(&p->lock_path, "%s/.reclaim/" HOLDER_DIR,
		     strcmp(p->mount, "/") == 0 ? "" : p->mount) < 0) {
		p->lock_path = NULL;
		return -ENOMEM;
	}
	return r < 0 ? r : worker_open_dir(root, -1, p->lock_path, NULL, on_lock, p);
}

static void on_made(int r, int fd, void *userdata)
{
	struct place *p = userdata;

	if (r != -EBUSY || is_told(p) || ask_holder(p) < 0)
		made(p, r, fd);
}

static int mount_id(struct place *p, uint64_t *ret)
{
	const struct mounts *mounts = context_mounts(p->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, p->mount) : NULL;

	/* Not a mount point just now: what is at that path belongs to another filesystem. */
	if (!mount || strcmp(mount->target, p->mount) != 0)
		return -ENODEV;
	/* Everybody's staging directories are made by one process, which nobody may keep waiting.
	 */
	if (mount_is_users(mount))
		return -EOPNOTSUPP;
	*ret = mount->id;
	return 0;
}

static int ask(struct place *p, const struct place_waiter *w)
{
	struct worker *worker;
	uint64_t id;
	int r = mount_id(p, &id);

	if (r < 0)
		return r;
	r = owner_intake(p->submitters->root, place_filesystem(p), &worker);
	if (r < 0)
		return r;
	return worker_make_staging(worker, p->mount, id, p->owner->id.uid, p->owner->id.gid,
				   w->make, w->make ? p->submitters->context->holder : NULL,
				   on_made, p);
}

static void ask_next(struct place *p)
{
	struct place_waiter *w;
	int r;

	while ((w = p->waiters) && !p->making) {
		bool there = is_there(p, w->make);

		r = there ? 0 : ask(p, w);
		if (r >= 0 && !there) {
			p->making = true;
			return;
		}
		p->waiters = w->next;
		w->done(r, p->staging_fd, w->userdata);
		free(w);
	}
}

void place_staging(struct place *p, bool make, place_staging_t done, void *userdata)
{
	struct place_waiter *w, **last;

	if (is_there(p, make)) {
		done(0, p->staging_fd, userdata);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		done(-ENOMEM, -1, userdata);
		return;
	}
	*w = (struct place_waiter){ .make = make, .done = done, .userdata = userdata };
	for (last = &p->waiters; *last; last = &(*last)->next)
		;
	*last = w;
	place_use(p);
	ask_next(p);
	place_rest(p);
}

/* ---- workers ----------------------------------------------------------------------------------
 */

static void deleter_gone(struct worker *w, const char *how, void *userdata)
{
	struct place *p = userdata;

	log_user(LOG_WARNING, p->owner->id.uid, SD_ID128_NULL,
		 "The process that deletes for uid %u on %s has ended: %s",
		 (unsigned)p->owner->id.uid, p->mount, how);
	p->deleter = worker_free(w);
}

static void other_gone(struct worker *w, const char *how, void *userdata)
{
	struct place *p = userdata;

	(void)w; /* freed by whose it is, who has been answered -EPIPE */
	log_user(LOG_WARNING, p->owner->id.uid, SD_ID128_NULL,
		 "A process that deletes for uid %u has ended: %s", (unsigned)p->owner->id.uid,
		 how);
}

static int deleter_new(struct worker **ret, struct place *p, struct owner *o, int landlock_fd,
		       void (*gone)(struct worker *w, const char *how, void *userdata))
{
	const struct config *c = p->submitters->context->config;
	struct worker_options options = {
		.program = p->submitters->context->worker_program,
		.role = WORKER_DELETE,
		.submitter = &o->id,
		.landlock_fd = landlock_fd,
		.pacers = p->submitters->context->pacers,
		.stall_usec = c->moosefs_snapshot ? c->moosefs_stall_usec : 0,
		.protect = (const char *const *)c->protect,
		.gone = gone,
		.userdata = p,
	};

	if (p->submitters->context->ended)
		return -ECANCELED;
	return owner_worker_new(o, place_filesystem(p), &options, ret);
}

int place_deleter(struct place *p, struct owner *o, struct worker **ret)
{
	int r;

	if (p->deleter && (p->stale || p->deleter_owner != o)) {
		p->deleter = worker_free(p->deleter);
		p->deleter_owner = owner_unref(p->deleter_owner);
	}
	p->stale = false;
	if (!p->deleter) {
		r = deleter_new(&p->deleter, p, o, p->staging_fd, deleter_gone);
		if (r < 0)
			return r;
		owner_unref(p->deleter_owner);
		p->deleter_owner = owner_ref(o);
	}
	*ret = p->deleter;
	return 0;
}

void place_renew(struct place *p)
{
	p->stale = p->deleter;
}

void place_part(struct place *p)
{
	p->deleter = NULL;
	p->deleter_owner = owner_unref(p->deleter_owner);
}

int place_deleter_for(struct place *p, struct owner *o, int landlock_fd, struct worker **ret)
{
	return deleter_new(ret, p, o, landlock_fd, other_gone);
}

void places_renew(struct submitters *s)
{
	struct place *p;

	LIST_FOREACH(p, &s->places, link)
	place_renew(p);
}

void places_done(struct submitters *s)
{
	struct busy_mount *b;
	struct place *p;

	while ((p = LIST_FIRST(&s->places))) {
		LIST_REMOVE(p, link);
		place_free(p);
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
	struct place *p;
	struct owner *o;
	unsigned tries;
	char job_dir[33];
};

static void tidy_try(struct tidy *t);

static void tidy_end(struct tidy *t)
{
	struct context *c = t->p->submitters->context;

	place_rest(t->p);
	owner_unref(t->o);
	free(t);
	context_flow_ends(c);
}

static bool died(int r)
{
	return r == -EPIPE || r == -ECANCELED;
}

static void tidy_again(struct tidy *t, int r)
{
	if (died(r) && t->tries < TIDY_TRIES && !t->p->submitters->context->stopping)
		tidy_try(t);
	else
		tidy_end(t);
}

static void on_removed(int r, void *userdata)
{
	struct tidy *t = userdata;

	if (r < 0 && r != -ENOENT && r != -ENOTEMPTY && !died(r))
		log_user(LOG_WARNING, t->o->id.uid, SD_ID128_NULL,
			 "%s/.reclaim/%u/%s could not be removed: %s", t->p->mount,
			 (unsigned)t->o->id.uid, t->job_dir, strerror(-r));
	tidy_again(t, r);
}

static void on_tidy_staging(int r, int fd, void *userdata)
{
	struct tidy *t = userdata;
	struct worker *intake;

	if (r >= 0)
		r = owner_intake(t->o, place_filesystem(t->p), &intake);
	if (r >= 0)
		r = worker_remove_staging(intake, fd, t->job_dir, on_removed, t);
	if (r < 0)
		tidy_again(t, r);
}

static void tidy_try(struct tidy *t)
{
	t->tries++;
	place_staging(t->p, /* make= */ false, on_tidy_staging, t);
}

void staging_tidy(struct place *p, struct owner *o, const char *job_dir)
{
	struct tidy *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->p = p;
	t->o = owner_ref(o);
	(void)snprintf(t->job_dir, sizeof(t->job_dir), "%s", job_dir);
	place_use(p);
	context_flow_begins(p->submitters->context);
	tidy_try(t);
}
