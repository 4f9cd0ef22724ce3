/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-submit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/units.h"
#include "config/config.h"
#include "daemon/context/failure.h"
#include "daemon/context/log.h"
#include "job-control.h"
#include "job-finish.h"
#include "job-restore.h"
#include "stored-names.h"
#include "schedule.h"
#include "undo-deadline.h"
#include "staged-names.h"

/* Pieces (chunk_is_full) that may wait for the store before the worker has to. */
#define POSTED_MOST 8
#define POSTED_AGAIN 2

struct submit {
	struct jobs *jobs;
	struct submitter *submitter;
	struct intake *intake; /* that knows the session */
	uint64_t session;
	bool dry_run, validated;
	bool told_to_stop; /* the worker, while it validates */
	bool held_back;    /* the worker waits for the store */
	bool counts;       /* among its user's jobs: the job itself does as soon as there is one */
	bool (*is_awaited)(void *userdata);
	bool keep_moved;
	uint64_t counted_bytes; /* by the caller; 0: not known */
	bool (*is_expected)(const struct entry_record *e, void *userdata);
	void *expected_userdata;
	submit_done_t done;
	void *userdata;
	uint64_t undo_usec;
	int64_t clock_offset; /* when the window began */

	struct job_record record; /* strings: path is the submit's, the others static or below */
	char *path, *origin, *dir_path; /* dir_path: of the first directory */
	char staging[33];
	char mount[PATH_MAX];
	struct chunk *chunk; /* names that are not posted yet */
	int dirfd;           /* its directory in staging, or -1 */
	struct held held;
	unsigned posted; /* pieces the store has not answered */
	int error;       /* the first that went wrong */
	struct failure failure;
	struct submitted result;

	uint64_t id; /* the store's thread's until the last piece is answered */

	struct job *job; /* once it is one */
	struct staging_area *area;
	struct outcome *outcome;
	uint64_t staged;
};

static void submit_end(struct submit *s)
{
	struct worker *intake = intake_worker(s->intake);
	struct jobs *jobs = s->jobs;

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
	chunk_free(s->chunk);
	fd_closep(&s->dirfd);
	free(s->path);
	free(s->origin);
	free(s->dir_path);
	staging_area_unref(s->area);
	if (s->counts)
		s->submitter->user->jobs--;
	held_give(&s->held, &s->submitter->user->held, &jobs->submitters->held,
		  s->submitter->id.uid);
	submitter_unref(s->submitter);
	free(s);
	context_flow_ends(jobs->context);
}

static bool submit_is_unanswerable(const struct submit *s)
{
	return s->is_awaited && !s->is_awaited(s->userdata);
}

static void fail(struct submit *s, int error)
{
	if (s->error == 0)
		s->error = error;
}

/* ---- out of the way: from the record to the answer --------------------------------------------
 */

/* The job is the table's from here on; the record of what is staged goes to the store in the order
 * it is posted in. */
static void record_outcome(struct submit *s)
{
	if (s->outcome && !s->job->unmarked)
		outcome_record(s->outcome, s->jobs->context->store, job_marked, s->job);
	else
		outcome_free(s->outcome);
	s->outcome = NULL;
}

static void tell_new(struct job *j)
{
	struct job_record r;

	j->told = true;
	job_snapshot(j, &r);
	tell_job_new(j->jobs->context, &r);
}

/* Gives the job to what asked for it to stop, if that was asked for. */
static bool hand_to_stopper(struct job *j)
{
	void (*stopped)(struct job * j, void *userdata) = j->stopped;

	j->stopped = NULL;
	if (stopped)
		stopped(j, j->stopped_userdata);
	return stopped;
}

/* It was cancelled, or cannot be answered: what has been moved goes back. */
static void take_back(struct submit *s, bool known)
{
	struct job *j = s->job;

	if (!known)
		j->unmarked = -EAGAIN;
	tell_new(j);
	s->error = -ECANCELED;
	failure_set(&s->failure, ERROR_WRONG_STATE,
		    "job %" PRIu64
		    " was cancelled while its names were being moved out of the way: they are "
		    "being put back",
		    j->r.id);
	if (!hand_to_stopper(j))
		control_withdraw(j);
	submit_end(s);
}

static bool is_to_be_taken_back(const struct submit *s)
{
	return s->job->stopped || (submit_is_unanswerable(s) && !(s->keep_moved && s->staged > 0));
}

