/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/units.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/jobs/sharing.h"
#include "fleet-state.h"

/* What could not be told is told when the database is there again: so many jobs. More are found to
 * have ended by their marks, which are gone. */
#define FORGOTTEN_MOST 4096

/* So long no host has had any of what is left for them: each is busy, or has given it back. Then
 * the job's own does it. */
#define PATIENCE_USEC (20 * USEC_PER_SEC)

/* More than any job has: what the database says must fit wherever it is added to. */
#define COUNT_MOST (UINT64_C(1) << 53)

/* So many that have ended and were not forgotten are told of in a second, by one message each: the
 * database may have any number. */
#define LEFT_MOST 16

/* A job of this host that other hosts help with, from when it may be shared until it has ended. */
struct shared_job {
	LIST_ENTRY(shared_job) link;
	struct fleet *fleet; /* NULL: that has ended */
	struct job *job;     /* NULL: it has ended */
	uint64_t id;
	struct fleet_filesystem *filesystem;
	enum { MARK_NONE, MARK_ASKED, MARK_MADE, MARK_FAILED } mark;
	bool leaves;         /* the mark that was asked for is withdrawn as soon as it is made */
	uint64_t unanswered; /* that PUBLISH was said for */
	bool published;      /* any of them */
	bool before;         /* an earlier life of the daemon may have published */
	bool is_known;       /* open and claimed count all that were published */
	uint64_t open, claimed;
	void (*ended)(struct job *j); /* of what waits for it, or NULL */
	sd_event_source *patience;    /* with units that no host takes */
};

static struct shared_job *find(const struct fleet *f, uint64_t id)
{
	struct shared_job *s;

	LIST_FOREACH(s, &f->shared, link)
		if (s->id == id)
			return s;
	return NULL;
}

static void drop(struct shared_job *s)
{
	if (s->fleet)
		LIST_REMOVE(s, link);
	(void)sd_event_source_disable_unref(s->patience);
	free(s);
}

static bool is_settled(const struct shared_job *s)
{
	return s->unanswered == 0 &&
	       (!s->published || (s->is_known && s->open == 0 && s->claimed == 0));
}

/* May have the run go on, or end: s is not used afterwards. */
static void check(struct shared_job *s)
{
	void (*ended)(struct job * j) = s->ended;

	if (!ended || !is_settled(s))
		return;
	s->ended = NULL;
	ended(s->job);
}

/* ---- marks -------------------------------------------------------------------------------- */

static void on_marked(int r, void *userdata)
{
	struct shared_job *s = userdata;

	s->mark = s->leaves ? MARK_NONE : r < 0 ? MARK_FAILED : MARK_MADE;
	s->leaves = false;
	if (!s->fleet || !s->job) {
		drop(s);
		return;
	}
	if (s->mark == MARK_NONE)
		return;
	if (r < 0)
		log_job(LOG_WARNING, SD_ID128_NULL, &s->job->r,
			"Job %" PRIu64 " is not shared: its mark in %s cannot be made: %s", s->id,
			s->job->area->dir, strerror(-r));
	else
		debug_log("fleet: the mark of job %" PRIu64 " is made", s->id);
	if (r >= 0 && s->filesystem->demand > 0)
		run_demand(s->job, s->filesystem->demand);
}

/* It may be made, whatever comes of this. */
static void mark_make(struct shared_job *s)
{
	struct job *j = s->job;
	struct write_mark_message m = {
		.host = s->fleet->host,
		.mount_path = s->filesystem->path,
		.space = s->fleet->uid_space,
		.uid = j->r.uid,
		.gid = j->r.gid,
		.groups = { j->r.groups, j->r.n_groups * sizeof(gid_t) },
		.dir_name = j->uuid_text,
		.dir = j->r.staging_id,
	};
	struct worker *root;
	char number[24];
	int r = fleet_root_intake(s->fleet, s->filesystem, &root, &m.mnt_id);

	if (r >= 0) {
		(void)snprintf(number, sizeof(number), "%" PRIu64, s->id);
		m.job = number;
		s->mark = MARK_ASKED;
		withdrawal_forget(j);
		j->shared = j->marked = true;
		r = worker_write_mark(root, &m, on_marked, s);
	}
	if (r < 0)
		s->mark = MARK_FAILED;
}

/* ---- what runs ask for -------------------------------------------------------------------- */

/* Also before the database is there: other hosts may come while it runs. */
static bool may(const struct job *j, void *userdata)
{
	const struct fleet *f = userdata;

	/* Other hosts do not know what is to go only if it is empty. */
	if (j->r.kind != JOB_DELETE || strcmp(j->area->host, f->host) != 0 ||
	    j->r.staging_id.ino == 0)
		return false;
	for (size_t i = 0; i < f->n_filesystems; i++)
		if (strcmp(f->filesystems[i].path, j->area->mount) == 0)
			return true;
	return false;
}

