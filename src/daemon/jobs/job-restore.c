/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-restore.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "retry.h"
#include "stored-names.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "staged-names.h"
#include "withdrawal.h"
#include "base/escape.h"
#include "base/fd.h"

/* Names that a worker is asked to move before it has answered the first. */
#define CHUNK 1024
#define UNREAD_MAX 8
/* A client may wait for it. */
#define RETRY_MOST_USEC (8 * USEC_PER_SEC)

struct job_restore;

/* One name on its way; its place in the chunk says which. */
struct name_restore {
	struct job_restore *b;
	size_t at;
};

struct job_restore {
	struct job *j;
	enum entry_state state;
	struct restore_target to;
	filesystem_t filesystem;
	uint64_t view_number;
	struct chunk *chunk;
	struct name_restore *names; /* one for each of the chunk */
	struct outcome *outcome;
	bool alone;   /* true once no other host can delete in the job */
	bool certain; /* job_knows_staged() */
	bool doubted; /* the record did not say which names are in staging */
	bool uses_area;
	int absent_fd;      /* the root of the mount if the staging directory is gone, else -1 */
	size_t asked, open; /* of the chunk: sent, and not answered */
	uint64_t next;
	sd_event_source *timer;
	unsigned interruptions;               /* since something went back last */
	int interrupted;                      /* why, if the chunk was */
	struct restore_result result, before; /* before: this chunk */
	void (*done)(struct job *j, const struct restore_result *result, void *userdata);
	void *userdata;
};

static void end_chunk(struct job_restore *b)
{
	if (b->outcome)
		outcome_record(b->outcome, b->j->jobs->context->store, NULL, NULL);
	b->outcome = NULL;
	b->chunk = chunk_free(b->chunk);
	free(b->names);
	b->names = NULL;
	fd_closep(&b->absent_fd);
}

/* What waits must not use it: where its mount was detached, it is opened anew only when all that
 * use it have let go. */
static void area_release(struct job_restore *b)
{
	if (b->uses_area)
		staging_area_release(b->j->area);
	b->uses_area = false;
}

static int do_nothing(struct store *s, void *userdata)
{
	(void)s;
	(void)userdata;
	return 0;
}

static void on_recorded(int r, void *userdata)
{
	struct job_restore *b = userdata;

	(void)r; /* the result is the same if it could not be recorded */
	b->done(b->j, &b->result, b->userdata);
	free(b);
}

static void finish(struct job_restore *b)
{
	end_chunk(b);
	area_release(b);
	sd_event_source_disable_unref(b->timer);
	/* The user will ask for the problems, so these are recorded before the answer. */
	if (b->result.lost > 0 &&
	    store_queue_post(b->j->jobs->context->store, do_nothing, on_recorded, b) >= 0)
		return;
	on_recorded(0, b);
}

/* Nothing more can be put back, because of an error of the staging area. */
static void fail(struct job_restore *b, int error)
{
	b->result.stuck += b->chunk && b->chunk->n > 0 ? b->chunk->n : 1;
	if (b->result.error == 0) {
		b->result.error = error;
		(void)snprintf(b->result.text, sizeof(b->result.text), "%s",
			       staging_area_error(error));
	}
	finish(b);
}

static void load_next(struct job_restore *b);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct job_restore *b = userdata;

	(void)source;
	(void)usec;
	load_next(b);
	return 0;
}

/* A worker has died, or something is short, which is not the names' fault. */
static void retry(struct job_restore *b, int error)
{
	struct context *c = b->j->jobs->context;
	uint64_t after = MIN(retry_after_usec(++b->interruptions), RETRY_MOST_USEC);

	end_chunk(b);
	area_release(b);
	/* Names that are back are on record and do not come again. */
	b->before.back = b->result.back;
	b->result = b->before;
	b->interrupted = 0;
	/* Even at once is later: the process that has died may not be reaped yet. */
	if (c->stopping ||
	    timer_after(c->event, &b->timer, after, 0, on_retry, b, "restore-retry") < 0) {
		b->result.interrupted = true;
		finish(b);
		return;
	}
	if (b->interruptions > UNREAD_MAX)
		return; /* that it waits has been said */
	log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &b->j->r,
		"Job %" PRIu64 " is being put back, was interrupted (%s) and goes on", b->j->r.id,
		strerror(-error));
}

static const char *stuck_reason(int error)
{
	switch (-error) {
	case EEXIST:
		return "something else is in its place";
	case ESTALE:
		return "the directory that it was in is gone or was replaced";
	default:
		return staging_area_error(error);
	}
}

