/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-run.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "durability.h"
#include "job-finish.h"
#include "retry.h"
#include "staged-names.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/workers/pacers.h"
#include "pacing/debt/payer.h"
#include "job-restore.h"
#include "remainder.h"
#include "schedule.h"
#include "settlement.h"
#include "sharing.h"
#include "shrinking.h"
#include "undo-deadline.h"
#include "withdrawal.h"
#include "base/array.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/units.h"
#include "wire/protocol.h"

/* Names at a time: enough for the engine to work on without a pause, and about a MiB. */
#define CHUNK 16384
#define UNREAD_MAX 8
#define TELL_USEC (1 * USEC_PER_SEC)

/* After a crash so many are looked for in vain; and each flush commits what the names before have
 * left in the journal, over and over the same blocks. */
#define OWED_MOST 8

/* So many jobs wait at a time for what they leave to be written back; more are done without it, and
 * it is written back nevertheless. */
#define SETTLING_MOST 64

/* What comes is freed by itself where it is not wanted any more. */
struct chunk_ahead {
	struct job_run *run; /* NULL: that has ended */
	struct chunk *chunk;
	int r;
	bool came, wanted; /* wanted: the run waits for it */
};

static void ahead_drop(struct job_run *run)
{
	struct chunk_ahead *a = run->ahead;

	run->ahead = NULL;
	if (!a)
		return;
	a->run = NULL;
	if (!a->came)
		return;
	chunk_free(a->chunk);
	free(a);
}

static void run_group_clear(struct job_run *run)
{
	free(run->items);
	free(run->numbers);
	free(run->kept);
	run->items = NULL;
	run->numbers = NULL;
	run->kept = NULL;
	fd_closep(&run->origin_fd);
	run->own_worker = worker_free(run->own_worker);
}

/* Takes the run away from the job, which is still running by its state; the run is the caller's,
 * and holds nothing any more. */
static void release(struct job_run *run)
{
	struct job *j = run->job;
	struct jobs *jobs = run->jobs;

	run_group_clear(run);
	for (size_t i = 0; i < run->n_told; i++)
		free(run->told[i]);
	free(run->told);
	run->told = NULL;
	run->n_told = 0;
	run->tell = sd_event_source_disable_unref(run->tell);
	jobs->settling -= run->settlement != NULL;
	j->r.settling = false;
	j->settles = NULL;
	run->settlement = settlement_free(run->settlement);
	run->debt = debt_hold_free(run->debt);
	/* What may come back with a power cut is not on record as gone. */
	if (run->outcome && run->owed > 0)
		outcome_free(run->outcome);
	else if (run->outcome)
		outcome_record(run->outcome, jobs->context->store, NULL, NULL);
	chunk_free(run->chunk);
	ahead_drop(run);
	fd_closep(&run->staged_fd);
	if (jobs->sharing)
		jobs->sharing->left(j, jobs->sharing->userdata);
	withdrawal_begin(j);
	j->run = NULL;
	j->deletes = NULL;
	j->silent = false;
	job_enter(j, PHASE_LEAVING);
	schedule_leave(j);
	if (run->uses_area)
		staging_area_release(j->area);
	schedule_kick(jobs);
}

static void end_flow(struct job_run *run)
{
	struct context *c = run->jobs->context;

	free(run);
	context_flow_ends(c);
}

/* ---- other hosts ------------------------------------------------------------------------------
 */

static void leave(struct job_run *run, void (*next)(struct job *j));
static void load_next(struct job_run *run);
static void stop_here(struct job_run *run);

bool run_waits_for_hosts(const struct job *j)
{
	return j->run && j->run->with_hosts;
}

void run_demand(struct job *j, unsigned units)
{
	if (j->run && j->deletes && !j->run->alone && !j->run->stopped)
		worker_demand(j->deletes, units);
}

/* From the first name again: whatever became of what was given away, what is left is found. What
 * has failed fails again, and is counted then. */
static void go_on_alone(struct job_run *run)
{
	struct job *j = run->job;

	run->alone = true;
	run->all_staged = run->lost == 0 && run->absent == 0;
	run->left = run->lost = run->missing = 0;
	j->r.errors = run->errors_before;
	j->r.skipped = run->skipped_before;
	run->next = 1;
	run->chunk = chunk_free(run->chunk);
	ahead_drop(run);
	job_set_text(&j->r.message, NULL);
	job_tell(j);
	load_next(run);
}

static void on_no_host(struct job *j)
{
	struct job_run *run = j->run;
	void (*next)(struct job * j) = run->then_leave;

	run->with_hosts = false;
	run->given = 0;
	run->then_leave = NULL;
	if (next)
		leave(run, next);
	else if (run->stopped || run->jobs->context->stopping)
		stop_here(run);
	else
		go_on_alone(run);
}

/* Other hosts are to stop, by the database, and by the mark where that cannot be asked. */
static void recall(const struct job_run *run)
{
	const struct sharing *sharing = run->jobs->sharing;

	withdrawal_begin(run->job);
	sharing->recall(run->job, sharing->userdata);
}

/* The end of a daemon waits for no other: its next start goes through all names again. Returns
 * false if there is nothing to wait for. */
