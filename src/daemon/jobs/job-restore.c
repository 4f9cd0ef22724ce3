/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "retry.h"
#include "stored-names.h"
#include "daemon/context/log.h"
#include "outcome.h"
#include "staged-names.h"
#include "base/escape.h"
#include "base/fd.h"

/* Names that a worker is asked to move before it has answered the first. */
#define CHUNK 1024
#define UNREAD_MAX 8
/* A client may wait for it. */
#define RETRY_MOST_USEC (8 * USEC_PER_SEC)

struct job_restore {
	struct job *j;
	struct jobs *jobs;
	enum entry_state state;
	int to_fd;
	char *to_name;
	filesystem_t filesystem;
	int view_fd; /* the mount table of the process that asks; -1: none */
	uint64_t view_number;
	struct chunk *chunk;
	struct outcome *outcome;
	size_t asked, open; /* of the chunk: sent, and not answered */
	uint64_t next;
	sd_event_source *timer;
	unsigned interruptions; /* since something went back last */
	int interrupted;        /* why, if the chunk was */
	uint64_t stuck_before;  /* this chunk */
	bool uses_area;
	struct restore_result result;
	void (*done)(struct job *j, const struct restore_result *result, void *userdata);
	void *userdata;
};

/* One name on its way; its place in the chunk says which. */
struct name_restore {
	struct job_restore *b;
	size_t at;
};

static void finish(struct job_restore *b)
{
	struct restore_result result = b->result;
	void (*done)(struct job * j, const struct restore_result *r, void *userdata) = b->done;
	void *userdata = b->userdata;
	struct job *j = b->j;

	if (b->outcome)
		outcome_record(b->outcome, b->jobs->context->store, NULL, NULL);
	if (b->uses_area)
		staging_area_release(j->area);
	chunk_free(b->chunk);
	sd_event_source_disable_unref(b->timer);
	fd_closep(&b->to_fd);
	fd_closep(&b->view_fd);
	free(b->to_name);
	free(b);
	done(j, &result, userdata);
}

/* All that is left cannot be put back. */
static void fail(struct job_restore *b, int error)
{
	b->result.stuck += b->chunk && b->chunk->n > 0 ? b->chunk->n : 1;
	if (b->result.error == 0) {
		b->result.error = error;
		(void)snprintf(b->result.text, sizeof(b->result.text), "%s", strerror(-error));
	}
	finish(b);
}

static void load_next(struct job_restore *b);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct job_restore *b = userdata;

	(void)source;
	(void)usec;
	b->timer = sd_event_source_disable_unref(b->timer);
	load_next(b);
	return 0;
}

/* A worker has died, or something is short, which is not the names' fault. */
static void retry(struct job_restore *b, int error)
{
	uint64_t after;

	b->interruptions++;
	after = MIN(retry_after_usec(b->interruptions), RETRY_MOST_USEC);
	if (b->outcome)
		outcome_record(b->outcome, b->jobs->context->store, NULL, NULL);
	b->outcome = NULL;
	b->chunk = chunk_free(b->chunk);
	b->result.stuck = b->stuck_before;
	b->interrupted = 0;
	/* Even at once is later: the process that has died may not be reaped yet. */
	if (b->jobs->context->stopping ||
	    sd_event_add_time_relative(b->jobs->context->event, &b->timer, CLOCK_MONOTONIC, after,
				       0, on_retry, b) < 0) {
		b->result.interrupted = true;
		finish(b);
		return;
	}
	(void)sd_event_source_set_description(b->timer, "restore-retry");
	if (b->interruptions > UNREAD_MAX)
		return; /* that it waits has been said */
	log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &b->j->r,
		"Job %" PRIu64 " is being put back, was interrupted (%s) and goes on", b->j->r.id,
		strerror(-error));
}

static void record_stuck(struct job_restore *b, const struct chunk_entry *e, int error)
{
	const char *name = chunk_name(b->chunk, e);
	_cleanup_free_ char *path = chunk_path(b->chunk, e, "");
	_cleanup_free_ char *shown = escape_name(path ? path : name);
	struct problem_record p = { .path = path ? path : name,
				    .what = "could not be put back",
				    .error = error,
				    .is_error = true };

	(void)outcome_problem(b->outcome, &p);
	if (b->result.stuck++ > 0)
		return;
	b->result.error = error;
	(void)snprintf(b->result.text, sizeof(b->result.text), "%s: %s", shown ? shown : name,
		       strerror(-error));
}

static void chunk_answered(struct job_restore *b)
{
	size_t n = b->chunk->n;
	uint64_t last = b->chunk->entries[n - 1].seq;

	if (b->interrupted < 0) {
		retry(b, b->interrupted);
		return;
	}
	outcome_record(b->outcome, b->jobs->context->store, NULL, NULL);
	b->outcome = NULL;
	b->chunk = chunk_free(b->chunk);
	b->stuck_before = b->result.stuck;
	b->next = last + 1;
	if (n < CHUNK)
		finish(b);
	else
		load_next(b);
}

static void failed(struct job_restore *b, size_t at, int error)
{
	if (retry_helps(error))
		b->interrupted = error;
	else
		record_stuck(b, &b->chunk->entries[at], error);
}