static void finish_staging(struct submit *s, bool known)
{
	struct job *j = s->job;
	char names[COUNTED_SIZE];

	record_outcome(s);
	j->submit = NULL;
	if (s->staged == 0) {
		if (j->r.staging_id.ino != 0)
			staging_tidy(j->area, j->submitter, j->uuid_text);
		j->r.staging = "";
	}
	if (is_to_be_taken_back(s)) {
		take_back(s, known);
		return;
	}
	if (known)
		schedule_job(j);
	else
		job_enter(j, PHASE_UNKNOWN);
	if (j->phase == PHASE_QUEUED && s->dirfd >= 0)
		at_hand_put(j, fd_take(&s->dirfd));
	job_save(j, NULL, NULL);
	tell_new(j);
	log_job(LOG_INFO, MESSAGE_JOB_ACCEPTED, &j->r, "Job %" PRIu64 " accepted: %s%s%s", j->r.id,
		counted_format(names, sizeof(names), j->r.names, "name", "names"),
		*j->r.inplace ? "; in place: " : "", j->r.inplace);
	debug_log("job %" PRIu64 ": %" PRIu64 " of %" PRIu64 " names moved to staging%s%s", j->r.id,
		  s->staged, j->r.names, *j->r.inplace ? "; the rest is deleted in place: " : "",
		  j->r.inplace);

	s->result.id = j->r.id;
	submit_end(s);
}

/* ---- refused --------------------------------------------------------------------------------- */

static int unrecord_work(struct store *store, void *userdata)
{
	struct submit *s = userdata;

	return store_job_remove(store, s->id);
}

static void take_out(struct job *j)
{
	j->jobs->counts[j->r.state]--;
	j->submitter->user->jobs--;
	job_table_remove(&j->jobs->table, j);
	j->refused = true;
	if (j->saving == 0)
		job_free(j);
}

/* That there is no such job is answered only when that is on disk. While it cannot be recorded, the
 * job stays here, as one that has failed, which job_save_retry records. */
static void keep_refused(struct submit *s, int error)
{
	struct job *j = s->job;
	struct safe_text said = s->failure.text;

	failure_set(&s->failure, s->failure.cause,
		    "%s. But job %" PRIu64 " is on record, and the job store in %s cannot be "
		    "written (%s): reclaimd tries again. If it ends before that succeeds, its next "
		    "start takes the job for accepted and deletes these names",
		    said.line, j->r.id, s->jobs->context->o.state_dir, strerror(-error));
	job_say(j,
		"refused (%s), but that could not be recorded yet (%s): a start before it is "
		"would take the job for accepted",
		said.line, strerror(-error));
	store_says(s->jobs->context, error);
	tell_new(j);
	job_finish(j, JOB_FAILED);
}

static void unrecord_done(int r, void *userdata)
{
	struct submit *s = userdata;
	struct job *j = s->job;

	j->submit = NULL;
	if (r < 0 && r != -ENOENT) {
		keep_refused(s, r);
		(void)hand_to_stopper(s->job);
	} else {
		job_enter(j, PHASE_FAILED);
		(void)hand_to_stopper(s->job);
		take_out(j);
	}
	s->job = NULL;
	submit_end(s);
}

/* Of a record that is complete: as long as it is there, a start would go on with the job. Until it
 * is known what has become of it, the job is one that is being submitted. */
static void unrecord(struct submit *s)
{
	int r;

	if (!s->failure.cause)
		failure_errno(&s->failure, s->error, "nothing was accepted");
	r = store_queue_post(s->jobs->context->store, unrecord_work, unrecord_done, s);
	if (r < 0)
		unrecord_done(r, s);
}