static bool wait_for_hosts(struct job_run *run, bool recalls)
{
	const struct sharing *sharing = run->jobs->sharing;
	struct job *j = run->job;

	if (run->given == 0 || !sharing || run->jobs->context->stopping)
		return false;
	run->with_hosts = true;
	job_say(j, "other hosts of the fleet are at parts of it");
	job_tell(j);
	if (recalls)
		recall(run);
	sharing->wait(j, on_no_host, sharing->userdata);
	return true;
}

/* The run ends before its job does. Hands the job to the request that stopped it, if there is one,
 * else to `next`, after which it is recorded. */
static void leave(struct job_run *run, void (*next)(struct job *j))
{
	struct job *j = run->job;

	run->then_leave = next;
	if (wait_for_hosts(run, /* recalls= */ true))
		return;
	release(run);
	if (run->stopped) {
		run->stopped(j, run->stopped_userdata);
	} else {
		next(j);
		job_save(j, NULL, NULL);
	}
	end_flow(run);
}

/* For its turn, and where its filesystem is not mounted, first for that. */
static void wait_again(struct job *j)
{
	if (!staging_area_is_mounted(j->area)) {
		job_say(j, "waits: %s is not mounted; goes on when it is", j->area->mount);
		log_job(LOG_NOTICE, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
			j->r.message);
		j->area->absent = true;
	}
	schedule_job(j);
}

