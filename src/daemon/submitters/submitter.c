/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "submitter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "daemon/context/account.h"
#include "config/config.h"
#include "daemon/context/failure.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/macros.h"

#define IDLE_USEC USEC_PER_SEC

static struct user *user_get(struct submitters *submitters, uid_t account)
{
	struct user *u;

	LIST_FOREACH(u, &submitters->users, link)
		if (u->account == account) {
			u->refs++;
			return u;
		}
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->account = account;
	u->refs = 1;
	LIST_INIT(&u->attendants);
	LIST_INSERT_HEAD(&submitters->users, u, link);
	return u;
}

static void user_unref(struct user *u)
{
	if (!u || --u->refs > 0)
		return;
	LIST_REMOVE(u, link);
	free(u);
}

static bool same_credentials(const struct credentials *a, const struct credentials *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->n_groups == b->n_groups &&
	       (a->n_groups == 0 ||
		memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups)) == 0);
}

/* ---- which filesystem --------------------------------------------------------------------- */

/* No device has such a number. */
#define MOUNT_UNKNOWN (1ULL << 63)

filesystem_t filesystem_of_fd(struct context *c, int fd)
{
	const struct mounts *mounts = context_mounts(c);
	const struct mount *mount;
	uint64_t mnt_id = 0;

	if (fd_mount_id(fd, &mnt_id) < 0)
		return MOUNT_UNKNOWN;
	mount = mounts ? mounts_by_id(mounts, mnt_id) : NULL;
	return mount ? mount->dev : MOUNT_UNKNOWN | mnt_id;
}

filesystem_t filesystem_of_path(struct context *c, const char *path)
{
	const struct mounts *mounts = context_mounts(c);
	const struct mount *mount = mounts ? mounts_by_path(mounts, path) : NULL;

	return mount ? mount->dev : MOUNT_UNKNOWN;
}

static bool filesystem_may_hang(struct context *c, filesystem_t filesystem)
{
	const struct mounts *mounts = context_mounts(c);
	const struct mount *mount = mounts ? mounts_by_dev(mounts, filesystem) : NULL;

	return !mount || mount_may_hang(mount);
}

filesystem_t filesystem_of_groups(struct context *c, const struct intake_group *groups, size_t n)
{
	filesystem_t first = MOUNT_UNKNOWN;

	for (size_t i = 0; i < n; i++) {
		const struct intake_group *g = &groups[i];
		const char *path = g->path ? g->path : g->dir_path;
		filesystem_t is =
			path ? filesystem_of_path(c, path) : filesystem_of_fd(c, g->dirfd);

		if (filesystem_may_hang(c, is))
			return is;
		if (i == 0)
			first = is;
		/* Only what is in memory has seals. */
		if (g->names_fd < 0 || fcntl(g->names_fd, F_GET_SEALS) >= 0)
			continue;
		is = filesystem_of_fd(c, g->names_fd);
		if (filesystem_may_hang(c, is))
			return is;
	}
	return first;
}

/* ---- processes ---------------------------------------------------------------------------- */

/* Processes that were given up, and that the kernel does not let go of: so many at most for a user
 * on a filesystem, and in all. */
#define STUCK_THERE_MOST 4
#define STUCK_MOST 16
/* What has been killed is gone in milliseconds, unless it waits for something. */
#define STUCK_AFTER_USEC (2 * USEC_PER_SEC)
/* Intake workers of a user; where there would be more, one that has nothing to do ends. Root's
 * serve all users. */
#define INTAKES_MOST 8
#define INTAKES_ROOT_MOST 64

/* Counts them, in all and there. */
static unsigned stuck(const struct user *u, filesystem_t filesystem, unsigned *ret_there)
{
	const struct attendant *a;
	uint64_t now = now_usec();
	unsigned all = 0;

	*ret_there = 0;
	LIST_FOREACH(a, &u->attendants, link)
		if (a->left_usec > 0 && now - a->left_usec > STUCK_AFTER_USEC) {
			all++;
			*ret_there += a->filesystem == filesystem;
		}
	return all;
}

static void on_left(void *userdata)
{
	struct attendant *a = userdata;

	a->left_usec = now_usec();
}

static void on_reaped(void *userdata)
{
	struct attendant *a = userdata;
	struct user *u = a->user;

	LIST_REMOVE(a, link);
	free(a);
	user_unref(u);
}

