/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "owner.h"

#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "log.h"
#include "manager.h"
#include "util/macros.h"

#define IDLE_USEC (30 * USEC_PER_SEC)

static struct user *user_get(struct manager *m, uid_t uid)
{
	struct user *u;

	LIST_FOREACH(u, &m->users, link)
	if (u->uid == uid) {
		u->refs++;
		return u;
	}
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->refs = 1;
	LIST_INSERT_HEAD(&m->users, u, link);
	return u;
}

static void user_unref(struct user *u)
{
	if (!u || --u->refs > 0)
		return;
	LIST_REMOVE(u, link);
	free(u);
}

static bool same_submitter(const struct submitter *a, const struct submitter *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->n_groups == b->n_groups &&
	       (a->n_groups == 0 ||
		memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups)) == 0);
}

/* Whose requests fail with them may ask for another in that very call: they are out of the way. */
static void retired_free(struct retired *old)
{
	while (old) {
		struct retired *next = old->next;

		worker_free(old->worker);
		free(old);
		old = next;
	}
}

void owner_end_workers(struct owner *o)
{
	struct retired *old = o->retired;

	o->retired = NULL;
	retired_free(old);
	o->intake = worker_free(o->intake);
}

static struct owner *owner_free(struct owner *o)
{
	if (!o)
		return NULL;
	owner_end_workers(o);
	sd_event_source_disable_unref(o->idle);
	user_unref(o->user);
	free(o->id.groups);
	free(o);
	return NULL;
}

static int owner_new(struct owner **ret, struct manager *m, const struct submitter *id)
{
	struct owner *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->manager = m;
	o->refs = 1;
	o->id = (struct submitter){ .uid = id->uid, .gid = id->gid };
	o->user = user_get(m, id->uid);
	if (id->n_groups > 0)
		o->id.groups = malloc(id->n_groups * sizeof(*id->groups));
	if (!o->user || (id->n_groups > 0 && !o->id.groups)) {
		owner_free(o);
		return -ENOMEM;
	}
	if (id->n_groups > 0)
		memcpy(o->id.groups, id->groups, id->n_groups * sizeof(*id->groups));
	o->id.n_groups = id->n_groups;
	LIST_INSERT_HEAD(&m->owners, o, link);
	*ret = o;
	return 0;
}

int owner_get(struct owner **ret, struct manager *m, const struct submitter *id)
{
	struct owner *o;

	LIST_FOREACH(o, &m->owners, link)
	if (same_submitter(&o->id, id)) {
		*ret = owner_ref(o);
		return 0;
	}
	return owner_new(ret, m, id);
}

struct owner *owner_ref(struct owner *o)
{
	o->refs++;
	return o;
}

/* Without its last job an owner still keeps its worker for a while: the next submit of a script
 * that submits one file after the other comes at once. */
static void owner_drop_if_unused(struct owner *o)
{
	if (o->refs > 0 || o->intake || o->retired)
		return;
	LIST_REMOVE(o, link);
	owner_free(o);
}

struct owner *owner_unref(struct owner *o)
{
	if (o) {
		o->refs--;
		owner_drop_if_unused(o);
	}
	return NULL;
}

/* Takes out that worker, or with NULL all that have nothing to do any more. */
static struct retired *retired_take(struct owner *o, const struct worker *w)
{
	struct retired **at = &o->retired, *taken = NULL;

	while (*at) {
		struct retired *old = *at;

		if (w ? old->worker == w : worker_busy(old->worker) == 0) {
			*at = old->next;
			old->next = taken;
			taken = old;
		} else {
			at = &old->next;
		}
	}
	return taken;
}

static void intake_gone(struct worker *w, const char *how, void *userdata)
{
	struct owner *o = userdata;
	struct retired *old = retired_take(o, w);

	log_user(LOG_WARNING, o->id.uid, SD_ID128_NULL,
		 "The process that looks at paths for uid %u has ended: %s", (unsigned)o->id.uid,
		 how);
	if (o->intake == w)
		o->intake = NULL;
	if (old)
		retired_free(old);
	else
		worker_free(w);
	if (!o->intake && !o->retired)
		(void)sd_event_source_set_enabled(o->idle, SD_EVENT_OFF);
	owner_drop_if_unused(o);
}

/* Nothing new is given to a worker that goes by what does not hold any more, be it ever so busy:
 * who was told that the configuration is in force must not meet the one before. */
static int retire(struct owner *o)
{
	struct retired *old;

	if (worker_busy(o->intake) == 0) {
		o->intake = worker_free(o->intake);
		return 0;
	}
	old = calloc(1, sizeof(*old));
	if (!old)
		return -ENOMEM;
	*old = (struct retired){ .worker = o->intake,
				 .sessions_old = o->sessions_old,
				 .sessions_last = o->sessions,
				 .next = o->retired };
	o->retired = old;
	o->intake = NULL;
	o->sessions_old = o->sessions;
	return 0;
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct owner *o = userdata;

	(void)usec;
	retired_free(retired_take(o, NULL));
	if (o->intake && worker_busy(o->intake) == 0)
		o->intake = worker_free(o->intake);
	if (o->intake || o->retired) {
		(void)sd_event_source_set_time_relative(source, IDLE_USEC);
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	owner_drop_if_unused(o);
	return 0;
}

static int rest_later(struct owner *o)
{
	int r;

	if (o->idle) {
		r = sd_event_source_set_time_relative(o->idle, IDLE_USEC);
		return r < 0 ? r : sd_event_source_set_enabled(o->idle, SD_EVENT_ONESHOT);
	}
	r = sd_event_add_time_relative(o->manager->event, &o->idle, CLOCK_MONOTONIC, IDLE_USEC,
				       USEC_PER_SEC, on_idle, o);
	if (r >= 0)
		(void)sd_event_source_set_description(o->idle, "intake-idle");
	return r;
}

int owner_intake(struct owner *o, struct worker **ret)
{
	struct worker_options options = {
		.program = o->manager->worker_program,
		.role = WORKER_INTAKE,
		.submitter = &o->id,
		.fence_fd = -1,
		.protect = (const char *const *)o->manager->config->protect,
		.gone = intake_gone,
		.userdata = o,
	};
	int r;

	if (o->manager->ended)
		return -ECANCELED;
	/* Whoever is told that his request failed with it may ask again in that very call; it is
	 * freed a moment later, in intake_gone. */
	if (o->intake && worker_ended(o->intake))
		o->intake = NULL;
	if (o->stale && o->intake) {
		r = retire(o);
		if (r < 0)
			return r;
	}
	if (!o->intake) {
		r = worker_new(&o->intake, o->manager->event, &options);
		if (r < 0)
			return r;
		o->stale = false;
		o->sessions_old = o->sessions;
	}
	r = rest_later(o);
	if (r < 0)
		return r;
	*ret = o->intake;
	return 0;
}

struct worker *owner_intake_of(const struct owner *o, uint64_t session)
{
	const struct retired *old;

	if (session > o->sessions_old)
		return o->intake;
	for (old = o->retired; old; old = old->next)
		if (session > old->sessions_old && session <= old->sessions_last)
			return old->worker;
	return NULL;
}

void owner_renew(struct owner *o)
{
	o->stale = o->intake;
}

void owners_done(struct manager *m)
{
	struct owner *o;

	while ((o = LIST_FIRST(&m->owners))) {
		LIST_REMOVE(o, link);
		owner_free(o);
	}
}