static void pause_for_person(struct job *j)
{
	j->r.resume_state = JOB_QUEUED;
	job_enter(j, PHASE_PAUSED);
	log_job(LOG_WARNING, MESSAGE_JOB_INCOMPLETE, &j->r, "Job %" PRIu64 " pauses: %s", j->r.id,
		j->r.message);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

/* What is left of a job that has ended with s, and where it is. */
static void say_left(struct job *j, const struct restore_result *back, uint64_t left,
		     enum job_state s)
{
	char names[COUNTED_SIZE];

	(void)counted_format(names, sizeof(names), j->r.names, "name", "names");
	if (back->stuck > 0)
		job_say(j,
			"%" PRIu64 " of %s could not be deleted, and %s kept in %s/%u/%s "
			"because %s cannot go back: %s",
			back->stuck, names, back->stuck == 1 ? "is" : "are", j->area->dir,
			(unsigned)j->r.uid, j->r.staging, back->stuck == 1 ? "it" : "they",
			back->text);
	else if (j->r.names == 1)
		job_say(j, "%s in its place",
			s == JOB_PARTIAL ? "not all of it could be deleted; what is left is"
					 : "it could not be deleted and is");
	else
		job_say(j, "%" PRIu64 " of %s could not be deleted and %s", left, names,
			left == 1 ? "is in its place" : "are in their place");
}

/* Says how many names were gone before reclaimd could delete them, or nothing. */
static void say_gone(const struct job_run *run, const struct restore_result *back)
{
	struct job *j = run->job;
	uint64_t gone = run->missing + back->gone;
	char names[COUNTED_SIZE];

	if (gone == 0) {
		job_set_text(&j->r.message, NULL);
		return;
	}
	job_say(j, "%" PRIu64 " of %s already gone%s%s", gone,
		counted_format(names, sizeof(names), j->r.names, "name was", "names were"),
		run->was_certain ? "" : ", perhaps deleted before an interruption",
		run->removed ? ": its directory in staging is not there any more; nothing of it is "
			       "left there or where it was"
			     : "");
}

static void conclude(struct job *j, const struct restore_result *back, void *userdata)
{
	struct job_run *run = userdata;
	enum job_state s = JOB_DONE;

	if (j->phase == PHASE_CLEARING)
		job_enter(j, PHASE_LEAVING);
	if (back->interrupted) {
		schedule_job(j);
		job_save(j, NULL, NULL);
		end_flow(run);
		return;
	}
	if (run->left > 0 || j->r.errors > 0 || back->stuck > 0)
		s = run->gone > run->missing || j->r.entries_done > 0 ? JOB_PARTIAL : JOB_FAILED;
	if (s != JOB_DONE)
		say_left(j, back, MAX(run->left, back->back), s);
	else
		say_gone(run, back);
	job_finish(j, s);
	if (run->stopped)
		run->stopped(j, run->stopped_userdata);
	end_flow(run);
}

static void run_retry(struct job_run *run, int error);

/* Once more, where they were. */
static void search_origin(struct job_run *run)
{
	run->unmoved = true;
	run->lost = 0;
	run->next = 1;
	run->chunk = chunk_free(run->chunk);
	ahead_drop(run);
	load_next(run);
}

static void on_sibling(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct job_run *run = userdata;
	const struct lasting_identity *own = &run->job->r.staging_id;

	/* The filesystem is compared by the directories that names were in. */
	run->seen = run->seen || strcmp(name, run->job->uuid_text) == 0 ||
		    (id->ino == own->ino && id->btime_nsec == own->btime_nsec);
}

static void on_siblings(int r, void *userdata)
{
	struct job_run *run = userdata;

	if (retry_helps(r)) {
		run_retry(run, r);
		return;
	}
	run->removed = r == 0 && !run->seen;
	search_origin(run);
}

static void on_siblings_dir(int r, int fd, void *userdata)
{
	struct job_run *run = userdata;
	struct worker *intake;

	if (r >= 0)
		r = staging_area_intake(run->job->area, run->job->submitter, &intake);
	if (r >= 0)
		r = worker_list_staging(intake, fd, NULL, on_sibling, on_siblings, run);
	if (r < 0)
		on_siblings(r, run);
}

static void on_filesystem(struct job *j, int r, void *userdata)
{
	struct job_run *run = userdata;

	(void)j;
	if (retry_helps(r)) {
		run_retry(run, r);
		return;
	}
	run->removed = r == 0;
	search_origin(run);
}

/* Names that are not in staging: looked for where they were, or waited for. */
static bool search_lost(struct job_run *run)
{
	struct job *j = run->job;

	if (run->lost == 0 || run->stopped || (run->unmoved && run->absent == 0))
		return false;
	if (!run->unmoved && run->absent == -ENOENT && !run->waits && j->r.staging_id.ino != 0) {
		run->seen = false;
		staging_area_open(j->area, /* make= */ false, on_siblings_dir, run);
	} else if (!run->unmoved && run->absent == -ENOENT && run->waits) {
		staged_filesystem_check(j, on_filesystem, run);
	} else if (!run->unmoved) {
		search_origin(run);
	} else if (run->waits) {
		job_say(j,
			"waits: the staging area on %s is unavailable (%s); goes on when it "
			"is mounted",
			j->area->mount, staging_area_error(run->absent));
		j->area->absent = true;
		leave(run, schedule_job);
	} else {
		job_say(j,
			"its directory in staging is not there any more, or another filesystem is "
			"mounted (%s): nothing more is done; `reclaimctl resume %" PRIu64
			"` checks again, `reclaimctl cancel %" PRIu64 "` gives it up",
			strerror(-run->absent), j->r.id, j->r.id);
		leave(run, pause_for_person);
	}
	return true;
}

static void run_end(struct job_run *run);

static void on_settled(void *userdata)
{
	run_end(userdata);
}

/* Returns true if the end has to wait. Another job may begin meanwhile. */
static bool settle(struct job_run *run)
{
	struct job *j = run->job;
	int r;

	if (!run->debt || run->stopped || run->jobs->context->stopping ||
	    run->jobs->settling >= SETTLING_MOST ||
	    !payer_matters(j->r.entries_done, j->r.bytes_freed))
		return false;
	r = settlement_new(&run->settlement, run->jobs->context->event, run->debt, on_settled, run);
	run->debt = NULL;
	if (r <= 0)
		return false;
	/* Nothing of the job is needed any more but its record: its filesystem can be unmounted. */
	fd_closep(&run->staged_fd);
	run_group_clear(run);
	if (run->uses_area)
		staging_area_release(j->area);
	run->uses_area = false;
	run->chunk = chunk_free(run->chunk);
	run->jobs->settling++;
	j->r.settling = true;
	j->settles = run->settlement;
	job_say(j, "all is deleted; what the kernel would write back later is being written back");
	job_tell(j);
	schedule_leave(j);
	schedule_kick(run->jobs);
	return true;
}

/* ---- what is owed -----------------------------------------------------------------------------
 */

static void count_errors(struct jobs *jobs, int error, uint64_t n)
{
	jobs->errors[error < 0 && error > -ERROR_KINDS ? -error : 0] += n;
}

static void errors_count(struct job_run *run)
{
	run->job->r.errors += run->errors;
	/* Of many it tells only the first. */
	if (run->errors > run->errors_told)
		count_errors(run->jobs, 0, run->errors - run->errors_told);
	run->job->r.skipped += run->skipped;
	run->errors = run->skipped = run->errors_told = 0;
}

static void on_owed_flushed(struct unflushed *u, int r)
{
	struct job_run *run = u->job->run;

	if (r < 0) {
		run_retry(run, r);
		return;
	}
	run->owed = 0;
	errors_count(run);
	/* Before names are looked for where they were. */
	outcome_record(run->outcome, run->jobs->context->store, NULL, NULL);
	run->outcome = NULL;
	run->then(run);
}

/* No more names are coming that would be flushed with it. */
static void owed_flush(struct job_run *run, void (*then)(struct job_run *run))
{
	run->then = then;
	run->unflushed = (struct unflushed){ .job = run->job, .flushed = on_owed_flushed };
	flush_wait_for(&run->unflushed, /* urgent= */ true);
}

static void stop_here(struct job_run *run)
{
	if (run->owed > 0)
		owed_flush(run, stop_here);
	else
		leave(run, schedule_job);
}

static void run_end(struct job_run *run)
{
	static const struct restore_result nothing;
	struct job *j = run->job;
	bool leaves = run->left > 0 || j->r.errors > 0 || j->r.skipped > 0;

	if (run->owed > 0) {
		owed_flush(run, run_end);
		return;
	}
	if (!run->stopped && wait_for_hosts(run, /* recalls= */ false))
		return;
	if (search_lost(run) || (!leaves && settle(run)))
		return;
	/* What is left is for the request that stopped it; without any, that came too late. */
	if (run->stopped && (leaves || run->lost > 0)) {
		leave(run, schedule_job);
		return;
	}
	release(run);
	if (*j->r.staging && leaves) {
		job_enter(j, PHASE_CLEARING);
		restore_names(j, ENTRY_KEPT, NULL, conclude, run);
	} else {
		conclude(j, &nothing, run);
	}
}

static bool got_further(const struct job_run *run)
{
	const struct job_record *r = &run->job->r;

	return r->entries_done > run->before.entries || r->bytes_freed > run->before.bytes;
}

static void set_retry_message(struct job *j, int error, uint64_t after)
{
	const char *why = error == -EPIPE ? "a process that works for it died" : strerror(-error);
	char in[32], at[32] = "";
	time_t t = (time_t)(j->retry_usec / USEC_PER_SEC);
	struct tm tm;

	if (after == 0) {
		job_say(j, "was interrupted (%s) and is tried again", why);
		return;
	}
	if (localtime_r(&t, &tm))
		(void)strftime(at, sizeof(at), "%F %T", &tm);
	job_say(j,
		"was interrupted %u times without getting any further (%s): is tried again at %s, "
		"in %s; `reclaimctl resume %" PRIu64 "` tries now, `reclaimctl cancel %" PRIu64
		"` gives it up",
		(unsigned)j->r.attempts, why, at, timespan_format(in, sizeof(in), after), j->r.id,
		j->r.id);
}

static void run_retry(struct job_run *run, int error)
{
	struct job *j = run->job;
	uint64_t after;

	/* A stop that takes too long ends the worker. That is no fault of the job, but names may be
	 * gone that are not on record as gone: job_knows_staged(). */
	if (run->stopped || run->jobs->context->stopping) {
		j->r.attempts = MAX(j->r.attempts, 1U);
		leave(run, schedule_job);
		return;
	}
	if (!staging_area_is_mounted(j->area)) {
		leave(run, wait_again);
		return;
	}
	if (got_further(run))
		j->r.attempts = 0;
	j->r.attempts++;
	run->jobs->interruptions++;
	after = retry_after_usec(j->r.attempts);
	if (after > 0)
		j->retry_usec = deadline_clock(run->jobs) + after;
	set_retry_message(j, error, after);
	log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
		j->r.message);
	leave(run, schedule_job);
}