static struct shared_job *get(struct fleet *f, struct job *j, struct fleet_filesystem *fs)
{
	struct shared_job *s = find(f, j->r.id);

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct shared_job){ .fleet = f,
				  .job = j,
				  .id = j->r.id,
				  .filesystem = fs,
				  .before = j->shared && !j->marked };
	LIST_INSERT_HEAD(&f->shared, s, link);
	return s;
}

/* Of what runs there; its mark first. */
static void offer(struct fleet *f, struct job *j, struct fleet_filesystem *fs)
{
	struct shared_job *s = fs->demand > 0 ? get(f, j, fs) : find(f, j->r.id);

	if (s && s->mark == MARK_NONE && fs->demand > 0)
		mark_make(s);
	else if (s && s->mark == MARK_MADE)
		run_demand(j, fs->demand);
}

static void begun(struct job *j, void *userdata)
{
	struct fleet *f = userdata;
	struct fleet_filesystem *fs = fleet_filesystem_at(f, j->area->mount);

	if (fs && fs->demand > 0)
		offer(f, j, fs);
}

static void given(struct job *j, const struct given_unit *u, void *userdata)
{
	struct fleet *f = userdata;
	struct shared_job *s = find(f, j->r.id);

	if (!s || !f->joined)
		return;
	/* What cannot be said is no unit: the job's last run takes it. */
	if (!fleet_publish(f,
			   &(struct publish_message){ .serial = s->id,
						      .job = s->id,
						      .uid = j->r.uid,
						      .filesystem = s->filesystem->name },
			   u))
		return;
	s->unanswered++;
	s->is_known = false;
	s->filesystem->demand -= s->filesystem->demand > 0;
}

static void recall(struct job *j, void *userdata);
static void wait_patiently(struct shared_job *s);

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct shared_job *s = userdata;

	(void)source;
	(void)usec;
	if (!s->ended)
		return 0;
	if (s->is_known && s->claimed == 0)
		recall(s->job, s->fleet);
	wait_patiently(s);
	return 0;
}

static void wait_patiently(struct shared_job *s)
{
	(void)timer_after(s->fleet->jobs->context->event, &s->patience, PATIENCE_USEC, 0,
			  on_patience, s, "fleet-patience");
}

static void wait_for(struct job *j, void (*ended)(struct job *j), void *userdata)
{
	struct fleet *f = userdata;
	struct shared_job *s = find(f, j->r.id);

	if (!s || !f->joined || is_settled(s)) {
		ended(j);
		return;
	}
	s->ended = ended;
	wait_patiently(s);
	fleet_capacity_check(f);
}

static void recall(struct job *j, void *userdata)
{
	struct fleet *f = userdata;
	struct fleet_filesystem *fs = fleet_filesystem_at(f, j->area->mount);
	bool ours = fs && strcmp(j->area->host, f->host) == 0;
	struct wire_out *o = ours && f->joined ? fleet_link_say(f->link, FLEET_RECALL) : NULL;

	if (!o)
		return;
	/* What is said of it from now on is heard, also of one from before the daemon began. */
	(void)get(f, j, fs);
	fleet_put(o, &(struct recall_message){ j->r.id });
	fleet_link_send(f->link);
}

/* Its mark is withdrawn by withdrawal.c. */
static void left(struct job *j, void *userdata)
{
	struct shared_job *s = find(userdata, j->r.id);

	if (!s)
		return;
	j->r.units_open = j->r.others_claimed = 0;
	s->leaves = s->mark == MARK_ASKED;
	if (s->mark == MARK_MADE)
		s->mark = MARK_NONE;
	units_of_job_stop(s->fleet, s->id);
}

static bool is_busy(const struct job *j, void *userdata)
{
	const struct fleet *f = userdata;
	const struct shared_job *s = find(f, j->r.id);

	return f->joined && s && s->is_known && s->claimed > 0;
}

/* ---- what the fleet says ------------------------------------------------------------------ */

void shared_jobs_demand(struct fleet *f, struct fleet_filesystem *fs)
{
	const struct staging_area *area;

	LIST_FOREACH(area, &f->jobs->submitters->areas, link)
		if (area->running && area->running->deletes && strcmp(area->mount, fs->path) == 0 &&
		    may(area->running, f))
			offer(f, area->running, fs);
}

void shared_job_published(struct fleet *f, uint64_t job, bool published)
{
	struct shared_job *s = find(f, job);

	/* Parts of other hosts' units are of no job here. */
	f->jobs->fleet.published += published && job != 0;
	if (!s || s->unanswered == 0)
		return;
	s->unanswered--;
	s->published = s->published || published;
	if (published)
		s->is_known = false;
	check(s);
}

/* What other hosts have done of it; another database counts anew. What this host does of its units
 * is counted when that is done. */
static void others_count(struct job *j, const struct job_message *m)
{
	struct shared_total *all = &j->jobs->fleet.others;
	struct job_record *r = &j->r;
	uint64_t units = MIN(m->others_units, COUNT_MOST),
		 entries = MIN(m->others_entries, COUNT_MOST),
		 bytes = MIN(m->others_bytes, COUNT_MOST);

	units -= MIN(units, r->others_units);
	entries -= MIN(entries, r->others_entries);
	bytes -= MIN(bytes, r->others_bytes);
	r->others_units += units;
	r->others_entries += entries;
	r->others_bytes += bytes;
	r->entries_done += entries;
	r->bytes_freed += bytes;
	all->units += units;
	all->entries += entries;
	all->bytes += bytes;
}