/* The worker has put back what it had moved, but for what it told of. */
static void refuse_staged(struct submit *s, int error, const struct intake_failure *f)
{
	struct job *j = s->job;

	s->error = error;
	failure_from_intake(&s->failure, error, f);
	if (s->staged > 0) {
		j->submit = NULL;
		record_outcome(s);
		job_say(j,
			"refused while names were being moved out of the way; %" PRIu64
			" of them could not be moved back and are kept in %s/%u/%s",
			s->staged, j->area->dir, (unsigned)j->r.uid, j->r.staging);
		tell_new(j);
		job_finish(j, JOB_FAILED);
		(void)hand_to_stopper(s->job);
		submit_end(s);
		return;
	}
	unrecord(s);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void set_in_place(struct submit *s, const char *why)
{
	if (!*s->job->r.inplace)
		job_set_text(&s->job->r.inplace, why);
}

/* Why names are deleted where they are. */
static const char *unmovable(int error)
{
	switch (error) {
	case -EXDEV:
		return "a rename into staging would cross a filesystem's border";
	case -EINVAL:
		/* FUSE without RENAME_NOREPLACE, as MooseFS. What is put back must never replace
		 * what another process has made in its place, so nothing is moved there. */
		return "its filesystem cannot rename without replacing (RENAME_NOREPLACE)";
	case -ENOSPC:
		return "there is no room for it on its filesystem";
	case -EDQUOT:
		return "a quota leaves no room for it";
	case -ENOTEMPTY:
		return "it is not empty any more";
	default:
		return strerror(-error);
	}
}

static void on_range(uint64_t from, uint64_t to, int error, void *userdata)
{
	struct submit *s = userdata;

	if (error == -ENOENT)
		return; /* gone already, as the run will find */
	if (error < 0) {
		set_in_place(s, unmovable(error));
		return;
	}
	s->staged += to - from + 1;
	if (!s->outcome)
		s->outcome = outcome_new(s->id);
	/* Without all the marks, staging is listed before anything is done. */
	if (!s->outcome || outcome_mark(s->outcome, from, to, ENTRY_STAGED) < 0)
		s->job->unmarked = -ENOMEM;
}

static void on_recovered(struct job *j, bool known, void *userdata)
{
	struct submit *s = userdata;

	(void)j;
	finish_staging(s, known);
}

static void on_staged(int r, int dirfd, const struct lasting_identity *staging_id,
		      const struct intake_failure *f, void *userdata)
{
	struct submit *s = userdata;

	s->dirfd = dirfd;
	staging_area_release(s->area);
	if (r == -EPIPE || r == -ECANCELED) {
		/* Where it had got to is seen where names are. */
		s->outcome = outcome_free(s->outcome);
		s->staged = 1;
		staged_names_find(s->job, on_recovered, s);
		return;
	}
	if (r < 0) {
		refuse_staged(s, r, f);
		return;
	}
	if (staging_id)
		s->job->r.staging_id = *staging_id;
	if (staging_id && s->outcome)
		outcome_staging(s->outcome, staging_id);
	finish_staging(s, /* known= */ true);
}

static void on_staging(int r, int fd, void *userdata)
{
	static const struct staged_callbacks callbacks = { .range = on_range, .staged = on_staged };
	struct submit *s = userdata;
	struct worker *intake = intake_worker(s->intake);
	char why[160];

	if (r >= 0 && intake)
		r = worker_stage(
			intake,
			&(struct stage_message){ .session = s->session,
						 .name = s->staging,
						 .wants_dir = s->record.held_until_usec == 0,
						 .always = *s->area->host,
						 .staging = fd },
			&callbacks, s);
	else if (r >= 0)
		r = -EPIPE;
	if (r >= 0)
		return;
	staging_area_release(s->area);
	if (r == -EPIPE) {
		refuse_staged(s, r, NULL);
		return;
	}
	(void)snprintf(why, sizeof(why), "no staging area on this mount: %s",
		       r == -EBUSY ? "another reclaimd has it (see its log)" : unmovable(r));
	set_in_place(s, why);
	finish_staging(s, /* known= */ true);
}

static void stage_begin(struct submit *s)
{
	int r;

	s->record.id = s->id;
	(void)deadline_clock(s->jobs);
	s->record.held_until_usec =
		deadline_moved(s->record.held_until_usec, s->jobs->clock_offset - s->clock_offset);
	r = job_new(&s->job, s->jobs, &s->record, s->submitter, s->area);
	if (r < 0) { /* it is on record: the next start takes it up */
		s->error = r;
		failure_set(&s->failure, ERROR_FAILED,
			    "out of memory; the job is on record, nothing was "
			    "moved");
		submit_end(s);
		return;
	}
	job_table_add(&s->jobs->table, s->job);
	s->jobs->counts[JOB_ACCEPTED]++;
	s->counts = false;
	job_enter(s->job, PHASE_MOVING);
	s->job->submit = s;
	if (s->error == 0 && submit_is_unanswerable(s))
		s->error = -ECANCELED;
	if (s->error < 0) {
		unrecord(s);
		return;
	}
	if (!s->jobs->context->config->staging) {
		set_in_place(s, "`staging: off` in the configuration");
		finish_staging(s, /* known= */ true);
		return;
	}
	if (!*s->mount) {
		set_in_place(s, "its mount is not in reclaimd's mount namespace");
		finish_staging(s, /* known= */ true);
		return;
	}
	staging_area_use(s->area);
	staging_area_open(s->area, /* make= */ true, on_staging, s);
}

/* ---- the record -------------------------------------------------------------------------------
 */

/* One piece of the names. */
struct piece {
	struct submit *s;
	struct chunk *chunk;
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
		r = chunk_store(p->chunk, store, s->id);
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
	if (s->id == 0 ||
	    store_queue_post(s->jobs->context->store, remove_work, remove_done, s) < 0)
		submit_end(s);
}

static void store_refused(struct submit *s, int r)
{
	if (s->failure.cause)
		return;
	failure_set(&s->failure, ERROR_FAILED,
		    "nothing was accepted: the job store in %s cannot take it: %s%s",
		    s->jobs->context->o.state_dir, strerror(-r),
		    r == -ENOSPC ? "; make room there first" : "");
}

static void piece_done(int r, void *userdata)
{
	struct piece *p = userdata;
	struct submit *s = p->s;
	struct worker *intake = intake_worker(s->intake);
	bool last = p->last;

	chunk_free(p->chunk);
	free(p);
	s->posted--;
	store_says(s->jobs->context, r);
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
		*p = (struct piece){ .s = s, .chunk = s->chunk, .last = last, .record = s->record };
		/* Only with the last is it a job. */
		r = (last ? store_queue_accept : store_queue_accept_part)(
			s->jobs->context->store, piece_work, piece_done, p);
	}
	if (r < 0) {
		free(p);
		s->chunk = chunk_free(s->chunk);
		fail(s, r);
		if (last)
			refuse(s);
		return;
	}
	s->chunk = NULL;
	s->posted++;
	if (!last && s->posted >= POSTED_MOST && intake) {
		s->held_back = true;
		worker_hold(intake, true);
	}
}