static void run_group_done(struct job_run *run);

/* ---- the names of one directory ---------------------------------------------------------------
 */

/* Of a job that waits for a flush with others: so many such jobs take some MiB. */
#define NAMES_WAITING 256

static bool is_staged(const struct job_run *run)
{
	return run->chunk->entries[run->at].state == ENTRY_STAGED && !run->unmoved;
}

/* Behind this chunk, as far as can be told. */
static bool more_follow(const struct job_run *run)
{
	return run->chunk->n == CHUNK;
}

static bool same_group(const struct job_run *run, const struct chunk_entry *e)
{
	const struct chunk_entry *first = &run->chunk->entries[run->at];

	return first->state == e->state && (is_staged(run) || first->dir == e->dir);
}

static int items_new(struct job_run *run)
{
	size_t n = run->end - run->at;

	run->items = calloc(n, sizeof(*run->items));
	run->kept = calloc(n, sizeof(*run->kept));
	run->numbers = is_staged(run) ? calloc(n, sizeof(*run->numbers)) : NULL;
	if (!run->items || !run->kept || (is_staged(run) && !run->numbers))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct chunk_entry *e = &run->chunk->entries[run->at + i];

		run->items[i] = (struct run_item){ .seq = e->seq,
						   .name = chunk_name(run->chunk, e),
						   .id = e->id };
		if (!run->numbers)
			continue;
		(void)snprintf(run->numbers[i], sizeof(run->numbers[i]), "%" PRIu64, e->seq);
		run->items[i].name = run->numbers[i];
	}
	return 0;
}

/* ---- what became of them ---------------------------------------------------------------------
 */

static int compare_seq(const void *key, const void *item)
{
	const uint64_t *seq = key;
	const struct run_item *i = item;

	return *seq < i->seq ? -1 : *seq > i->seq;
}

/* Index of a name by its number, or -1 if the worker speaks of what it was not asked for. */
static ssize_t index_of(const struct job_run *run, uint64_t seq)
{
	const struct run_item *i =
		bsearch(&seq, run->items, run->end - run->at, sizeof(*run->items), compare_seq);

	return i ? i - run->items : -1;
}

static void tell_problem(struct job_run *run, const char *path, const char *what, int error)
{
	struct problem_record p = { .path = path, .what = what, .error = error, .is_error = true };

	count_errors(run->jobs, error, 1);
	(void)outcome_problem(run->outcome, &p);
}

/* In staging, names are numbers in the job's directory. What a path there is to the submitter:
 * malloc'ed, or NULL if it is one already. */
static char *path_known(const struct job_run *run, const char *path)
{
	size_t len = strlen(run->job->uuid_text);
	uint64_t seq = 0;
	ssize_t i;

	if (!is_staged(run) || strncmp(path, run->job->uuid_text, len) != 0)
		return NULL;
	if (path[len] == '\0')
		return strdup(run->job->r.path);
	for (len++; path[len] >= '0' && path[len] <= '9'; len++)
		seq = seq * 10 + (uint64_t)(path[len] - '0');
	i = index_of(run, seq);
	return i < 0 ? NULL
		     : chunk_path(run->chunk, &run->chunk->entries[run->at + (size_t)i],
				  path + len);
}

/* A run that has given something away comes by its names a second time: each problem is told once.
 * Remembers it. */
