/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-id128.h>

#include "config/config.h"
#include "daemon/api/caller.h"
#include "daemon/api/failure.h"
#include "schedule.h"
#include "job-submit-state.h"
#include "job-submit.h"
#include "base/escape.h"
#include "base/fd.h"

/* Pieces (rows_full) that may wait for the store before the worker has to. */
#define POSTED_MOST 8
#define POSTED_AGAIN 2

void submit_end(struct submit *s)
{
	struct worker *intake = intake_worker(s->intake);
	struct manager *m = s->m;

	if (s->held_back && intake)
		worker_hold(intake, false);
	if (intake)
		(void)worker_forget(intake, s->session);
	intake_give(s->intake);
	if (!s->failure.cause && s->error < 0)
		failure_errno(&s->failure, s->error, "nothing was accepted");
	s->result.interrupted = s->error == -EPIPE;
	s->done(&s->failure, &s->result, s->userdata);
	outcome_free(s->outcome);
	rows_free(s->rows);
	free(s->path);
	free(s->origin);
	free(s->dir_path);
	place_unref(s->place);
	if (s->counts)
		s->owner->user->jobs--;
	held_give(&s->held, &s->owner->user->held, &m->held, s->owner->id.uid);
	owner_unref(s->owner);
	free(s);
	manager_flow_ends(m);
}

bool submit_is_unanswerable(const struct submit *s)
{
	return s->is_awaited && !s->is_awaited(s->userdata);
}

static void fail(struct submit *s, int error)
{
	if (s->error == 0)
		s->error = error;
}

/* ---- the record -------------------------------------------------------------------------------
 */

/* One piece of the names. */
struct piece {
	struct submit *s;
	struct rows *rows;
	bool last;
	struct job_record record; /* as it was when it was posted: the loop goes on with its own */
};

static int check_uuid(const struct job_record *r, void *userdata)
{
	const uint8_t *uuid = userdata;

	return memcmp(r->uuid, uuid, sizeof(r->uuid)) == 0 ? 0 : -ESTALE;
}

static int piece_work(struct store *store, void *userdata)
{
	struct piece *p = userdata;
	struct submit *s = p->s;
	int r;

	if (s->id == 0)
		r = store_job_add(store, &p->record, &s->id);
	else /* if the first piece could not be committed, the number may be another's by now */
		r = store_job_get(store, s->id, check_uuid, s->record.uuid);
	if (r >= 0)
		r = rows_store(p->rows, store, s->id);
	if (r >= 0 && p->last) {
		p->record.id = s->id;
		r = store_job_update(store, &p->record);
	}
	return r;
}

static int remove_work(struct store *store, void *userdata)
{
	struct submit *s = userdata;
	int r = s->id == 0 ? -ENOENT : store_job_get(store, s->id, check_uuid, s->record.uuid);

	return r < 0 ? r : store_job_remove(store, s->id);
}

static void remove_done(int r, void *userdata)
{
	(void)r; /* if it is still there, it is incomplete: the next start removes it */
	submit_end(userdata);
}

static void refuse(struct submit *s)
{
	if (!s->validated || s->posted > 0)
		return; /* the last answer comes here again */
	if (s->id == 0 || store_queue_post(s->m->store, remove_work, remove_done, s) < 0)
		submit_end(s);
}

static void store_refused(struct submit *s, int r)
{
	if (s->failure.cause)
		return;
	failure_set(&s->failure, ERROR_FAILED,
		    "nothing was accepted: the job store in %s cannot take it: %s%s",
		    s->m->o.state_dir, strerror(-r), r == -ENOSPC ? "; make room there first" : "");
}

static void piece_done(int r, void *userdata)
{
	struct piece *p = userdata;
	struct submit *s = p->s;
	struct worker *intake = intake_worker(s->intake);
	bool last = p->last;

	rows_free(p->rows);
	free(p);
	s->posted--;
	manager_store_says(s->m, r);
	if (r < 0) {
		fail(s, r);
		store_refused(s, r);
	}
	if (s->held_back && s->posted <= POSTED_AGAIN && intake) {
		s->held_back = false;
		worker_hold(intake, false);
	}
	if (last && r >= 0)
		stage_begin(s);
	else if (s->error < 0)
		refuse(s);
}

static void post(struct submit *s, bool last)
{
	struct worker *intake = intake_worker(s->intake);
	struct piece *p = calloc(1, sizeof(*p));
	int r = -ENOMEM;

	if (p) {
		*p = (struct piece){ .s = s, .rows = s->rows, .last = last, .record = s->record };
		r = store_queue_accept(s->m->store, piece_work, piece_done, p);
	}
	if (r < 0) {
		free(p);
		s->rows = rows_free(s->rows);
		fail(s, r);
		if (last)
			refuse(s);
		return;
	}
	s->rows = NULL;
	s->posted++;
	if (!last && s->posted >= POSTED_MOST && intake) {
		s->held_back = true;
		worker_hold(intake, true);
	}
}