/* ---- what the worker sees ---------------------------------------------------------------------
 */

static bool names_wanted(struct submit *s)
{
	if (s->error < 0 || s->dry_run)
		return false;
	if (!s->chunk)
		s->chunk = chunk_new();
	if (!s->chunk)
		fail(s, -ENOMEM);
	return s->chunk;
}

/* Of what has failed no more names are wanted. Called while they arrive, so that what the worker
 * validates is this submit's. */
static void stop_validation(struct submit *s)
{
	struct worker *intake = intake_worker(s->intake);

	if (intake && !s->told_to_stop)
		worker_validate_stop(intake);
	s->told_to_stop = true;
}

/* Counts what the worker holds now. If that is too much, it is told to stop. */
static void count_held(struct submit *s, uint64_t names, const char *text)
{
	uint64_t most = s->jobs->context->config->names_per_user;
	int r;

	if (s->error < 0) {
		stop_validation(s);
		return;
	}
	r = held_add(&s->held, &s->submitter->user->held, &s->jobs->submitters->held,
		     s->submitter->id.uid, names, strlen(text), most);
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
					 : held_share(&s->submitter->user->held,
						      &s->jobs->submitters->held, most),
			    r == -EDQUOT ? "the limit" : "your share while other users have many");
	stop_validation(s);
}

/* What is known goes to the store, however much is to come. */
static void post_if_full(struct submit *s)
{
	if (chunk_is_full(s->chunk))
		post(s, /* last= */ false);
}