static bool is_told(struct job_run *run, const char *path)
{
	if (!run->jobs->sharing)
		return false;
	for (size_t i = 0; run->alone && i < run->n_told; i++)
		if (strcmp(run->told[i], path) == 0)
			return true;
	/* Without memory it is told twice. */
	if (!run->alone && run->n_told < PROTOCOL_PROBLEMS)
		(void)strings_add(&run->told, &run->n_told, strdup(path));
	return false;
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	struct job_run *run = userdata;
	char *path = path_known(run, p->path);
	struct problem_record known = *p;

	if (path)
		known.path = path;
	if (!is_told(run, known.path)) {
		if (p->is_error) {
			run->errors_told++;
			count_errors(run->jobs, p->error, 1);
		}
		(void)outcome_problem(run->outcome, &known);
	}
	free(path);
}

/* What is not where it was either may be in staging nevertheless. */
static bool must_stay_on_record(const struct job_run *run)
{
	return run->unmoved && !run->removed && (run->absent < 0 || run->left > 0);
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	struct job_run *run = userdata;
	ssize_t i = index_of(run, seq);

	if (i < 0 || (error == -ENOENT && is_staged(run) && run->all_staged))
		return;
	if (error == -EINPROGRESS && run->given > 0) {
		run->kept[i] = true;
		return;
	}
	if (error == -ENOENT && (is_staged(run) || must_stay_on_record(run))) {
		run->lost++;
	} else if (error == -ENOENT) {
		run->missing++;
		return;
	} else if (error != -ECANCELED && !run->kept[i]) {
		run->left++; /* why, the worker has told */
	}
	run->kept[i] = true;
}

/* Staged names that are left stay marked as staged: at the end of the run they are put back. */
static int mark_all(struct job_run *run)
{
	int r = 0;

	for (size_t i = run->at; i < run->end && r >= 0; i++) {
		const struct chunk_entry *e = &run->chunk->entries[i];

		if (!run->kept[i - run->at]) {
			run->gone++;
			r = outcome_mark(run->outcome, e->seq, e->seq, ENTRY_GONE);
		}
	}
	return r;
}

void run_count(struct job *j, uint64_t entries, uint64_t bytes)
{
	j->r.entries_done += entries;
	j->r.bytes_freed += bytes;
	j->jobs->entries_freed += entries;
	j->jobs->bytes_freed += bytes;
}

/* The worker holds what is left of large files, and does nothing else any more. */
static void keep_remainder(struct job_run *run, struct worker *w, uint64_t bytes)
{
	int dirfd = run->own_worker ? run->origin_fd : run->staged_fd;

	if (!run->own_worker)
		staging_area_detach_deleter(run->job->area);
	run->own_worker = NULL;
	remainder_new(run->job, w, dirfd, bytes);
}

static void on_shrinks(int fd, uint64_t bytes, void *userdata)
{
	struct job_run *run = userdata;

	shrinking_add(run->job, fd, bytes);
}

static void on_given(const struct given_unit *u, void *userdata)
{
	struct job_run *run = userdata;
	const struct sharing *sharing = run->jobs->sharing;

	run->given++;
	if (sharing)
		sharing->given(run->job, u, sharing->userdata);
}

static bool is_shared(const struct job_run *run)
{
	const struct sharing *sharing = run->jobs->sharing;

	return sharing && is_staged(run) && !run->alone && run->job->r.kind == JOB_DELETE &&
	       sharing->may(run->job, sharing->userdata);
}

static void on_flushed(struct unflushed *u, int r)
{
	struct job_run *run = u->job->run;

	if (r >= 0) {
		run->owed = is_staged(run) ? 0 : run->owed;
		errors_count(run);
		r = mark_all(run);
	}
	if (r < 0)
		run_retry(run, r);
	else
		run_group_done(run);
}

/* They are flushed with the names that follow. */
static void owe(struct job_run *run)
{
	int r = mark_all(run);

	run->owed++;
	if (r < 0)
		run_retry(run, r);
	else
		run_group_done(run);
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	struct job_run *run = userdata;
	struct job *j = run->job;
	struct worker *w = j->deletes;
	struct run_progress killed;

	j->deletes = NULL;
	worker_urgent(w, false);
	if (r < 0 || !result) {
		/* What it has done is done, though it could not say so. */
		worker_progress(w, &killed);
		run_count(j, killed.entries, killed.bytes);
		shrinking_counted(j, /* names= */ false);
		(void)remainder_of(j);
		run_retry(run, r < 0 ? r : -EPROTO);
		return;
	}
	run_count(j, result->entries, result->bytes);
	shrinking_counted(j, /* names= */ true);
	if (!run->debt)
		run->debt = worker_debt(w);
	run->errors += result->errors;
	run->skipped += result->skipped;
	if (result->strategy && *result->strategy && !*j->r.strategy)
		job_set_text(&j->r.strategy, result->strategy);
	if (result->remainder_bytes > 0)
		keep_remainder(run, w, result->bytes);
	run->unflushed = (struct unflushed){ .job = j, .flushed = on_flushed };
	if (result->unflushed && more_follow(run))
		owe(run);
	else if (result->unflushed)
		flush_wait_for(&run->unflushed, run->stopped);
	else
		on_flushed(&run->unflushed, 0);
}

/* ---- asking the worker ------------------------------------------------------------------------
 */

/* With all its names dealt with, nothing is left of it but to wait: others can go on meanwhile. One
 * of many names has a flush of its own, as all of them are in memory until then. Where more names
 * follow in the same directory, one flush does for several chunks. */