/* ---- what the worker sees ---------------------------------------------------------------------
 */

static bool rows_wanted(struct submit *s)
{
	if (s->error < 0 || s->dry_run)
		return false;
	if (!s->rows)
		s->rows = rows_new();
	if (!s->rows)
		fail(s, -ENOMEM);
	return s->rows;
}

/* Of what has failed no more names are wanted. Called while they are told, so that what the worker
 * looks at is this submit's. */
static void look_stop(struct submit *s)
{
	struct worker *intake = intake_worker(s->intake);

	if (intake && !s->told_to_stop)
		worker_validate_stop(intake);
	s->told_to_stop = true;
}

/* Counts what the worker holds now. If that is too much, it is told to stop. */
static void count(struct submit *s, uint64_t names, const char *text)
{
	uint64_t most = s->m->config->names_per_user;
	int r;

	if (s->error < 0) {
		look_stop(s);
		return;
	}
	r = held_add(&s->held, &s->owner->user->held, &s->m->held, s->owner->id.uid, names,
		     strlen(text), most);
	if (r == 0)
		return;
	fail(s, r);
	if (r == -E2BIG)
		failure_set(&s->failure, ERROR_LIMIT_EXCEEDED,
			    "these are more than %" PRIu64 " names, or than %d bytes for each of "
			    "these, which is the limit (`limits: {names-per-user: }`; a directory "
			    "counts as %d): submit them in several calls, one after the other",
			    most, HELD_NAME_BYTES, HELD_DIR_NAMES);
	else
		failure_set(&s->failure, ERROR_LIMIT_EXCEEDED,
			    "you have more than %" PRIu64 " names on the way at the same time, "
			    "which is %s (`limits: {names-per-user: }`): go on when some calls "
			    "have been answered",
			    r == -EDQUOT ? most
					 : held_share(&s->owner->user->held, &s->m->held, most),
			    r == -EDQUOT ? "the limit" : "your share while other users have many");
	look_stop(s);
}

/* What is known goes to the store, however much is to come. */
static void post_if_full(struct submit *s)
{
	if (rows_full(s->rows))
		post(s, /* last= */ false);
}

static void on_dir(const struct intake_dir *d, void *userdata)
{
	struct submit *s = userdata;
	int r;

	count(s, HELD_DIR_NAMES, d->path);
	if (!rows_wanted(s))
		return;
	if (!s->dir_path) {
		s->dir_path = strdup(d->path);
		if (!s->dir_path)
			fail(s, -ENOMEM);
	}
	r = rows_add_dir(s->rows, d);
	if (r < 0)
		fail(s, r);
	else
		post_if_full(s);
}

static void refuse_stranger(struct submit *s, const struct entry_record *e)
{
	_cleanup_free_ char *name = escape_name(e->name);

	fail(s, -ESTALE);
	failure_set(&s->failure, ERROR_IDENTITY_CHANGED,
		    "%s is not any more what it was: nothing was accepted", name ? name : "a name");
}

static void on_entry(const struct entry_record *e, void *userdata)
{
	struct submit *s = userdata;
	const char *dir = s->dir_path ? s->dir_path : "";
	int r;

	count(s, 1, e->name);
	if (!rows_wanted(s))
		return;
	if (s->is_expected && !s->is_expected(e, s->expected_userdata)) {
		refuse_stranger(s, e);
		return;
	}
	if (!s->path) {
		if (asprintf(&s->path, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, e->name) < 0) {
			s->path = NULL;
			fail(s, -ENOMEM);
			return;
		}
		s->record.path = s->path;
	}
	r = rows_add_entry(s->rows, e);
	if (r < 0)
		fail(s, r);
	else
		post_if_full(s);
}

/* Where it is, in our namespace: a mount that is not there has no name and no staging. */
static void find_mount(struct submit *s, const struct intake_validated *l)
{
	const struct mounts *mounts = manager_mounts(s->m);
	const struct mount *mount = mounts ? mounts_by_id(mounts, l->mnt_id) : NULL;

	(void)snprintf(s->mount, sizeof(s->mount), "%s", mount ? mount->target : "");
	s->record.mount = s->mount;
}

static void complete(struct submit *s, const struct intake_validated *l)
{
	int r;

	find_mount(s, l);
	r = place_get(&s->place, s->m, s->owner, s->mount, l->dev);
	if (r >= 0)
		r = job_table_reserve(&s->m->jobs, s->m->jobs.n + 256);
	if (r >= 0)
		r = due_reserve(&s->m->due, s->m->jobs.n + 256);
	if (r < 0 || !rows_wanted(s)) {
		fail(s, r);
		refuse(s);
		return;
	}
	s->record.names = l->names;
	s->record.entries = l->entries;
	s->record.bytes = l->bytes;
	post(s, /* last= */ true);
}