static void on_dir(const struct intake_dir *d, void *userdata)
{
	struct submit *s = userdata;
	int r;

	count_held(s, HELD_DIR_NAMES, d->path);
	if (!names_wanted(s))
		return;
	if (!s->dir_path) {
		s->dir_path = strdup(d->path);
		if (!s->dir_path)
			fail(s, -ENOMEM);
	}
	r = chunk_add_dir(s->chunk, d->dir, d->path, &d->id);
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

/* The path that the job is listed by: that of its first name. Directories are told as they are
 * found, also those of which no name is there. */
static int path_set(struct submit *s, const struct entry_record *e)
{
	const struct chunk_dir *found = chunk_dir(s->chunk, e->dir);
	const char *dir = found ? found->path : s->dir_path ? s->dir_path : "";

	/* Thousands of others came between the two: then the first directory has to do. */
	if (asprintf(&s->path, "%s%s%s", strcmp(dir, "/") == 0 && found ? "" : dir,
		     found ? "/" : "", found ? e->name : "") < 0) {
		s->path = NULL;
		return -ENOMEM;
	}
	s->record.path = s->path;
	return 0;
}

static void on_entry(const struct entry_record *e, void *userdata)
{
	struct submit *s = userdata;
	int r;

	count_held(s, 1, e->name);
	if (!names_wanted(s))
		return;
	if (s->is_expected && !s->is_expected(e, s->expected_userdata)) {
		refuse_stranger(s, e);
		return;
	}
	r = s->path ? 0 : path_set(s, e);
	if (r >= 0)
		r = chunk_add_entry(s->chunk, e);
	if (r < 0)
		fail(s, r);
	else
		post_if_full(s);
}

/* Where it is, in our namespace: a mount that is not there has no name and no staging. */
static void find_mount(struct submit *s, const struct intake_validated *l)
{
	const struct mounts *mounts = context_mounts(s->jobs->context);
	const struct mount *mount = mounts ? mounts_by_id(mounts, l->mnt_id) : NULL;

	(void)snprintf(s->mount, sizeof(s->mount), "%s", mount ? mount->target : "");
	s->record.mount = s->mount;
}

static void complete(struct submit *s, const struct intake_validated *l)
{
	char host[FLEET_NAME_SIZE];
	int r;

	find_mount(s, l);
	staging_host(s->jobs->context, s->mount, host);
	r = staging_area_get(&s->area, s->jobs->submitters, s->submitter, s->mount, host, l->dev);
	if (r >= 0)
		r = jobs_reserve_all(s->jobs);
	if (r < 0 || !names_wanted(s)) {
		fail(s, r);
		refuse(s);
		return;
	}
	s->record.host = s->area->host;
	s->record.names = l->names;
	s->record.entries = l->entries;
	/* A tree is not gone through to be counted, as other processes would wait for those reads.
	 * What the caller says is only shown. */
	s->record.bytes = l->entries > 0 ? l->bytes : s->counted_bytes;
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
		s->chunk = chunk_free(s->chunk);
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
	(void)deadline_clock(s->jobs);
	s->clock_offset = s->jobs->clock_offset;
	s->undo_usec = o->has_undo ? o->undo_usec : s->jobs->context->config->undo_usec;
	*r = (struct job_record){
		.kind = o->rmdir ? JOB_RMDIR : JOB_DELETE,
		.state = JOB_ACCEPTED,
		.resume_state = JOB_QUEUED,
		.priority = o->priority,
		.uid = s->submitter->id.uid,
		.gid = s->submitter->id.gid,
		.groups = s->submitter->id.groups,
		.n_groups = s->submitter->id.n_groups,
		.origin = s->origin,
		.path = "",
		.mount = "",
		.host = "",
		.staging = s->jobs->context->config->staging ? s->staging : "",
		.inplace = "",
		.message = "",
		.strategy = "",
		.created_usec = context_clock(),
		.by_usec = o->by_usec,
	};
	memcpy(r->uuid, uuid.bytes, sizeof(r->uuid));
	if (s->undo_usec > 0)
		r->held_until_usec = s->undo_usec > UINT64_MAX / 4 ? UINT64_MAX / 4
								   : r->created_usec + s->undo_usec;
	return 0;
}

void submit_begin(struct jobs *jobs, const struct credentials *id, int view_fd,
		  const struct intake_group *groups, size_t n, const struct submit_options *o,
		  submit_done_t done, void *userdata)
{
	static const struct intake_callbacks callbacks = {
		.dir = on_dir,
		.entry = on_entry,
		.validated = on_validated,
	};
	struct failure f = { 0 };
	struct submitted none = { 0 };
	struct submit *s = calloc(1, sizeof(*s));
	filesystem_t filesystem = filesystem_of_groups(jobs->context, groups, n);
	int r = s ? submitter_get(&s->submitter, jobs->submitters, id) : -ENOMEM;

	if (r < 0) {
		free(s);
		failure_errno(&f, r, "nothing was accepted");
		done(&f, &none, userdata);
		return;
	}
	context_flow_begins(jobs->context);
	s->jobs = jobs;
	s->done = done;
	s->userdata = userdata;
	s->dry_run = o->dry_run;
	s->counts = !s->dry_run;
	s->submitter->user->jobs += s->counts;
	s->is_awaited = o->is_awaited;
	s->keep_moved = o->keep_moved;
	/* The store's numbers have a sign. */
	s->counted_bytes = MIN(o->bytes, (uint64_t)INT64_MAX);
	s->dirfd = -1;
	s->is_expected = o->is_expected;
	s->expected_userdata = o->expected_userdata;
	r = describe(s, o);
	if (r >= 0)
		r = submitter_intake_take(s->submitter, filesystem, &s->intake);
	if (r == -EUSERS)
		submitter_set_full_failure(s->submitter, filesystem, &s->failure);
	s->session = ++s->submitter->sessions;
	if (r >= 0)
		r = worker_validate(intake_worker(s->intake), s->session, groups, n, o->rmdir,
				    view_fd, &callbacks, s);
	if (r < 0) {
		fail(s, r);
		submit_end(s);
	}
}