static bool flush_may_wait(const struct job_run *run)
{
	if (!is_staged(run) || run->end < run->chunk->n)
		return false;
	return more_follow(run) ? run->owed + 1 < OWED_MOST
				: run->lost == 0 && run->end - run->at <= NAMES_WAITING;
}

static int begin_in(struct job_run *run, struct worker *worker, int dirfd, const char *display,
		    const struct lasting_identity *id)
{
	const struct run_callbacks callbacks = {
		.problem = on_problem,
		.kept = on_kept,
		.ran = on_ran,
		.shrinks = on_shrinks,
		.may_wait = flush_may_wait(run),
		.owes = is_staged(run) && run->owed > 0,
		.rmdir = run->job->r.kind == JOB_RMDIR,
		.given = is_shared(run) ? on_given : NULL,
	};
	int r = run->stopped ? -ECANCELED : items_new(run);

	/* It may have been unmounted since it was opened: what is open would keep it busy. */
	if (r >= 0 && !context_is_mounted(run->jobs->context, dirfd))
		r = -ENODEV;
	if (r >= 0)
		r = worker_run(worker, dirfd, id, run->unmoved ? run->job->r.created_usec : 0,
			       display, run->items, run->end - run->at, &callbacks, run);
	if (r < 0)
		return r;
	run->job->deletes = worker;
	worker_urgent(worker, run->short_of_space || run->short_of_time);
	if (callbacks.given)
		run->jobs->sharing->begun(run->job, run->jobs->sharing->userdata);
	return 0;
}

static const struct lasting_identity *id_or_null(const struct lasting_identity *id)
{
	return id->ino != 0 ? id : NULL;
}

static int run_staged(struct job_run *run)
{
	struct job *j = run->job;
	struct worker *worker;
	int r = staging_area_deleter(j->area, j->submitter, &worker);

	return r < 0 ? r
		     : begin_in(run, worker, run->staged_fd, j->uuid_text,
				id_or_null(&j->r.staging_id));
}

/* It may never have been made durable, or be on another disk that is not mounted. */
static void staged_absent(struct job_run *run, int error, bool waits)
{
	run->absent = error;
	run->waits = waits;
	run->lost += run->end - run->at;
	run_group_done(run);
}

static void on_staged_dir(int r, int fd, void *userdata)
{
	struct job_run *run = userdata;

	if (r >= 0) {
		run->staged_fd = fd;
		r = run_staged(run);
	} else if (r == -ENOENT || r == -ESTALE || r == -ENOTDIR || r == -EXDEV) {
		staged_absent(run, r, /* waits= */ false);
		return;
	}
	if (r < 0)
		run_retry(run, r);
}

static void on_staging(int r, int fd, void *userdata)
{
	struct job_run *run = userdata;
	struct job *j = run->job;
	struct worker *intake;

	if (r == -ENOENT || r == -ENODEV || r == -EXDEV || r == -EPERM || r == -ESTALE ||
	    r == -ENOTDIR) {
		staged_absent(run, r, /* waits= */ true);
		return;
	}
	if (r >= 0)
		r = staging_area_intake(j->area, j->submitter, &intake);
	if (r >= 0)
		r = worker_open_dir(intake, fd, j->uuid_text, id_or_null(&j->r.staging_id),
				    on_staged_dir, run);
	if (r < 0)
		run_retry(run, r);
}

/* For as long as the run takes. */
static void area_open(struct job_run *run, staging_area_opened_t opened)
{
	if (!run->uses_area)
		staging_area_use(run->job->area);
	run->uses_area = true;
	staging_area_open(run->job->area, /* make= */ false, opened, run);
}

static int begin_staged(struct job_run *run)
{
	if (run->staged_fd >= 0)
		return run_staged(run);
	area_open(run, on_staging);
	return 0;
}

static void keep_group(struct job_run *run, const char *path, int error)
{
	if (run->unmoved) {
		run->lost += run->end - run->at;
		run_group_done(run);
		return;
	}
	tell_problem(run, path,
		     error == -ESTALE ? "is another directory than the one names were submitted "
					"from: they are kept"
				      : "the directory that names were submitted from cannot be "
					"opened: they are kept",
		     error);
	run->job->r.errors++;
	for (size_t i = run->at; i < run->end; i++) {
		run->left++;
		(void)outcome_mark(run->outcome, run->chunk->entries[i].seq,
				   run->chunk->entries[i].seq, ENTRY_KEPT);
	}
	run_group_done(run);
}

static void on_origin_dir(int r, int fd, void *userdata)
{
	struct job_run *run = userdata;
	const struct chunk_dir *dir = chunk_dir(run->chunk, run->chunk->entries[run->at].dir);

	/* Where the filesystem is not mounted any more, another directory may have the path. */
	if (r < 0 && !retry_helps(r) && staging_area_is_mounted(run->job->area)) {
		keep_group(run, dir->path, r);
		return;
	}
	if (r >= 0) {
		run->origin_fd = fd;
		r = staging_area_deleter_for(run->job->area, run->job->submitter, fd,
					     &run->own_worker);
	}
	if (r >= 0)
		r = begin_in(run, run->own_worker, fd, dir->path, id_or_null(&dir->id));
	if (r < 0)
		run_retry(run, r);
}

