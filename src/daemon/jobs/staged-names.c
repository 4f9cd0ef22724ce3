/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "staged-names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/units.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "stored-names.h"
#include "retry.h"

/* Until staging is listed again, where a worker has died or something is short. */
#define RETRY_USEC (1 * USEC_PER_SEC)

/* ---- the filesystem ---------------------------------------------------------------------------
 */

struct filesystem_check {
	struct job *j;
	uint64_t fsid; /* of the filesystem that the job's names were on; 0 if unknown */
	void (*done)(struct job *j, int r, void *userdata);
	void *userdata;
};

static void check_end(struct filesystem_check *f, int r)
{
	f->done(f->j, retry_helps(r) || r >= 0 ? r : -ESTALE, f->userdata);
	free(f);
}

static void on_mount(int r, int fd, void *userdata)
{
	fd_closep(&fd);
	check_end(userdata, MIN(r, 0));
}

static void on_origin(int r, int fd, void *userdata)
{
	struct filesystem_check *f = userdata;
	struct staging_area *area = f->j->area;
	struct worker *root;

	fd_closep(&fd);
	if (r >= 0 || retry_helps(r) || f->fsid == 0) {
		check_end(f, MIN(r, 0));
		return;
	}
	r = staging_area_intake(area, area->submitters->root, &root);
	if (r >= 0)
		r = worker_open_on_filesystem(root, area->mount, f->fsid, on_mount, f);
	if (r < 0)
		check_end(f, r);
}

static void on_first(int r, struct chunk *c, void *userdata)
{
	struct filesystem_check *f = userdata;
	const struct chunk_dir *dir = r >= 0 && c->n > 0 ? chunk_dir(c, c->entries[0].dir) : NULL;
	struct worker *intake;

	/* A read fails with the writes of its transaction, which is no fault of this job. */
	r = r < 0 ? -EAGAIN : 0;
	if (dir) {
		f->fsid = dir->id.fsid;
		r = staging_area_intake(f->j->area, f->j->submitter, &intake);
		if (r >= 0)
			r = worker_open_dir(intake, -1, dir->path, &dir->id, on_origin, f);
	}
	if (r < 0 || !dir)
		check_end(f, r);
	chunk_free(c);
}

void staged_filesystem_check(struct job *j, void (*done)(struct job *j, int r, void *userdata),
			     void *userdata)
{
	struct filesystem_check *f = malloc(sizeof(*f));
	int r = f ? 0 : -ENOMEM;

	if (f) {
		*f = (struct filesystem_check){ .j = j, .done = done, .userdata = userdata };
		r = chunk_load(j->jobs->context->store, STORE_DAEMON, j->r.id, 1, 1,
			       (1U << ENTRY_STATES) - 1, on_first, f);
	}
	if (r >= 0)
		return;
	free(f);
	done(j, r, userdata);
}

/* ---- what is in staging -----------------------------------------------------------------------
 */

struct staging_listing {
	struct job *j;
	struct jobs *jobs;
	struct outcome *outcome;
	uint64_t found, strange;
	bool foreign; /* another one may be mounted in its place */
	int error;    /* not all of them could be marked */
	void (*done)(struct job *j, bool known, void *userdata);
	void *userdata;
};

static void listing_end(struct staging_listing *l)
{
	struct job *j = l->j;
	char names[COUNTED_SIZE];

	if (l->outcome)
		outcome_record(l->outcome, l->jobs->context->store, job_marked, j);
	if (l->strange > 0)
		log_job(LOG_WARNING, MESSAGE_STAGING_ORPHAN, &j->r,
			"%s in %s/%u/%s, not of job %" PRIu64 ": kept",
			counted_format(names, sizeof(names), l->strange, "name", "names"),
			j->area->dir, (unsigned)j->r.uid, j->uuid_text, j->r.id);
	if (l->found < j->r.names && !*j->r.inplace && j->phase != PHASE_RETURNING)
		job_set_text(&j->r.inplace,
			     "reclaimd was interrupted while moving names into staging");
	staging_area_release(j->area);
	l->done(j, /* known= */ true, l->userdata);
	free(l);
}