/* Adds a problem. Returns the escaped path of the entry, malloc'ed, or NULL if memory is out. */
static char *problem_add(struct job_restore *b, const struct chunk_entry *e, const char *what,
			 int error)
{
	_cleanup_free_ char *path = chunk_path(b->chunk, e, "");
	const char *known = path ? path : chunk_name(b->chunk, e);
	struct problem_record p = { known, what, error, .is_error = true };

	(void)outcome_problem(b->outcome, &p);
	return escape_name(known);
}

static void record_stuck(struct job_restore *b, const struct chunk_entry *e, int error)
{
	_cleanup_free_ char *shown = problem_add(b, e, "could not be put back", error);

	b->result.elsewhere_helps = b->result.elsewhere_helps || error != -ENODEV;
	if (b->result.stuck++ > 0)
		return;
	b->result.error = error;
	(void)snprintf(b->result.text, sizeof(b->result.text), "%s: %s", shown ? shown : "?",
		       stuck_reason(error));
}

/* Records an entry that is neither in staging nor in its place. */
static void record_missing(struct job_restore *b, const struct chunk_entry *e, int error)
{
	_cleanup_free_ char *shown = NULL;
	struct restore_result *r = &b->result;
	size_t len = strlen(r->lost_text);

	if (!b->certain || b->state == ENTRY_KEPT) {
		r->gone++;
		(void)outcome_mark(b->outcome, e->seq, e->seq, ENTRY_GONE);
		return;
	}
	(void)outcome_mark(b->outcome, e->seq, e->seq, ENTRY_LOST);
	r->lost++;
	/* The problem of a name that was lost before is on record. */
	if (e->state == ENTRY_LOST)
		shown = escape_name(chunk_name(b->chunk, e));
	else
		shown = problem_add(b, e,
				    error == -EUCLEAN ? "is lost: something else has its place in "
							"the staging area, and stays there"
						      : "is lost: another process removed it from "
							"the staging area",
				    -ENOENT);
	if (shown && len + strlen(shown) + 2 < sizeof(r->lost_text))
		(void)snprintf(r->lost_text + len, sizeof(r->lost_text) - len, "%s%s",
			       len > 0 ? ", " : "", shown);
}

static void chunk_answered(struct job_restore *b)
{
	size_t n = b->chunk->n;
	uint64_t last = b->chunk->entries[n - 1].seq;

	if (b->interrupted < 0) {
		retry(b, b->interrupted);
		return;
	}
	end_chunk(b);
	b->before = b->result;
	b->next = last + 1;
	if (n < CHUNK)
		finish(b);
	else
		load_next(b);
}

/* From a mount that was detached, names cannot go to where they were by the one that is there now,
 * though both are one filesystem. */
static bool is_detached(const struct job_restore *b)
{
	return !context_is_mounted(b->j->jobs->context, b->j->area->staging_fd);
}

static void failed(struct job_restore *b, size_t at, int error)
{
	if (retry_helps(error))
		b->interrupted = error;
	else if (is_detached(b))
		b->interrupted = -EAGAIN;
	else if (error == -ENOENT || (error == -EUCLEAN && b->state != ENTRY_KEPT))
		record_missing(b, &b->chunk->entries[at], error);
	else
		record_stuck(b, &b->chunk->entries[at], error);
}

static void on_restored(int r, void *userdata)
{
	struct name_restore *item = userdata;
	struct job_restore *b = item->b;
	const struct chunk_entry *e = &b->chunk->entries[item->at];

	if (r == 0) {
		b->result.back++;
		b->interruptions = 0;
		(void)outcome_mark(b->outcome, e->seq, e->seq, b->state);
	} else {
		failed(b, item->at, r);
	}
	if (--b->open == 0 && b->asked == b->chunk->n)
		chunk_answered(b);
}

static int restore_name(struct job_restore *b, size_t at)
{
	const struct chunk_entry *e = &b->chunk->entries[at];
	const struct chunk_dir *dir = chunk_dir(b->chunk, e->dir);
	struct restore_message m = {
		.job_dir = b->j->uuid_text,
		.absent = b->absent_fd >= 0,
		.seq = e->seq,
		.name = chunk_name(b->chunk, e),
		.dir_path = dir ? dir->path : "",
		.id = e->id,
		.to_name = b->to.name,
		.view_number = b->view_number,
		.staging = b->absent_fd >= 0 ? b->absent_fd : b->j->area->staging_fd,
		.to = b->to.fd,
		.view = b->to.view_fd,
	};
	struct worker *intake;
	int r;

	if (dir)
		m.dir_id = dir->id;
	else if (b->to.fd < 0)
		return -ENOENT;
	r = submitter_intake(b->j->submitter, b->filesystem, &intake);
	if (r < 0)
		return r;
	b->names[at] = (struct name_restore){ .b = b, .at = at };
	if (b->to.fd < 0)
		tell_name_returns(b->j->jobs->context, &b->j->r, &e->id, b->state == ENTRY_KEPT);
	return worker_restore(intake, &m, on_restored, &b->names[at]);
}