static int begin_in_place(struct job_run *run)
{
	const struct chunk_dir *dir = chunk_dir(run->chunk, run->chunk->entries[run->at].dir);
	struct worker *intake;
	int r;

	if (!dir) {
		keep_group(run, run->job->r.path, -ENOENT);
		return 0;
	}
	r = staging_area_intake(run->job->area, run->job->submitter, &intake);
	return r < 0 ? r
		     : worker_open_dir(intake, -1, dir->path, id_or_null(&dir->id), on_origin_dir,
				       run);
}

static void run_group_begin(struct job_run *run)
{
	int r;

	run->end = run->at + 1;
	while (run->end < run->chunk->n && same_group(run, &run->chunk->entries[run->end]))
		run->end++;
	if (!staging_area_is_mounted(run->job->area))
		r = -ENODEV;
	else if (is_staged(run))
		r = begin_staged(run);
	else
		r = begin_in_place(run);
	if (r < 0)
		run_retry(run, r);
}

/* ---- from chunk to chunk ----------------------------------------------------------------------
 */

static void run_group_done(struct job_run *run)
{
	run_group_clear(run);
	job_progressed(run->job);
	run->at = run->end;
	if (run->stopped) {
		stop_here(run);
		return;
	}
	if (run->at < run->chunk->n) {
		run_group_begin(run);
		return;
	}
	if (run->owed == 0) {
		outcome_record(run->outcome, run->jobs->context->store, NULL, NULL);
		run->outcome = NULL;
	}
	if (run->chunk->n < CHUNK) {
		run_end(run);
		return;
	}
	run->next = run->chunk->entries[run->chunk->n - 1].seq + 1;
	run->chunk = chunk_free(run->chunk);
	if (run->owed == 0)
		job_save(run->job, NULL, NULL);
	load_next(run);
}

static void ahead_load(struct job_run *run);

static void on_loaded(int r, struct chunk *c, void *userdata)
{
	struct job_run *run = userdata;

	run->chunk = c;
	run->at = 0;
	/* A read fails with the writes of its transaction, which is no fault of this job. */
	if (r < 0 && run->unread++ < UNREAD_MAX) {
		load_next(run);
		return;
	}
	if (r >= 0) {
		run->unread = 0;
		r = run->job->unmarked;
	}
	if (r >= 0 && !run->stopped && c->n > 0 && !run->outcome) {
		run->outcome = outcome_new(run->job->r.id);
		r = run->outcome ? 0 : -ENOMEM;
	}
	if (r < 0) {
		run_retry(run, r);
	} else if (run->stopped) {
		stop_here(run);
	} else if (c->n == 0) {
		run_end(run);
	} else {
		run->first_seq = run->first_seq ? run->first_seq : c->entries[0].seq;
		ahead_load(run);
		run_group_begin(run);
	}
}

static uint32_t states_to_load(const struct job_run *run)
{
	return 1U << ENTRY_STAGED | (run->unmoved ? 0 : 1U << ENTRY_WAITING);
}

static void ahead_loaded(int r, struct chunk *c, void *userdata)
{
	struct chunk_ahead *a = userdata;
	struct job_run *run = a->run;

	if (run && !a->wanted) {
		a->chunk = c;
		a->r = r;
		a->came = true;
		return;
	}
	free(a);
	if (!run) {
		chunk_free(c);
		return;
	}
	run->ahead = NULL;
	on_loaded(r, c, run);
}

/* What becomes of this chunk says nothing of the next one, so that the deleter need not wait for
 * the store. */
static void ahead_load(struct job_run *run)
{
	const struct chunk *c = run->chunk;

	assert(!run->ahead);
	run->ahead = c->n == CHUNK ? calloc(1, sizeof(*run->ahead)) : NULL;
	if (!run->ahead)
		return;
	run->ahead->run = run;
	if (chunk_load(run->jobs->context->store, STORE_DAEMON, run->job->r.id,
		       c->entries[c->n - 1].seq + 1, CHUNK, states_to_load(run), ahead_loaded,
		       run->ahead) >= 0)
		return;
	free(run->ahead);
	run->ahead = NULL; /* it is read when its time comes */
}

static void load(struct job_run *run)
{
	/* Answered behind all that was posted before: nothing is deleted before it is durable which
	 * names were moved. */
	int r = chunk_load(run->jobs->context->store, STORE_DAEMON, run->job->r.id, run->next,
			   CHUNK, states_to_load(run), on_loaded, run);

	if (r < 0)
		run_retry(run, r);
}

static void on_staged_known(struct job *j, bool known, void *userdata)
{
	struct job_run *run = userdata;

	(void)j;
	if (known)
		load(run);
	else
		run_retry(run, -EAGAIN);
}

static void load_next(struct job_run *run)
{
	struct chunk_ahead *a = run->ahead;

	/* The store does not know which names were moved: staging does. */
	if (run->job->unmarked) {
		ahead_drop(run);
		staged_names_find(run->job, on_staged_known, run);
	} else if (!a) {
		load(run);
	} else if (!a->came) {
		a->wanted = true;
	} else {
		run->ahead = NULL;
		on_loaded(a->r, a->chunk, run);
		free(a);
	}
}