static void on_restored(int r, void *userdata)
{
	struct name_restore *item = userdata;
	struct job_restore *b = item->b;
	size_t at = item->at;
	const struct chunk_entry *e = &b->chunk->entries[at];

	free(item);
	if (r == 0) {
		b->result.back++;
		b->interruptions = 0;
		(void)outcome_mark(b->outcome, e->seq, e->seq, b->state);
	} else if (r == -ENOENT) {
		/* A worker or the daemon died after it had gone back, or it has been fetched. */
		(void)outcome_mark(b->outcome, e->seq, e->seq, b->state);
	} else {
		failed(b, at, r);
	}
	if (--b->open == 0 && b->asked == b->chunk->n)
		chunk_answered(b);
}

static int restore_name(struct job_restore *b, struct worker *intake, size_t at)
{
	const struct chunk_entry *e = &b->chunk->entries[at];
	const struct chunk_dir *dir = chunk_dir(b->chunk, e->dir);
	struct restore_message m = {
		.job_dir = b->j->uuid_text,
		.seq = e->seq,
		.name = chunk_name(b->chunk, e),
		.dir_path = dir ? dir->path : "",
		.id = e->id,
		.to_name = b->to_name,
		.view_number = b->view_number,
		.staging = b->j->area->staging_fd,
		.to = b->to_fd,
		.view = b->view_fd,
	};
	struct name_restore *open = malloc(sizeof(*open));
	int r;

	if (!open)
		return -ENOMEM;
	*open = (struct name_restore){ .b = b, .at = at };
	if (dir)
		m.dir_id = dir->id;
	r = dir || b->to_fd >= 0 ? worker_restore(intake, &m, on_restored, open) : -ENOENT;
	if (r < 0)
		free(open);
	return r;
}

static void restore_chunk(struct job_restore *b)
{
	struct worker *intake;
	int r;

	/* One more is open while they are sent, so that answers in the call do not end the chunk.
	 */
	b->open = 1;
	for (b->asked = 0; b->asked < b->chunk->n; b->asked++) {
		b->open++;
		r = submitter_intake(b->j->submitter, b->filesystem, &intake);
		if (r >= 0)
			r = restore_name(b, intake, b->asked);
		if (r < 0) {
			b->open--;
			failed(b, b->asked, r);
		}
	}
	if (--b->open == 0)
		chunk_answered(b);
}

static void on_staging(int r, int fd, void *userdata)
{
	struct job_restore *b = userdata;

	(void)fd;
	if (retry_helps(r))
		retry(b, r);
	else if (r < 0)
		fail(b, r);
	else
		restore_chunk(b);
}

static void on_loaded(int r, struct chunk *c, void *userdata)
{
	struct job_restore *b = userdata;

	b->chunk = c;
	if (r >= 0)
		r = b->j->unmarked;
	if (r >= 0 && c->n > 0) {
		b->outcome = outcome_new(b->j->r.id);
		r = b->outcome ? 0 : -ENOMEM;
	}
	/* A read fails with the writes of its transaction. */
	if (r < 0 && (retry_helps(r) || b->interruptions < UNREAD_MAX))
		retry(b, r);
	else if (r < 0)
		fail(b, r);
	else if (c->n == 0)
		finish(b);
	else
		staging_area_open(b->j->area, /* make= */ false, on_staging, b);
}

static void load(struct job_restore *b)
{
	int r = chunk_load(b->jobs->context->store, b->j->r.id, b->next, CHUNK, 1U << ENTRY_STAGED,
			   on_loaded, b);

	if (r < 0)
		retry(b, r);
}

static void on_staged_known(struct job *j, bool known, void *userdata)
{
	struct job_restore *b = userdata;

	if (known)
		load(b);
	else if (b->interruptions < UNREAD_MAX || j->unmarked == -EINPROGRESS)
		retry(b, -EAGAIN);
	else
		fail(b, -EAGAIN);
}

static void load_next(struct job_restore *b)
{
	/* The store does not know which names were moved: staging does. */
	if (b->j->unmarked)
		staged_names_find(b->j, on_staged_known, b);
	else
		load(b);
}

void restore_names(struct job *j, enum entry_state state, int to_fd, const char *to_name,
		   int view_fd,
		   void (*done)(struct job *j, const struct restore_result *result, void *userdata),
		   void *userdata)
{
	struct restore_result failed = { .stuck = 1, .error = -ENOMEM, .text = "out of memory" };
	struct job_restore *b = calloc(1, sizeof(*b));

	if (!b) {
		done(j, &failed, userdata);
		return;
	}
	*b = (struct job_restore){ .j = j,
				   .jobs = j->jobs,
				   .state = state,
				   .to_fd = -1,
				   .view_fd = -1,
				   .view_number = ++j->jobs->views,
				   .next = 1,
				   .done = done,
				   .userdata = userdata };
	if (to_fd >= 0)
		b->to_fd = fcntl(to_fd, F_DUPFD_CLOEXEC, 3);
	if (to_name)
		b->to_name = strdup(to_name);
	if (view_fd >= 0)
		b->view_fd = fcntl(view_fd, F_DUPFD_CLOEXEC, 3);
	if ((to_fd >= 0 && b->to_fd < 0) || (view_fd >= 0 && b->view_fd < 0) ||
	    (to_name && !b->to_name)) {
		fail(b, (to_fd >= 0 && b->to_fd < 0) || (view_fd >= 0 && b->view_fd < 0) ? -errno
											 : -ENOMEM);
		return;
	}
	/* Both are one filesystem, unless the caller is wrong about it. */
	b->filesystem = b->to_fd >= 0 ? filesystem_of_fd(b->jobs->context, b->to_fd)
				      : staging_area_filesystem(j->area);
	staging_area_use(j->area);
	b->uses_area = true;
	load_next(b);
}