static void on_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct staging_listing *l = userdata;
	const char *number = strrchr(name, '/');
	uint64_t seq;
	char end;

	(void)id; /* compared when it is deleted */
	number = number ? number + 1 : name;
	if (sscanf(number, "%" SCNu64 "%c", &seq, &end) != 1 || seq == 0 || seq > l->j->r.names) {
		l->strange++;
		return;
	}
	l->found++;
	if (outcome_mark(l->outcome, seq, seq, ENTRY_STAGED) < 0)
		l->error = -ENOMEM;
}

static void listing_begin(struct staging_listing *l);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct jobs *jobs = userdata;

	(void)source;
	(void)usec;
	jobs->staging_changed(jobs);
	return 0;
}

/* One timer does for all jobs that wait: with one for each, and all jobs listed by each, they would
 * become more and more. Returns false if memory is out. */
static bool arm(struct jobs *jobs)
{
	return timer_is_set(jobs->staging_timer) ||
	       timer_after(jobs->context->event, &jobs->staging_timer, RETRY_USEC, 0, on_retry,
			   jobs, "staging-retry") >= 0;
}

/* It cannot be listed now: names may be there, so nothing else is done with the job. */
static void listing_retry(struct staging_listing *l, int error)
{
	struct job *j = l->j;
	bool in_use = error == -EINPROGRESS, changed;

	if ((retry_helps(error) || in_use) && !l->jobs->context->ended && !arm(l->jobs))
		log_job(LOG_ERR, SD_ID128_NULL, &j->r,
			"Out of memory: job %" PRIu64 " waits for the next start", j->r.id);

	if (in_use)
		changed = job_say(
			j,
			"waits: a worker of reclaimd that has been given up still waits for the "
			"filesystem of %s, and may move a name into staging: thaw it, or end what "
			"it waits for",
			j->area->mount);
	else
		changed = job_say(j, "waits: the staging area on %s cannot be looked at (%s)",
				  j->area->mount,
				  l->foreign ? "another filesystem seems to be mounted there"
					     : staging_area_error(error));
	if (changed)
		log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
			j->r.message);
	if (j->unmarked)
		j->unmarked = error;
	staging_area_release(j->area);
	l->done(j, /* known= */ false, l->userdata);
	outcome_free(l->outcome);
	free(l);
}

/* Either nothing was moved, or another filesystem is mounted, whose staging tells nothing of the
 * job's names. */
static void on_filesystem(struct job *j, int r, void *userdata)
{
	struct staging_listing *l = userdata;

	(void)j;
	l->foreign = r == -ESTALE;
	if (r < 0)
		listing_retry(l, r);
	else
		listing_end(l);
}

static void on_listed(int r, void *userdata)
{
	struct staging_listing *l = userdata;

	r = r == 0 ? l->error : r;
	if (r == 0)
		listing_end(l);
	else if (r == -ENOENT)
		staged_filesystem_check(l->j, on_filesystem, l);
	else
		listing_retry(l, r);
}

static void on_staging(int r, int fd, void *userdata)
{
	struct staging_listing *l = userdata;
	struct worker *intake;

	if (r == -ENOENT) {
		staged_filesystem_check(l->j, on_filesystem, l);
		return;
	}
	if (r >= 0)
		r = staging_area_intake(l->j->area, l->j->submitter, &intake);
	if (r >= 0)
		r = worker_list_staging(intake, fd, l->j->uuid_text, on_name, on_listed, l);
	if (r < 0)
		listing_retry(l, r);
}

static void listing_begin(struct staging_listing *l)
{
	outcome_free(l->outcome);
	l->found = l->strange = 0;
	l->outcome = outcome_new(l->j->r.id);
	if (!l->outcome)
		listing_retry(l, -ENOMEM);
	else
		staging_area_open(l->j->area, /* make= */ false, on_staging, l);
}

void staged_names_find(struct job *j, void (*done)(struct job *j, bool known, void *userdata),
		       void *userdata)
{
	struct staging_listing *l = calloc(1, sizeof(*l));

	if (!l) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r,
			"Out of memory: job %" PRIu64 " waits for the next start", j->r.id);
		done(j, /* known= */ false, userdata);
		return;
	}
	*l = (struct staging_listing){
		.j = j, .jobs = j->jobs, .done = done, .userdata = userdata
	};
	staging_area_use(j->area);
	listing_begin(l);
}