static void on_remainder_gone(struct job *j, void *userdata)
{
	struct job_run *run = userdata;

	(void)j;
	run->frees_remainder = false;
	if (run->stopped)
		leave(run, schedule_job);
	else
		load_next(run);
}

/* First with what is left of large files. */
static void go_on(struct job_run *run)
{
	struct remainder *remainder = remainder_of(run->job);

	if (run->stopped) {
		leave(run, schedule_job);
	} else if (remainder) {
		run->frees_remainder = true;
		remainder_watch(remainder, on_remainder_gone, run);
		remainder_free_paced(remainder);
	} else {
		load_next(run);
	}
}

/* Without the staging directory a remainder is freed all the same, at a pace that knows less. */
static void on_remainder_staging(int r, int fd, void *userdata)
{
	(void)r;
	(void)fd;
	go_on(userdata);
}

static void run_start(struct job_run *run)
{
	const struct remainder *remainder = remainder_of(run->job);

	/* Its worker is to know what a sync costs. */
	if (!run->stopped && remainder && !remainder->worker && !run->uses_area)
		area_open(run, on_remainder_staging);
	else
		go_on(run);
}

/* As far as it is; the remainder stays the job's. */
static void stop_freeing(struct job_run *run)
{
	struct remainder *remainder = run->job->remainder;

	run->frees_remainder = false;
	remainder_watch(remainder, NULL, NULL);
	remainder_hold(remainder);
	leave(run, schedule_job);
}

static void on_recorded(int r, void *userdata)
{
	/* Even if nothing can be recorded just now: deleting may be what makes room for it. */
	(void)r;
	run_start(userdata);
}

static int tell_later(struct job_run *run);

/* A large file is one name, and may take hours. */
static int on_tell(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct job_run *run = userdata;

	(void)source;
	(void)usec;
	if (run->job->deletes || run->frees_remainder)
		job_progressed(run->job);
	return tell_later(run);
}

static int tell_later(struct job_run *run)
{
	return timer_after(run->jobs->context->event, &run->tell, TELL_USEC, 0, on_tell, run,
			   "run-progress");
}

void run_begin(struct job *j)
{
	struct jobs *jobs = j->jobs;
	struct job_run *run;

	run = calloc(1, sizeof(*run));
	if (!run) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r, "Out of memory: job %" PRIu64 " waits",
			j->r.id);
		/* Not at once: it would be chosen again in the same turn of the loop. */
		j->retry_usec = deadline_clock(jobs) + USEC_PER_SEC;
		schedule_job(j);
		return;
	}
	*run = (struct job_run){ .job = j,
				 .jobs = jobs,
				 .staged_fd = -1,
				 .origin_fd = -1,
				 .next = 1,
				 .was_certain = job_knows_staged(j) };
	j->run = run;
	j->silent = false;
	schedule_enter(j);
	context_flow_begins(jobs->context);
	/* Without it, only the end of each directory's names is told. */
	(void)tell_later(run);
	if (j->area->staging_fd >= 0)
		run->staged_fd = at_hand_take(j);
	run->uses_area = run->staged_fd >= 0;
	if (run->uses_area)
		staging_area_use(j->area);
	run->begun_usec = context_clock();
	run->heard_usec = now_usec();
	run->before = (struct run_progress){ j->r.entries_done, j->r.bytes_freed };
	run->errors_before = j->r.errors;
	run->skipped_before = j->r.skipped;
	if (j->r.started_usec == 0)
		j->r.started_usec = run->begun_usec;
	job_set_text(&j->r.message, NULL);
	job_enter(j, PHASE_RUNNING);
	/* What could still be had back is not touched before it is on record that the time is over,
	 * or a clock that jumps could promise it again after a crash. */
	if (j->r.held_until_usec > 0) {
		job_save(j, on_recorded, run);
	} else {
		job_save(j, NULL, NULL);
		run_start(run);
	}
}

int run_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata)
{
	struct job_run *run = j->run;

	if (run->stopped)
		return -EBUSY;
	run->stopped = stopped;
	run->stopped_userdata = userdata;
	if (j->deletes)
		worker_stop(j->deletes);
	else if (run->with_hosts)
		recall(run);
	else if (run->unflushed.is_waiting)
		flush_now(j->area);
	else if (run->settlement)
		settlement_hurry(run->settlement);
	else if (run->frees_remainder)
		stop_freeing(run);
	return 0;
}

static void on_unmounted(struct job *j, void *userdata)
{
	(void)userdata;
	if (job_state_finished(j->r.state))
		return;
	wait_again(j);
	job_save(j, NULL, NULL);
	/* What is left of a large file keeps the filesystem, too. */
	remainders_check_mounts(j->jobs);
}

void run_check_mount(struct job *j)
{
	const struct job_run *run = j->run;
	int fd = run->staged_fd >= 0 ? run->staged_fd : run->origin_fd;

	if (fd < 0 || context_is_mounted(run->jobs->context, fd))
		return;
	if (run->unflushed.is_waiting)
		flush_now(j->area); /* it may be all that is left to be done */
	else
		(void)run_stop(j, on_unmounted, NULL);
}

void run_end_worker(struct job *j)
{
	struct worker *w = j->run ? j->run->own_worker : NULL;

	if (!w)
		return;
	/* Its end comes back here as on_ran(), which frees the run. */
	j->run->own_worker = NULL;
	worker_free(w);
}
