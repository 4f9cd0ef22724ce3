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

static struct owner *owner_free(struct owner *o)
{
	if (!o)
		return NULL;
	worker_free(o->intake);
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
	if (o->refs > 0 || o->intake)
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

static void intake_gone(struct worker *w, const char *how, void *userdata)
{
	struct owner *o = userdata;

	log_line(LOG_WARNING, "The process that looks at paths for uid %u has ended: %s",
		 (unsigned)o->id.uid, how);
	if (o->intake == w) {
		o->intake = NULL;
		(void)sd_event_source_set_enabled(o->idle, SD_EVENT_OFF);
	}
	worker_free(w);
	owner_drop_if_unused(o);
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct owner *o = userdata;

	(void)usec;
	if (worker_busy(o->intake) > 0) {
		(void)sd_event_source_set_time_relative(source, IDLE_USEC);
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	o->intake = worker_free(o->intake);
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
	if (o->stale && o->intake && worker_busy(o->intake) == 0) {
		o->intake = worker_free(o->intake);
		o->stale = false;
	}
	/* Whoever is told that his request failed with it may ask again in that very call; it is
	 * freed a moment later, in intake_gone. */
	if (o->intake && worker_ended(o->intake))
		o->intake = NULL;
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
	return session > o->sessions_old ? o->intake : NULL;
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
