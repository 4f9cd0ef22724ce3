/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-run-state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "retry.h"
#include "remainder.h"
#include "base/fd.h"

/* Of a job that waits for a flush with others: so many such jobs take some MiB. */
#define NAMES_WAITING 256

static bool is_staged(const struct run *run)
{
	return run->chunk->entries[run->at].state == ENTRY_STAGED && !run->unmoved;
}

static bool same_group(const struct run *run, const struct chunk_entry *e)
{
	const struct chunk_entry *first = &run->chunk->entries[run->at];

	return first->state == e->state && (is_staged(run) || first->dir == e->dir);
}

void run_group_clear(struct run *run)
{
	free(run->items);
	free(run->numbers);
	free(run->kept);
	run->items = NULL;
	run->numbers = NULL;
	run->kept = NULL;
	fd_closep(&run->place_fd);
	run->own_worker = worker_free(run->own_worker);
	run->worker = NULL;
}

static int items_new(struct run *run)
{
	size_t n = run->end - run->at;

	run->items = calloc(n, sizeof(*run->items));
	run->kept = calloc(n, sizeof(*run->kept));
	run->numbers = is_staged(run) ? calloc(n, sizeof(*run->numbers)) : NULL;
	if (!run->items || !run->kept || (is_staged(run) && !run->numbers))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct chunk_entry *e = &run->chunk->entries[run->at + i];

		run->items[i] = (struct run_item){ .seq = e->seq, .name = e->name, .id = e->id };
		if (!run->numbers)
			continue;
		(void)snprintf(run->numbers[i], sizeof(run->numbers[i]), "%" PRIu64, e->seq);
		run->items[i].name = run->numbers[i];
	}
	return 0;
}

/* ---- what became of them ---------------------------------------------------------------------
 */

/* Index of a name by its number, or -1 if the worker speaks of what it was not asked for. */
static ssize_t index_of(const struct run *run, uint64_t seq)
{
	size_t low = 0, high = run->end - run->at;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (run->items[mid].seq == seq)
			return (ssize_t)mid;
		if (run->items[mid].seq < seq)
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}

static void count_errors(struct manager *m, int error, uint64_t n)
{
	m->errors[error < 0 && error > -ERROR_KINDS ? -error : 0] += n;
}

static void tell_problem(struct run *run, const char *path, const char *what, int error)
{
	struct problem_record p = { .path = path, .what = what, .error = error, .is_error = true };

	count_errors(run->m, error, 1);
	(void)outcome_problem(run->outcome, &p);
}

/* In staging, names are numbers in the job's directory. What a path there is to the submitter:
 * malloc'ed, or NULL if it is one already. */
static char *path_known(const struct run *run, const char *path)
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

static void on_problem(const struct problem_record *p, void *userdata)
{
	struct run *run = userdata;
	_cleanup_free_ char *path = path_known(run, p->path);
	struct problem_record known = *p;

	if (path)
		known.path = path;
	if (p->is_error) {
		run->errors_told++;
		count_errors(run->m, p->error, 1);
	}
	(void)outcome_problem(run->outcome, &known);
}

/* What is not where it was either may be in staging nevertheless. */
static bool must_stay_on_record(const struct run *run)
{
	return run->unmoved && !run->removed && (run->absent < 0 || run->left > 0);
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	struct run *run = userdata;
	ssize_t i = index_of(run, seq);

	if (i < 0)
		return;
	if (error == -ENOENT && (is_staged(run) || must_stay_on_record(run))) {
		run->kept[i] = true;
		run->lost++;
		return;
	}
	if (error == -ENOENT) {
		run->missing++;
		return;
	}
	if (error == -ECANCELED) {
		run->kept[i] = true;
		return;
	}
	if (run->kept[i])
		return;
	/* Why, the worker has told. */
	run->kept[i] = true;
	run->left++;
}

/* Staged names that are left stay marked as staged: at the end of the run they are put back. */
static int mark_all(struct run *run)
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

/* What it had done is done, whether it could say so or not. */
static void count_killed(struct run *run)
{
	struct run_progress done;

	worker_progress(run->worker, &done);
	run->job->r.entries_done += done.entries;
	run->job->r.bytes_freed += done.bytes;
	run->m->entries_freed += done.entries;
	run->m->bytes_freed += done.bytes;
}

/* The worker holds what is left of large files, and does nothing else any more. */
static void keep_rest(struct run *run, uint64_t bytes)
{
	int dirfd = run->own_worker ? run->place_fd : run->staged_fd;
	struct worker *w = run->worker;

	if (!run->own_worker)
		place_part(run->job->place);
	run->worker = run->own_worker = NULL;
	rest_new(run->job, w, dirfd, bytes);
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	struct run *run = userdata;
	struct job *j = run->job;

	run->worker_runs = false;
	worker_urgent(run->worker, false);
	if (r < 0 || !result) {
		count_killed(run);
		run_again(run, r < 0 ? r : -EPROTO);
		return;
	}
	j->r.entries_done += result->entries;
	j->r.bytes_freed += result->bytes;
	run->m->entries_freed += result->entries;
	run->m->bytes_freed += result->bytes;
	run->errors = result->errors;
	run->skipped = result->skipped;
	if (result->strategy && *result->strategy && !*j->r.strategy)
		job_set_text(&j->r.strategy, result->strategy);
	if (result->remainder_bytes > 0)
		keep_rest(run, result->bytes);
	if (result->unflushed)
		flush_wait_for(run);
	else
		run_flushed(run, 0);
}

