/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-run-state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "retry.h"
#include "boost.h"
#include "daemon/log.h"
#include "job-restore.h"
#include "job-recover.h"
#include "remainder.h"
#include "schedule.h"
#include "base/fd.h"
#include "base/units.h"

/* Names at a time: enough for the engine to work on without a pause, and about a MiB. */
#define CHUNK 16384
#define UNREAD_MAX 8
#define TELL_USEC (1 * USEC_PER_SEC)

void run_progress(const struct run *run, struct run_progress *ret)
{
	*ret = (struct run_progress){ 0 };
	if (run->worker_runs && run->worker && run->items)
		worker_progress(run->worker, ret);
}

bool run_is_silent(const struct job *j)
{
	return j->run && j->run->silent;
}

void run_leave(struct run *run)
{
	struct place *p = run->job->place;

	if (p->running != run->job)
		return;
	p->running = NULL;
	run->m->running--;
}

/* Takes the run away from the job, which is still running by its state. */
static void release(struct run *run)
{
	struct job *j = run->job;
	struct manager *m = run->m;

	run_group_clear(run);
	run->tell = sd_event_source_disable_unref(run->tell);
	if (run->outcome)
		outcome_record(run->outcome, m->store, NULL, NULL);
	chunk_free(run->chunk);
	fd_closep(&run->staged_fd);
	j->run = NULL;
	j->doing = DOING_NOTHING;
	run_leave(run);
	if (run->uses_place)
		place_rest(j->place);
	free(run);
	schedule_kick(m);
}

/* Hands the job to who asked for the stop, if anybody did. */
static bool hand_over(struct run *run)
{
	void (*stopped)(struct job * j, void *userdata) = run->stopped;
	void *userdata = run->stopped_userdata;
	struct manager *m = run->m;
	struct job *j = run->job;

	if (!stopped)
		return false;
	release(run);
	stopped(j, userdata);
	manager_flow_ends(m);
	return true;
}

static void back_to_queue(struct run *run)
{
	struct manager *m = run->m;
	struct job *j = run->job;

	if (hand_over(run))
		return;
	release(run);
	schedule_job(j);
	job_save(j, NULL, NULL);
	manager_flow_ends(m);
}

void run_wait(struct run *run, int error)
{
	struct job *j = run->job;

	job_say(j,
		"waits: the staging directory on %s cannot be had (%s); goes on when it is mounted",
		j->place->mount, strerror(-error));
	j->place->absent = true;
	back_to_queue(run);
}