int submitter_worker_new(struct submitter *submitter, filesystem_t filesystem,
			 struct worker_options *options, struct worker **ret)
{
	struct attendant *a;
	unsigned there;
	int r;

	if (stuck(submitter->user, filesystem, &there) >= STUCK_MOST && submitter->id.uid != 0)
		return -EUSERS;
	if (there >= STUCK_THERE_MOST)
		return -EUSERS;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct attendant){ .user = submitter->user, .filesystem = filesystem };
	options->left = on_left;
	options->reaped = on_reaped;
	options->process_userdata = a;
	r = worker_new(ret, submitter->submitters->context->event, options);
	if (r < 0) {
		free(a);
		return r;
	}
	submitter->user->refs++;
	LIST_INSERT_HEAD(&submitter->user->attendants, a, link);
	return 0;
}

/* ---- intake workers ----------------------------------------------------------------------- */

static bool is_idle(const struct intake *i)
{
	return i->sessions == 0 && (!i->worker || worker_busy(i->worker) == 0);
}

/* A client whose requests fail with it may ask for another in that very call: this one is out of
 * the way. */
static void intake_stop(struct intake *i)
{
	struct worker *w = i->worker;

	i->worker = NULL;
	i->retired = true;
	i->sessions++;
	worker_free(w);
	i->sessions--;
}

static void intake_end(struct intake *i)
{
	intake_stop(i);
	if (i->sessions > 0)
		return; /* until it is given back */
	if (i->submitter)
		LIST_REMOVE(i, link);
	free(i);
}

/* From the first again each time: a client whose requests fail with one may give back any other,
 * which is freed then. */
void submitter_end_workers(struct submitter *submitter)
{
	struct intake *i, *next;

	do {
		LIST_FOREACH(i, &submitter->intakes, link)
			if (i->worker) {
				intake_stop(i);
				break;
			}
	} while (i);
	for (i = LIST_FIRST(&submitter->intakes); i; i = next) {
		next = LIST_NEXT(i, link);
		intake_end(i);
	}
}

static struct submitter *submitter_free(struct submitter *submitter)
{
	struct intake *i;

	if (!submitter)
		return NULL;
	submitter_end_workers(submitter);
	while ((i = LIST_FIRST(&submitter->intakes))) {
		LIST_REMOVE(i, link);
		i->submitter = NULL;
	}
	sd_event_source_disable_unref(submitter->idle);
	user_unref(submitter->user);
	free(submitter->id.groups);
	free(submitter);
	return NULL;
}

/* What the submitters of an account may take in memory. That is enough for a thousand sets of
 * credentials with few groups. */
#define SUBMITTER_BYTES_MOST MiB(1)

/* With its staging area. */
static uint64_t bytes_of(const struct credentials *id)
{
	return KiB(1) + id->n_groups * sizeof(*id->groups);
}

static struct submitter *submitter_find(const struct submitters *submitters,
					const struct credentials *id)
{
	struct submitter *submitter;

	LIST_FOREACH(submitter, &submitters->list, link)
		if (same_credentials(&submitter->id, id))
			break;
	return submitter;
}

bool submitter_has_room(const struct submitters *submitters, const struct credentials *id)
{
	uid_t account = account_of(id->uid);
	const struct user *u;

	LIST_FOREACH(u, &submitters->users, link)
		if (u->account == account)
			break;
	return account == 0 || !u || u->submitter_bytes + bytes_of(id) <= SUBMITTER_BYTES_MOST ||
	       submitter_find(submitters, id);
}

int submitter_get(struct submitter **ret, struct submitters *submitters,
		  const struct credentials *id)
{
	size_t size = id->n_groups * sizeof(*id->groups);
	struct submitter *submitter;

	submitter = submitter_find(submitters, id);
	if (submitter) {
		*ret = submitter_ref(submitter);
		return 0;
	}
	submitter = calloc(1, sizeof(*submitter));
	if (!submitter)
		return -ENOMEM;
	submitter->submitters = submitters;
	submitter->refs = 1;
	LIST_INIT(&submitter->intakes);
	submitter->id = *id;
	submitter->id.groups = size > 0 ? malloc(size) : NULL;
	submitter->user = user_get(submitters, account_of(id->uid));
	if (!submitter->user || (size > 0 && !submitter->id.groups)) {
		submitter_free(submitter);
		return -ENOMEM;
	}
	if (size > 0)
		memcpy(submitter->id.groups, id->groups, size);
	submitter->user->submitter_bytes += bytes_of(id);
	LIST_INSERT_HEAD(&submitters->list, submitter, link);
	*ret = submitter;
	return 0;
}