void run_flushed(struct run *run, int r)
{
	struct job *j = run->job;

	if (r < 0) {
		run_again(run, r);
		return;
	}
	j->r.errors += run->errors;
	/* Of many it tells only the first. */
	if (run->errors > run->errors_told)
		count_errors(run->m, 0, run->errors - run->errors_told);
	j->r.skipped += run->skipped;
	r = mark_all(run);
	if (r < 0)
		run_again(run, r);
	else
		run_group_done(run);
}

/* ---- asking the worker ------------------------------------------------------------------------
 */

/* With all its names dealt with, nothing is left of it but to wait: others can go on meanwhile. One
 * of many names has a flush of its own, as all of them are in memory until then. */
static bool flush_may_wait(const struct run *run)
{
	return is_staged(run) && run->lost == 0 && run->end == run->chunk->n &&
	       run->end - run->at <= NAMES_WAITING;
}

static void begin_in(struct run *run, struct worker *worker, int dirfd, const char *display,
		     const struct lasting_identity *id)
{
	const struct run_callbacks callbacks = {
		.problem = on_problem,
		.kept = on_kept,
		.ran = on_ran,
		.may_wait = flush_may_wait(run),
	};
	int r;

	if (run->stopped) {
		run_again(run, -ECANCELED);
		return;
	}
	r = items_new(run);
	run->errors_told = 0;
	run->worker = worker;
	run->worker_runs = true;
	if (r >= 0)
		r = worker_run(worker, dirfd, id, run->unmoved ? run->job->r.created_usec : 0,
			       display, run->items, run->end - run->at, &callbacks, run);
	if (r < 0) {
		run->worker_runs = false;
		run_again(run, r);
	} else {
		worker_urgent(worker, run->short_of_space || run->short_of_time);
	}
}

static const struct lasting_identity *known(const struct lasting_identity *id)
{
	return id->ino != 0 ? id : NULL;
}

static void run_staged(struct run *run)
{
	struct job *j = run->job;
	struct worker *worker;
	int r = place_deleter(j->place, j->owner, &worker);

	if (r < 0)
		run_again(run, r);
	else
		begin_in(run, worker, run->staged_fd, j->uuid_text, known(&j->r.staging_id));
}

/* It may never have been made durable, or be on another disk that is not mounted. */
static void absent(struct run *run, int error, bool waits)
{
	run->absent = error;
	run->waits = waits;
	run->lost += run->end - run->at;
	run_group_done(run);
}

static void on_staged_dir(int r, int fd, void *userdata)
{
	struct run *run = userdata;

	if (r >= 0) {
		run->staged_fd = fd;
		run_staged(run);
	} else if (r == -ENOENT || r == -ESTALE || r == -ENOTDIR || r == -EXDEV) {
		absent(run, r, /* waits= */ false);
	} else {
		run_again(run, r);
	}
}

static void on_staging(int r, int fd, void *userdata)
{
	struct run *run = userdata;
	struct job *j = run->job;
	struct worker *intake;

	if (r == -ENOENT || r == -ENODEV || r == -EXDEV || r == -EPERM || r == -ESTALE ||
	    r == -ENOTDIR) {
		absent(run, r, /* waits= */ true);
		return;
	}
	if (r >= 0)
		r = owner_intake(j->owner, place_filesystem(j->place), &intake);
	if (r >= 0)
		r = worker_open_dir(intake, fd, j->uuid_text, known(&j->r.staging_id),
				    on_staged_dir, run);
	if (r < 0)
		run_again(run, r);
}

static void begin_staged(struct run *run)
{
	if (run->staged_fd >= 0) {
		run_staged(run);
		return;
	}
	if (!run->uses_place)
		place_use(run->job->place);
	run->uses_place = true;
	place_staging(run->job->place, /* make= */ false, on_staging, run);
}

static void keep_group(struct run *run, const char *path, int error)
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

static void on_place_dir(int r, int fd, void *userdata)
{
	struct run *run = userdata;
	const struct chunk_dir *dir = chunk_dir(run->chunk, run->chunk->entries[run->at].dir);

	if (again_helps(r)) {
		run_again(run, r);
		return;
	}
	if (r < 0) {
		keep_group(run, dir->path, r);
		return;
	}
	run->place_fd = fd;
	r = place_deleter_for(run->job->place, run->job->owner, fd, &run->own_worker);
	if (r < 0)
		run_again(run, r);
	else
		begin_in(run, run->own_worker, fd, dir->path, known(&dir->id));
}

static void begin_in_place(struct run *run)
{
	const struct chunk_dir *dir = chunk_dir(run->chunk, run->chunk->entries[run->at].dir);
	struct worker *intake;
	int r;

	if (!dir) {
		keep_group(run, run->job->r.path, -ENOENT);
		return;
	}
	r = owner_intake(run->job->owner, place_filesystem(run->job->place), &intake);
	if (r >= 0)
		r = worker_open_dir(intake, -1, dir->path, known(&dir->id), on_place_dir, run);
	if (r < 0)
		run_again(run, r);
}

void run_group_begin(struct run *run)
{
	run->end = run->at + 1;
	while (run->end < run->chunk->n && same_group(run, &run->chunk->entries[run->end]))
		run->end++;
	if (is_staged(run))
		begin_staged(run);
	else
		begin_in_place(run);
}