static void restore_chunk(struct job_restore *b)
{
	/* One more is open while they are sent, so that answers in the call do not end the chunk.
	 */
	b->open = 1;
	for (b->asked = 0; b->asked < b->chunk->n; b->asked++) {
		int r;

		b->open++;
		r = restore_name(b, b->asked);
		if (r < 0) {
			b->open--;
			failed(b, b->asked, r);
		}
	}
	if (--b->open == 0)
		chunk_answered(b);
}

static void on_mount_root(int r, int fd, void *userdata)
{
	struct job_restore *b = userdata;

	b->absent_fd = fd;
	if (retry_helps(r))
		retry(b, r);
	else if (r < 0)
		fail(b, r);
	else
		restore_chunk(b);
}

/* The staging directory is gone. Names may be back in their places all the same, and the filesystem
 * may be another one; a worker finds out both. */
static void on_absent(struct job_restore *b)
{
	const struct staging_area *area = b->j->area;
	struct worker *root;
	int r = staging_area_intake(area, area->submitters->root, &root);

	if (r >= 0)
		r = worker_open_dir(root, -1, area->mount, NULL, on_mount_root, b);
	if (r < 0)
		on_mount_root(r, -1, b);
}

static void on_staging(int r, int fd, void *userdata)
{
	struct job_restore *b = userdata;

	(void)fd;
	if (r == -ENOENT)
		on_absent(b);
	else if (retry_helps(r))
		retry(b, r);
	else if (r < 0)
		fail(b, r);
	else
		restore_chunk(b);
}

static void area_open(struct job_restore *b)
{
	if (!b->uses_area)
		staging_area_use(b->j->area);
	b->uses_area = true;
	staging_area_open(b->j->area, /* make= */ false, on_staging, b);
}

static void on_loaded(int r, struct chunk *c, void *userdata)
{
	struct job_restore *b = userdata;

	b->chunk = c;
	if (r >= 0)
		r = b->j->unmarked;
	if (r >= 0 && c->n > 0) {
		b->outcome = outcome_new(b->j->r.id);
		b->names = calloc(c->n, sizeof(*b->names));
		r = b->outcome && b->names ? 0 : -ENOMEM;
	}
	/* A read fails with the writes of its transaction. */
	if (r < 0 && (retry_helps(r) || b->interruptions < UNREAD_MAX))
		retry(b, r);
	else if (r < 0)
		fail(b, r);
	else if (c->n == 0)
		finish(b);
	else
		area_open(b);
}

static void load(struct job_restore *b)
{
	/* A lost name may be there again; and the record of a name that was moved may be missing.
	 */
	bool waiting = b->doubted && b->state == ENTRY_RESTORED;
	uint32_t states =
		1U << ENTRY_STAGED | 1U << ENTRY_LOST | (waiting ? 1U << ENTRY_WAITING : 0);
	int r = chunk_load(b->j->jobs->context->store, STORE_DAEMON, b->j->r.id, b->next, CHUNK,
			   states, on_loaded, b);

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

static void on_withdrawn(struct job *j, int r, void *userdata)
{
	struct job_restore *b = userdata;

	(void)j;
	b->alone = r >= 0;
	if (r >= 0)
		load_next(b);
	else if (retry_helps(r))
		retry(b, r);
	else
		fail(b, r);
}

static void load_next(struct job_restore *b)
{
	if (!b->alone)
		withdrawal_wait(b->j, on_withdrawn, b);
	/* The store does not know which names were moved: staging does. */
	else if ((b->doubted = b->doubted || b->j->unmarked) && b->j->unmarked)
		staged_names_find(b->j, on_staged_known, b);
	else
		load(b);
}

void restore_names(struct job *j, enum entry_state state, const struct restore_target *to,
		   void (*done)(struct job *j, const struct restore_result *result, void *userdata),
		   void *userdata)
{
	static const struct restore_target origin = { .fd = -1, .view_fd = -1 };
	static const struct restore_result failed = { .stuck = 1,
						      .error = -ENOMEM,
						      .text = "out of memory" };
	struct job_restore *b = calloc(1, sizeof(*b));

	if (!b) {
		done(j, &failed, userdata);
		return;
	}
	b->j = j;
	b->state = state;
	b->certain = job_knows_staged(j);
	b->absent_fd = -1;
	b->to = to ? *to : origin;
	b->view_number = ++j->jobs->views;
	b->next = 1;
	b->done = done;
	b->userdata = userdata;
	/* Both are one filesystem, unless the caller is wrong about it. */
	b->filesystem = b->to.fd >= 0 ? filesystem_of_fd(j->jobs->context, b->to.fd)
				      : staging_area_filesystem(j->area);
	load_next(b);
}