struct submitter *submitter_ref(struct submitter *submitter)
{
	submitter->refs++;
	return submitter;
}

/* Without its last job a submitter still keeps its worker for a while: the next submit of a script
 * that submits one file after the other comes at once. */
static void submitter_drop_if_unused(struct submitter *submitter)
{
	if (submitter->refs > 0 || !LIST_EMPTY(&submitter->intakes))
		return;
	LIST_REMOVE(submitter, link);
	submitter->user->submitter_bytes -= bytes_of(&submitter->id);
	submitter_free(submitter);
}

struct submitter *submitter_unref(struct submitter *submitter)
{
	if (submitter) {
		submitter->refs--;
		submitter_drop_if_unused(submitter);
	}
	return NULL;
}

static void intake_gone(struct worker *w, const char *how, void *userdata)
{
	struct intake *i = userdata;
	struct submitter *submitter = i->submitter;

	(void)w;
	log_user(LOG_WARNING, submitter->id.uid, SD_ID128_NULL,
		 "The process that checks paths for uid %u has ended: %s",
		 (unsigned)submitter->id.uid, how);
	intake_end(i);
	submitter_drop_if_unused(submitter);
}

static int end_idle_later(struct submitter *submitter);

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct submitter *submitter = userdata;
	struct intake *i, *next;
	uint64_t now = now_usec();

	(void)source;
	(void)usec;
	for (i = LIST_FIRST(&submitter->intakes); i; i = next) {
		next = LIST_NEXT(i, link);
		if (is_idle(i) && (i->retired || now - i->used_usec >= IDLE_USEC))
			intake_end(i);
	}
	if (!LIST_EMPTY(&submitter->intakes))
		return end_idle_later(submitter);
	submitter_drop_if_unused(submitter);
	return 0;
}

static int end_idle_later(struct submitter *submitter)
{
	return timer_after(submitter->submitters->context->event, &submitter->idle, IDLE_USEC,
			   USEC_PER_SEC / 4, on_idle, submitter, "intake-idle");
}

/* Where a user has as many intake workers as it may, the one that has had nothing to do for longest
 * ends. */
static int make_room(const struct submitter *submitter)
{
	unsigned most = submitter->id.uid == 0 ? INTAKES_ROOT_MOST : INTAKES_MOST, n = 0;
	struct submitter *other, *whose;
	struct intake *i, *idle = NULL;

	LIST_FOREACH(other, &submitter->submitters->list, link)
		LIST_FOREACH(i, &other->intakes, link) {
			if (other->user != submitter->user || !i->worker)
				continue;
			n++;
			if (is_idle(i) && (!idle || i->used_usec < idle->used_usec))
				idle = i;
		}
	if (n < most)
		return 0;
	if (!idle)
		return -EUSERS;
	whose = idle->submitter;
	intake_end(idle);
	if (whose != submitter)
		submitter_drop_if_unused(whose);
	return 0;
}

static int intake_new(struct submitter *submitter, filesystem_t filesystem, struct intake **ret)
{
	struct intake *i = calloc(1, sizeof(*i));
	struct worker_options options = {
		.program = submitter->submitters->context->worker_program,
		.role = WORKER_INTAKE,
		.credentials = &submitter->id,
		.landlock_fd = -1,
		.protect = (const char *const *)submitter->submitters->context->config->protect,
		.gone = intake_gone,
		.userdata = i,
	};
	int r = i ? make_room(submitter) : -ENOMEM;

	if (r >= 0)
		r = submitter_worker_new(submitter, filesystem, &options, &i->worker);
	if (r < 0) {
		free(i);
		return r;
	}
	i->submitter = submitter;
	i->filesystem = filesystem;
	LIST_INSERT_HEAD(&submitter->intakes, i, link);
	*ret = i;
	return 0;
}