void run_pause(struct run *run, int error, const char *what)
{
	struct manager *m = run->m;
	struct job *j = run->job;

	job_say(j,
		"%s (%s): nothing more is done; `reclaimctl resume %" PRIu64 "` looks again, "
		"`reclaimctl cancel %" PRIu64 "` gives it up",
		what, strerror(-error), j->r.id, j->r.id);
	if (hand_over(run))
		return;
	release(run);
	j->r.resume_state = JOB_QUEUED;
	job_set_state(j, JOB_PAUSED);
	log_job(LOG_WARNING, MESSAGE_JOB_INCOMPLETE, &j->r, "Job %" PRIu64 " pauses: %s", j->r.id,
		j->r.message);
	job_save(j, NULL, NULL);
	manager_flow_ends(m);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

struct ending {
	bool any_gone, removed;
	uint64_t left, missing;
};

static void conclude(struct job *j, const struct put_back_result *back, void *userdata)
{
	struct ending *e = userdata;
	struct manager *m = j->manager;
	enum job_state s = JOB_DONE;
	char names[COUNTED_SIZE];

	if (back->interrupted) {
		free(e);
		schedule_job(j);
		job_save(j, NULL, NULL);
		manager_flow_ends(m);
		return;
	}
	if (e->left > 0 || j->r.errors > 0 || back->stuck > 0)
		s = e->any_gone || j->r.entries_done > 0 ? JOB_PARTIAL : JOB_FAILED;
	(void)counted_format(names, sizeof(names), j->r.names, "name", "names");
	if (back->stuck > 0)
		job_say(j,
			"%" PRIu64 " of %s could not be deleted, and are kept in "
			"%s/.reclaim/%u/%s because they cannot go back: %s",
			back->stuck, names, j->place->mount, (unsigned)j->r.uid, j->r.staging,
			back->text);
	else if (s != JOB_DONE)
		job_say(j, "%" PRIu64 " of %s could not be deleted and are in their place",
			MAX(e->left, back->back), names);
	else if (e->removed)
		job_say(j, "its directory in staging is not there any more; nothing of it "
			   "is left there or where it was");
	else
		job_set_text(&j->r.message, NULL);
	free(e);
	job_finish(j, s);
	manager_flow_ends(m);
}

static void finish_stopped(struct run *run, struct ending *e)
{
	static const struct put_back_result nothing;
	void (*stopped)(struct job * j, void *userdata) = run->stopped;
	void *userdata = run->stopped_userdata;
	struct job *j = run->job;

	release(run);
	conclude(j, &nothing, e);
	stopped(j, userdata);
}

static void load_next(struct run *run);

/* Once more, where they were. */
static void look_unmoved(struct run *run)
{
	run->unmoved = true;
	run->lost = 0;
	run->next = 1;
	run->chunk = chunk_free(run->chunk);
	load_next(run);
}

static void on_sibling(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct run *run = userdata;
	const struct lasting_identity *own = &run->job->r.staging_id;

	/* The filesystem is compared by the directories that names were in. */
	run->seen = run->seen || strcmp(name, run->job->uuid_text) == 0 ||
		    (id->ino == own->ino && id->btime_nsec == own->btime_nsec);
}

static void on_siblings(int r, void *userdata)
{
	struct run *run = userdata;

	if (again_helps(r)) {
		run_again(run, r);
		return;
	}
	run->removed = r == 0 && !run->seen;
	look_unmoved(run);
}

static void on_siblings_dir(int r, int fd, void *userdata)
{
	struct run *run = userdata;
	struct worker *intake;

	if (r >= 0)
		r = owner_intake(run->job->owner, place_filesystem(run->job->place), &intake);
	if (r >= 0)
		r = worker_list_staging(intake, fd, NULL, on_sibling, on_siblings, run);
	if (r < 0)
		on_siblings(r, run);
}

/* Names that are not in staging: looked for where they were, or waited for. */
static bool end_of_lost(struct run *run)
{
	if (run->lost == 0 || run->stopped)
		return false;
	if (!run->unmoved && run->absent == -ENOENT && !run->waits &&
	    run->job->r.staging_id.ino != 0) {
		run->seen = false;
		place_staging(run->job->place, /* make= */ false, on_siblings_dir, run);
	} else if (!run->unmoved) {
		look_unmoved(run);
	} else if (run->absent == 0) {
		return false;
	} else if (run->waits) {
		run_wait(run, run->absent);
	} else {
		run_pause(run, run->absent,
			  "its directory in staging is not there any more, or another filesystem "
			  "is mounted");
	}
	return true;
}

static void end(struct run *run)
{
	struct job *j = run->job;
	struct ending *e = calloc(1, sizeof(*e));
	struct put_back_result nothing = { 0 };
	bool leaves = run->left > 0 || j->r.errors > 0 || j->r.skipped > 0;

	if (end_of_lost(run)) {
		free(e);
		return;
	}
	/* What is left goes the way of who asked for the stop; without any, it came too late. */
	if (!e || (run->stopped && (leaves || run->lost > 0))) {
		free(e);
		back_to_queue(run);
		return;
	}
	*e = (struct ending){ .any_gone = run->gone > run->missing,
			      .left = run->left,
			      .missing = run->missing,
			      .removed = run->removed };
	if (run->stopped) {
		finish_stopped(run, e);
		return;
	}
	release(run);
	if (*j->r.staging && leaves)
		put_back(j, ENTRY_KEPT, -1, NULL, -1, conclude, e);
	else
		conclude(j, &nothing, e);
}

static bool got_further(const struct run *run)
{
	const struct job_record *r = &run->job->r;

	return r->entries_done > run->before.entries || r->bytes_freed > run->before.bytes;
}

static void say_again(struct job *j, int error, uint64_t after)
{
	const char *why = error == -EPIPE ? "a process that works for it died" : strerror(-error);
	char in[32], at[32] = "";
	time_t t = (time_t)(j->again_usec / USEC_PER_SEC);
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

void run_again(struct run *run, int error)
{
	struct job *j = run->job;
	uint64_t after;

	/* A stop that takes too long ends the worker; that is nobody's fault. */
	if (run->stopped || run->m->stopping) {
		back_to_queue(run);
		return;
	}
	if (got_further(run))
		j->r.attempts = 0;
	j->r.attempts++;
	run->m->interruptions++;
	after = again_after_usec(j->r.attempts);
	if (after > 0)
		j->again_usec = schedule_clock(run->m) + after;
	say_again(j, error, after);
	log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
		j->r.message);
	back_to_queue(run);
}

/* ---- from chunk to chunk ----------------------------------------------------------------------
 */

void run_group_done(struct run *run)
{
	run_group_clear(run);
	job_progressed(run->job);
	run->at = run->end;
	if (run->stopped) {
		back_to_queue(run);
		return;
	}
	if (run->at < run->chunk->n) {
		run_group_begin(run);
		return;
	}
	outcome_record(run->outcome, run->m->store, NULL, NULL);
	run->outcome = NULL;
	if (run->chunk->n < CHUNK) {
		end(run);
		return;
	}
	run->next = run->chunk->entries[run->chunk->n - 1].seq + 1;
	run->chunk = chunk_free(run->chunk);
	job_save(run->job, NULL, NULL);
	load_next(run);
}

static void on_loaded(int r, struct chunk *c, void *userdata)
{
	struct run *run = userdata;

	if (r >= 0 && run->job->unmarked) {
		chunk_free(c);
		run_again(run, run->job->unmarked);
		return;
	}
	/* Reading shares the fate of what is written with it, which is nobody's fault here. */
	if (r < 0 && run->unread++ < UNREAD_MAX) {
		load_next(run);
		return;
	}
	if (r < 0) {
		run_again(run, r);
		return;
	}
	run->unread = 0;
	run->chunk = c;
	run->at = 0;
	if (run->first_seq == 0 && c->n > 0)
		run->first_seq = c->entries[0].seq;
	if (run->stopped) {
		back_to_queue(run);
		return;
	}
	if (c->n == 0) {
		end(run);
		return;
	}
	run->outcome = outcome_new(run->job->r.id);
	if (!run->outcome)
		run_again(run, -ENOMEM);
	else
		run_group_begin(run);
}

static void load(struct run *run)
{
	uint32_t states = 1U << ENTRY_STAGED | (run->unmoved ? 0 : 1U << ENTRY_WAITING);
	int r = chunk_load(run->m->store, run->job->r.id, run->next, CHUNK, states, on_loaded, run);

	if (r < 0)
		run_again(run, r);
}

static void on_staged_known(struct job *j, bool known, void *userdata)
{
	struct run *run = userdata;

	j->doing = DOING_RUN;
	if (known)
		load(run);
	else
		run_again(run, -EAGAIN);
}

static void load_next(struct run *run)
{
	/* The store does not know which names were moved: staging does. */
	if (run->job->unmarked)
		recover_staged(run->job, on_staged_known, run);
	else
		load(run);
}

static void on_rest_gone(struct job *j, void *userdata)
{
	struct run *run = userdata;

	(void)j;
	run->resting = false;
	load_next(run);
}

static void begin(struct run *run)
{
	struct rest *rest = run->job->rest;

	if (run->stopped) {
		back_to_queue(run);
	} else if (rest) {
		run->resting = true;
		rest_watch(rest, on_rest_gone, run);
		rest_free(rest);
	} else {
		load_next(run);
	}
}

/* As far as it is; the rest stays the job's, or goes. */
static void stop_resting(struct run *run, bool keep)
{
	struct rest *rest = run->job->rest;

	run->resting = false;
	rest_watch(rest, NULL, NULL);
	if (keep)
		rest_hold(rest);
	else
		rest_drop(rest);
	back_to_queue(run);
}

static void on_recorded(int r, void *userdata)
{
	/* Even if nothing can be recorded just now: deleting may be what makes room for it. */
	(void)r;
	begin(userdata);
}

/* A large file is one name, and may take hours. */
static int on_tell(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct run *run = userdata;

	(void)usec;
	if (run->worker_runs || run->resting)
		job_progressed(run->job);
	(void)sd_event_source_set_time_relative(source, TELL_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

void run_begin(struct job *j)
{
	struct manager *m = j->manager;
	struct run *run = calloc(1, sizeof(*run));

	if (!run) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r, "Out of memory: job %" PRIu64 " waits",
			j->r.id);
		schedule_job(j);
		return;
	}
	*run = (struct run){ .job = j, .m = m, .staged_fd = -1, .place_fd = -1, .next = 1 };
	j->run = run;
	j->doing = DOING_RUN;
	j->place->running = j;
	m->running++;
	manager_flow_begins(m);
	/* Without it, only the end of each directory's names is told. */
	if (sd_event_add_time_relative(m->event, &run->tell, CLOCK_MONOTONIC, TELL_USEC, 0, on_tell,
				       run) >= 0)
		(void)sd_event_source_set_description(run->tell, "run-progress");
	run->begun_usec = manager_clock();
	run->heard_usec = now_usec();
	run->before = (struct run_progress){ j->r.entries_done, j->r.bytes_freed };
	if (j->r.started_usec == 0)
		j->r.started_usec = run->begun_usec;
	job_set_text(&j->r.message, NULL);
	job_set_state(j, JOB_RUNNING);
	hurry_begin(m);
	/* What could still be had back is not touched before it is on record that the time is over,
	 * or a clock that jumps could promise it again after a crash. */
	if (j->r.held_until_usec > 0) {
		job_save(j, on_recorded, run);
	} else {
		job_save(j, NULL, NULL);
		begin(run);
	}
}

int run_stop(struct job *j, bool keep, void (*stopped)(struct job *j, void *userdata),
	     void *userdata)
{
	struct run *run = j->run;

	if (run->stopped)
		return -EBUSY;
	run->stopped = stopped;
	run->stopped_userdata = userdata;
	if (run->worker_runs && run->worker)
		worker_stop(run->worker, keep);
	else if (run->flushing)
		flush_hurry(j->place);
	else if (run->resting)
		stop_resting(run, keep);
	return 0;
}