static void forget(struct fleet *f, uint64_t job);

/* It has ended, and the database was not told: reclaim-fleet, or the daemon, had ended before. */
static void forget_left(struct fleet *f, uint64_t job)
{
	uint64_t now = now_usec();

	if (now - f->left_usec >= USEC_PER_SEC) {
		f->left_usec = now;
		f->n_left = 0;
	}
	if (f->n_left == LEFT_MOST || job == 0 || job > INT64_MAX)
		return;
	f->n_left++;
	forget(f, job);
}

void shared_job_report(struct fleet *f, const struct job_message *m)
{
	struct shared_job *s = find(f, m->job);
	char parts[COUNTED_SIZE];

	if (!s && !job_table_find(&f->jobs->table, m->job))
		forget_left(f, m->job);
	if (!s || !s->job)
		return;
	others_count(s->job, m);
	if (s->job->run) {
		s->job->r.units_open = MIN(m->open, COUNT_MOST);
		s->job->r.others_claimed = MIN(m->others_claimed, COUNT_MOST);
	}
	s->published = true;
	s->before = false;
	if (s->ended && (s->open != m->open || m->claimed > 0))
		wait_patiently(s);
	s->open = m->open;
	s->claimed = m->claimed;
	s->is_known = true;
	if (run_waits_for_hosts(s->job) && s->open + s->claimed > 0 &&
	    job_say(s->job, "other hosts of the fleet are at %s of it, and %" PRIu64 " are open",
		    counted_format(parts, sizeof(parts), m->others_claimed, "part", "parts"),
		    m->open))
		job_tell(s->job);
	else
		job_progressed(s->job);
	if (s->ended)
		check(s);
	else
		withdrawal_look(s->job);
}

static void forget(struct fleet *f, uint64_t job)
{
	struct wire_out *o = f->joined ? fleet_link_say(f->link, FLEET_FORGET) : NULL;
	uint64_t *at;

	if (o) {
		fleet_put(o, &(struct job_ended){ job });
		fleet_link_send(f->link);
		return;
	}
	at = f->n_forgotten < FORGOTTEN_MOST
		     ? array_add(&f->forgotten, &f->n_forgotten, sizeof(*at))
		     : NULL;
	if (at)
		*at = job;
}

void shared_job_finished(struct fleet *f, uint64_t job)
{
	struct shared_job *s = find(f, job);

	if (!s)
		return;
	if (s->published || s->unanswered > 0 || s->before)
		forget(f, job);
	left(s->job, f);
	s->job = NULL;
	s->ended = NULL;
	/* Else its mark's answer comes first. */
	if (s->mark != MARK_ASKED)
		drop(s);
}

void shared_jobs_joined(struct fleet *f)
{
	uint64_t *forgotten = f->forgotten;
	size_t n = f->n_forgotten;
	struct job *j, *next;

	f->forgotten = NULL;
	f->n_forgotten = 0;
	for (size_t i = 0; i < n; i++)
		forget(f, forgotten[i]);
	free(forgotten);
	JOBS_FOREACH_SAFE(j, next, f->jobs)
		if (j->withdrawal)
			recall(j, f);
}

/* What other hosts have is not known any more. */
static void withdrawals_look(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		withdrawal_look(j);
}

/* Their owner goes on alone. Going on may end a run, and so take one off the list. */
void shared_jobs_lost(struct fleet *f)
{
	struct shared_job *s;

	LIST_FOREACH(s, &f->shared, link) {
		s->unanswered = 0;
		s->is_known = false;
		if (s->job)
			s->job->r.units_open = s->job->r.others_claimed = 0;
	}
	do {
		LIST_FOREACH(s, &f->shared, link)
			if (s->ended) {
				void (*ended)(struct job * j) = s->ended;

				s->ended = NULL;
				ended(s->job);
				break;
			}
	} while (s);
	withdrawals_look(f->jobs);
}

/* ---- its life ----------------------------------------------------------------------------- */

void shared_jobs_begin(struct fleet *f)
{
	LIST_INIT(&f->shared);
	f->sharing = (struct sharing){ may, begun, given, wait_for, recall, left, is_busy, f };
	f->jobs->sharing = &f->sharing;
}

void shared_jobs_end(struct fleet *f)
{
	struct shared_job *s, *next;

	shared_jobs_lost(f);
	f->jobs->sharing = NULL;
	for (s = LIST_FIRST(&f->shared); s; s = next) {
		next = LIST_NEXT(s, link);
		LIST_REMOVE(s, link);
		s->fleet = NULL;
		/* Else it goes with its mark's answer. */
		if (s->mark != MARK_ASKED)
			drop(s);
	}
	free(f->forgotten);
	f->forgotten = NULL;
	f->n_forgotten = 0;
}