static int intake_get(struct submitter *submitter, filesystem_t filesystem, struct intake **ret)
{
	struct intake *i;
	int r = 0;

	if (submitter->submitters->context->ended)
		return -ECANCELED;
	/* One that has ended without our having been told is freed a moment later. */
	LIST_FOREACH(i, &submitter->intakes, link)
		if (i->filesystem == filesystem && !i->retired && !worker_ended(i->worker))
			break;
	if (!i)
		r = intake_new(submitter, filesystem, &i);
	if (r < 0)
		return r;
	i->used_usec = now_usec();
	*ret = i;
	/* Not later because of this: others, for other filesystems, may be idle for long. */
	return timer_is_set(submitter->idle) ? 0 : end_idle_later(submitter);
}

int submitter_intake(struct submitter *submitter, filesystem_t filesystem, struct worker **ret)
{
	struct intake *i;
	int r = intake_get(submitter, filesystem, &i);

	if (r >= 0)
		*ret = i->worker;
	return r;
}

int submitter_intake_take(struct submitter *submitter, filesystem_t filesystem, struct intake **ret)
{
	int r = intake_get(submitter, filesystem, ret);

	if (r >= 0)
		(*ret)->sessions++;
	else
		*ret = NULL;
	return r;
}

void intake_give(struct intake *i)
{
	if (!i)
		return;
	i->used_usec = now_usec();
	if (--i->sessions == 0 && !i->worker)
		intake_end(i);
}

struct worker *intake_worker(const struct intake *i)
{
	return i ? i->worker : NULL;
}

/* What most of its processes wait for: there; or where one was asked first and has not answered. */
static filesystem_t hanging(const struct submitter *submitter, filesystem_t there)
{
	const struct intake *i, *oldest = NULL;
	const struct submitter *other;
	unsigned n;

	(void)stuck(submitter->user, there, &n);
	if (n > 0)
		return there;
	LIST_FOREACH(other, &submitter->submitters->list, link)
		LIST_FOREACH(i, &other->intakes, link)
			if (other->user == submitter->user && i->worker &&
			    (!oldest || i->used_usec < oldest->used_usec))
				oldest = i;
	if (oldest)
		return oldest->filesystem;
	return LIST_EMPTY(&submitter->user->attendants)
		       ? there
		       : LIST_FIRST(&submitter->user->attendants)->filesystem;
}

void submitter_set_full_failure(const struct submitter *submitter, filesystem_t filesystem,
				struct failure *f)
{
	const struct mounts *mounts = context_mounts(submitter->submitters->context);
	const struct mount *mount =
		mounts ? mounts_by_dev(mounts, hanging(submitter, filesystem)) : NULL;
	_cleanup_free_ char *where = mount ? escape_name(mount->target) : NULL;

	failure_set(f, ERROR_LIMIT_EXCEEDED,
		    "nothing was accepted: as many processes as uid %u may have wait for %s, which "
		    "does not answer: submit this again when it does, or when it is unmounted",
		    (unsigned)submitter->user->account,
		    where ? where : "a filesystem that is not mounted here");
}

void submitters_init(struct submitters *s, struct context *c)
{
	*s = (struct submitters){ .context = c };
	LIST_INIT(&s->list);
	LIST_INIT(&s->users);
	LIST_INIT(&s->areas);
}

void submitters_renew(struct submitters *s)
{
	struct submitter *submitter;
	struct intake *i, *next;

	LIST_FOREACH(submitter, &s->list, link)
		for (i = LIST_FIRST(&submitter->intakes); i; i = next) {
			next = LIST_NEXT(i, link);
			i->retired = true;
			/* Nothing new is given to a worker that goes by what does not hold any
			 * more, be it ever so busy: a caller that was told that the configuration
			 * is in force must not meet the one before. */
			if (is_idle(i))
				intake_end(i);
		}
}

void submitters_end_workers(struct submitters *s)
{
	struct submitter *submitter, *next;

	for (submitter = LIST_FIRST(&s->list); submitter; submitter = next) {
		submitter_ref(submitter);
		submitter_end_workers(submitter);
		next = LIST_NEXT(submitter, link);
		submitter_unref(submitter);
	}
}

void submitters_done(struct submitters *s)
{
	struct submitter *submitter;

	s->root = submitter_unref(s->root);
	while ((submitter = LIST_FIRST(&s->list))) {
		LIST_REMOVE(submitter, link);
		submitter_free(submitter);
	}
}