static void on_validated(int r, const struct intake_validated *l, const struct intake_failure *f,
			 void *userdata)
{
	struct submit *s = userdata;

	s->validated = true;
	if (r < 0) {
		fail(s, r);
		if (!s->failure.cause) /* else it was told to stop */
			failure_from_intake(&s->failure, r, f);
	} else if (s->error == 0 && submit_is_unanswerable(s)) {
		fail(s, -ECANCELED);
	} else if (l->names == 0 && s->error == 0) {
		fail(s, -ENOENT);
		failure_set(&s->failure, ERROR_NO_SUCH_PATH, "no names are given");
	}
	if (s->error < 0) {
		s->rows = rows_free(s->rows);
		refuse(s);
		return;
	}
	s->result.accepted = l->names;
	s->result.missing = l->missing;
	if (s->dry_run)
		submit_end(s);
	else
		complete(s, l);
}

/* ---- beginning --------------------------------------------------------------------------------
 */

static int describe(struct submit *s, const struct submit_options *o)
{
	struct job_record *r = &s->record;
	sd_id128_t uuid;
	int e = sd_id128_randomize(&uuid);

	if (e < 0)
		return e;
	s->origin = strdup(o->origin ? o->origin : "submit");
	if (!s->origin)
		return -ENOMEM;
	(void)sd_id128_to_string(uuid, s->staging);
	(void)schedule_clock(s->m);
	s->clock_offset = s->m->clock_offset;
	s->undo_usec = o->has_undo ? o->undo_usec : s->m->config->undo_usec;
	*r = (struct job_record){
		.state = JOB_ACCEPTED,
		.resume_state = JOB_QUEUED,
		.priority = o->priority,
		.uid = s->owner->id.uid,
		.gid = s->owner->id.gid,
		.groups = s->owner->id.groups,
		.n_groups = s->owner->id.n_groups,
		.origin = s->origin,
		.path = "",
		.mount = "",
		.staging = s->m->config->staging ? s->staging : "",
		.inplace = "",
		.message = "",
		.strategy = "",
		.created_usec = manager_clock(),
		.by_usec = o->by_usec,
	};
	memcpy(r->uuid, uuid.bytes, sizeof(r->uuid));
	if (s->undo_usec > 0)
		r->held_until_usec = s->undo_usec > UINT64_MAX / 4 ? UINT64_MAX / 4
								   : r->created_usec + s->undo_usec;
	return 0;
}

/* A process that has ended is not answered either. */
static int view_open(struct submit *s, const struct caller *c, int *ret)
{
	int r = caller_view(c, ret);

	if (r >= 0)
		return 0;
	failure_set(&s->failure, ERROR_NOT_AUTHORIZED,
		    "nothing was accepted: which mounts the process that asks has cannot be seen "
		    "(%s): it must be there until it is answered, and not in a process namespace "
		    "around reclaimd's",
		    strerror(-r));
	return r;
}

void submit_begin(struct manager *m, const struct caller *c, const struct intake_group *groups,
		  size_t n, const struct submit_options *o, submit_done_t done, void *userdata)
{
	static const struct intake_callbacks callbacks = {
		.dir = on_dir,
		.entry = on_entry,
		.validated = on_validated,
	};
	struct failure f = { 0 };
	struct submitted none = { 0 };
	struct submit *s = calloc(1, sizeof(*s));
	filesystem_t filesystem = filesystem_of_groups(m, groups, n);
	_cleanup_close_ int view_fd = -1;
	int r = s ? owner_get(&s->owner, m, &c->id) : -ENOMEM;

	if (r < 0) {
		free(s);
		failure_errno(&f, r, "nothing was accepted");
		done(&f, &none, userdata);
		return;
	}
	manager_flow_begins(m);
	s->m = m;
	s->done = done;
	s->userdata = userdata;
	s->dry_run = o->dry_run;
	s->counts = !s->dry_run;
	s->owner->user->jobs += s->counts;
	s->is_awaited = o->is_awaited;
	s->keep_moved = o->keep_moved;
	s->is_expected = o->is_expected;
	s->expected_userdata = o->expected_userdata;
	r = describe(s, o);
	if (r >= 0)
		r = view_open(s, c, &view_fd);
	if (r >= 0)
		r = owner_intake_take(s->owner, filesystem, &s->intake);
	if (r == -EUSERS)
		owner_say_full(s->owner, filesystem, &s->failure);
	s->session = ++s->owner->sessions;
	if (r >= 0)
		r = worker_validate(intake_worker(s->intake), s->session, groups, n, view_fd,
				    &callbacks, s);
	if (r < 0) {
		fail(s, r);
		submit_end(s);
	}
}
