/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Answers what callers may read: jobs that do not rest from memory, and all others from the store
 * in pages, so that neither a long list nor a slow client makes the daemon grow. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "daemon/jobs/stored-names.h"
#include "daemon/context/failure.h"
#include "fields.h"
#include "operations-state.h"
#include "operations.h"

#define PAGE 256

/* The number of jobs in memory that one turn of the event loop goes over. */
#define STEP_JOBS 1024

/* Records of the store, copied for the thread of the event loop: up to PAGE of unfinished jobs, and
 * behind them up to PAGE of finished jobs, both in the order of ids. */
struct page {
	struct job_record v[2 * PAGE];
	char *texts[2 * PAGE]; /* the texts of each record, one after the other */
	size_t n, n_unfinished;
	size_t at[2]; /* the next record of each part to be shown */
	uint64_t end; /* the page has all jobs with smaller ids; UINT64_MAX for the last page */
};

/* A list in the making. Each step shows a page of the store, merged with the jobs in memory, and
 * asks the store for the next one. A step that is long enough ends halfway and reads
 * its page again from there. So each step is short, and the lists of all users advance in turn. */
struct listing {
	struct operations *o;
	struct caller c;
	struct job_query q; /* ids are a copy */
	uint64_t told;
	uint64_t from; /* the jobs with smaller numbers have been shown */
	size_t at_id;  /* the next of q.ids to be shown */
	struct page *page;
	bool memory_did; /* at the beginning of this step, nothing was to be read from the store */
	job_seen_t seen;
	operation_done_t done;
	void *userdata;
};

static bool is_asked(const struct listing *l, const struct job_record *r)
{
	const struct job_query *q = &l->q;

	if (!caller_may_see(&l->c, r) || (q->one_uid && r->uid != q->uid) || r->id < q->since_id)
		return false;
	if (q->states != 0)
		return q->states & (1U << r->state);
	return q->finished || q->n_ids > 0 || !job_state_finished(r->state);
}

static bool is_full(const struct listing *l)
{
	return l->q.limit > 0 && l->told >= l->q.limit;
}

static void show(struct listing *l, const struct job_record *r)
{
	if (is_full(l) || !is_asked(l, r))
		return;
	l->told++;
	l->seen(r, l->userdata);
}

static void show_job(struct listing *l, const struct job *j)
{
	bool goes_on = j->run || j->remainder;
	struct job_record now;

	if (goes_on)
		job_snapshot(j, &now);
	show(l, goes_on ? &now : &j->r);
}

/* Shows a job by its record in the store, or if it does not rest, by that in memory. The stub is
 * NULL if the job is not in memory. */
static void show_record(struct listing *l, const struct job_stub *s, struct job_record *r)
{
	if (s && s->job) {
		show_job(l, s->job);
		return;
	}
	if (s) {
		r->state = job_phases[s->phase].state;
		r->held_until_usec = s->held_until_usec;
	} else if (r->state == JOB_ACCEPTED) {
		return; /* its submit is not complete yet */
	}
	show(l, r);
}

static void page_clear(struct page *p)
{
	while (p && p->n > 0)
		free(p->texts[--p->n]);
}

static void listing_end(struct listing *l, int error)
{
	struct failure f = { 0 };

	if (error < 0)
		failure_errno(&f, error, "the job store cannot be read");
	else if (l->q.n_ids == 1 && l->told == 0)
		failure_set(&f, ERROR_NO_SUCH_JOB, "there is no job %" PRIu64, l->q.ids[0]);
	l->done(&f, l->userdata);
	page_clear(l->page);
	free(l->page);
	free((void *)l->q.ids);
	free(l);
}

/* ---- pages of the store -----------------------------------------------------------------------
 */

static int keep(const struct job_record *r, void *userdata)
{
	struct page *page = userdata;
	int e = job_record_copy(&page->v[page->n], r, &page->texts[page->n]);

	page->n += e >= 0;
	return e;
}

/* Reads the jobs of the next ids. */
static int read_ids(struct store *s, struct listing *l)
{
	size_t end = MIN(l->q.n_ids, l->at_id + PAGE);
	int r = 0;

	for (; l->at_id < end && r >= 0; l->at_id++) {
		r = store_job_get(s, l->q.ids[l->at_id], keep, l->page);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

#define UNFINISHED ((1U << JOB_DONE) - 1)
#define FINISHED (~UNFINISHED & ((1U << JOB_STATES) - 1))

static bool wants_unfinished(const struct job_query *q)
{
	return q->states == 0 || q->states & UNFINISHED;
}

static bool wants_finished(const struct job_query *q)
{
	return q->states ? q->states & FINISHED : q->finished;
}

/* Ends the page behind the last record of this part if the store may have more. */
static void page_limit(struct page *p, size_t from)
{
	if (p->n - from == PAGE)
		p->end = MIN(p->end, p->v[p->n - 1].id + 1);
}

/* Reads the next page. A job that finishes between the two queries is in both parts. */
static int read_page(struct store *s, void *userdata)
{
	struct listing *l = userdata;
	struct job_filter f = {
		.one_uid = l->q.one_uid, .uid = l->q.uid, .since_id = l->from, .limit = PAGE
	};
	struct page *p;
	int r = 0;

	if (!l->page) {
		l->page = malloc(sizeof(*l->page)); /* clearing its records would take long */
		if (!l->page)
			return -ENOMEM;
	}
	p = l->page;
	p->n = p->n_unfinished = 0;
	p->end = UINT64_MAX;
	if (l->memory_did)
		return 0;
	if (l->q.n_ids > 0)
		return read_ids(s, l);
	if (!f.one_uid && l->c.id.uid != 0) {
		f.one_uid = true;
		f.uid = l->c.id.uid;
	}
	/* In all states, because the state in memory may be newer. */
	f.states = UNFINISHED;
	if (wants_unfinished(&l->q))
		r = store_jobs_each(s, &f, keep, p);
	p->n_unfinished = p->n;
	page_limit(p, 0);
	f.states = l->q.states ? l->q.states & FINISHED : FINISHED;
	if (r >= 0 && wants_finished(&l->q))
		r = l->q.brief ? store_history_each(s, &f, keep, p)
			       : store_jobs_each(s, &f, keep, p);
	page_limit(p, p->n_unfinished);
	return r;
}

static void show_ids(struct listing *l, struct page *p)
{
	for (size_t i = 0; i < p->n; i++)
		show_record(l, job_table_find(&l->o->jobs->table, p->v[i].id), &p->v[i]);
}

/* Returns the next record of a page, or NULL if there is none that the page is complete for. NULL
 * is accepted. */
static struct job_record *page_next(struct page *p)
{
	struct job_record *a = p && p->at[0] < p->n_unfinished ? &p->v[p->at[0]] : NULL;
	struct job_record *b = p && p->at[1] < p->n ? &p->v[p->at[1]] : NULL;

	/* Of a job that is in both parts, the finished record is the newer one. */
	if (a && b && a->id == b->id)
		p->at[0]++;
	else if (!b || (a && a->id < b->id))
		b = a;
	return b && b->id < p->end ? b : NULL;
}

static void page_take(struct page *p, const struct job_record *r)
{
	p->at[r >= &p->v[p->n_unfinished]]++;
}

/* Shows the records of a page and the jobs in memory in the order of their numbers: up to the last
 * record, or after the last page all jobs. Returns false if the step ended before that. */
static bool show_page(struct listing *l, struct page *p, bool last)
{
	const struct job_stub *s = job_table_from(&l->o->jobs->table, l->from);
	struct job_record *r;

	if (p) {
		p->at[0] = 0;
		p->at[1] = p->n_unfinished;
	}
	for (unsigned step = 0; ((r = page_next(p)) || (s && last)) && !is_full(l); step++) {
		bool is_stub = s && (!r || s->id <= r->id), is_record = r && (!s || r->id <= s->id);

		if (step == STEP_JOBS)
			return false;
		l->from = (is_stub ? s->id : r->id) + 1;
		if (is_record) {
			page_take(p, r);
			show_record(l, is_stub ? s : NULL, r);
		} else if (s->job) {
			show_job(l, s->job);
		}
		if (is_stub)
			s = TAILQ_NEXT(s, in_order);
	}
	/* What lies between the last record and the end of the page was not there. */
	if (p && !last && !is_full(l))
		l->from = MAX(l->from, p->end == UINT64_MAX ? l->from : p->end);
	return true;
}

/* Returns true if the store has nothing to add to the jobs in memory. */
static bool memory_will_do(const struct listing *l)
{
	const struct job_table *t = &l->o->jobs->table;

	if (l->q.n_ids > PAGE)
		return false;
	for (size_t i = 0; i < l->q.n_ids; i++)
		if (!job_table_find_awake(t, l->q.ids[i]))
			return false;
	if (l->q.n_ids > 0)
		return true;
	if (wants_unfinished(&l->q) && t->n > t->n_awake)
		return false;
	if (!wants_finished(&l->q))
		return true;
	return MAX(l->from, UINT64_C(1)) > l->o->jobs->finished_last;
}

static void on_page(int r, void *userdata);

static void listing_go_on(struct listing *l, bool first)
{
	int r;

	l->memory_did = memory_will_do(l);
	r = (first ? store_queue_read : store_queue_read_on)(l->o->jobs->context->store,
							     l->c.id.uid, read_page, on_page, l);
	if (r < 0)
		listing_end(l, r);
}

/* The queue of the store answers a read before it answers that a job has finished meanwhile. So a
 * job that is not on this page is still in memory. */
static void on_page(int r, void *userdata)
{
	struct listing *l = userdata;
	bool over = r < 0;

	if (r >= 0 && l->q.n_ids > 0) {
		show_ids(l, l->page);
		over = l->at_id == l->q.n_ids;
	} else if (r >= 0) {
		/* Nothing was read, but by now a job may have finished. */
		bool stale = l->memory_did && !memory_will_do(l);
		bool last = !stale && l->page->end == UINT64_MAX;

		over = show_page(l, l->page, last) && last;
	}
	page_clear(l->page);
	if (over || is_full(l))
		listing_end(l, r);
	else
		listing_go_on(l, /* first= */ false);
}

/* Shows the jobs in memory. Returns false if the step ended before the last. */
static bool show_from_memory_alone(struct listing *l)
{
	for (size_t i = 0; i < l->q.n_ids; i++)
		show_job(l, job_table_find_awake(&l->o->jobs->table, l->q.ids[i]));
	return l->q.n_ids > 0 || show_page(l, NULL, /* last= */ true);
}

void operation_list(struct operations *o, const struct caller *c, const struct job_query *q,
		    job_seen_t seen, operation_done_t done, void *userdata)
{
	struct listing *l = calloc(1, sizeof(*l));
	uint64_t *ids = calloc(MAX(q->n_ids, (size_t)1), sizeof(*ids));
	struct failure f = { 0 };

	if (!l || !ids) {
		free(l);
		free(ids);
		failure_errno(&f, -ENOMEM, "jobs cannot be listed");
		done(&f, userdata);
		return;
	}
	l->o = o;
	l->c.id.uid = c->id.uid;
	l->q = *q;
	l->q.ids = ids;
	if (q->n_ids > 0)
		memcpy(ids, q->ids, q->n_ids * sizeof(*ids));
	l->from = q->since_id;
	l->seen = seen;
	l->done = done;
	l->userdata = userdata;
	if (memory_will_do(l) && show_from_memory_alone(l))
		listing_end(l, 0);
	else
		listing_go_on(l, /* first= */ true);
}

/* ---- one job's problems and names -------------------------------------------------------------
 */

/* At most, whatever is asked for. */
#define PIECES_MOST 1000U

struct pieces {
	struct operations *o;
	struct caller c;
	uint64_t id, offset, limit;
	enum pieces_of of;
	struct problem_record *v;
	size_t n;
	piece_seen_t seen;
	operation_done_t done;
	void *userdata;
};

static void pieces_end(struct pieces *d, int error)
{
	struct failure f = { 0 };

	if (error == -ENOENT)
		failure_set(&f, ERROR_NO_SUCH_JOB, "there is no job %" PRIu64, d->id);
	else if (error < 0)
		failure_errno(&f, error, "the job store cannot be read");
	d->done(&f, d->userdata);
	for (size_t i = 0; i < d->n; i++) {
		free((char *)d->v[i].path);
		free((char *)d->v[i].what);
	}
	free(d->v);
	free(d);
}

static int check_owner(const struct job_record *r, void *userdata)
{
	const struct pieces *d = userdata;

	return caller_may_see(&d->c, r) ? 0 : -ENOENT;
}

static int keep_problem(const struct problem_record *p, void *userdata)
{
	struct pieces *d = userdata;
	struct problem_record *copy = array_add(&d->v, &d->n, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *p;
	copy->path = strdup(p->path);
	copy->what = strdup(p->what);
	return copy->path && copy->what ? 0 : -ENOMEM;
}

static int read_pieces(struct store *s, void *userdata)
{
	struct pieces *d = userdata;
	int r = store_job_get(s, d->id, check_owner, d);

	if (r >= 0 && d->of == PIECES_PROBLEMS)
		r = store_problems_each(s, d->id, d->offset, d->limit, keep_problem, d);
	return r;
}

static void on_chunk(int r, struct chunk *c, void *userdata)
{
	struct pieces *d = userdata;

	for (size_t i = 0; r >= 0 && i < c->n; i++) {
		const struct chunk_entry *e = &c->entries[i];
		_cleanup_free_ char *path = chunk_path(c, e, "");
		struct entry_view view = { .path = path,
					   .state = e->state,
					   .number = e->seq,
					   .ino = e->id.ino,
					   .btime_nsec = (uint64_t)e->id.btime_nsec,
					   .type = e->id.type };

		if (!path) {
			r = -ENOMEM;
			break;
		}
		d->seen(d->of == PIECES_KEPT ? kept_fields : entry_fields, &view, d->userdata);
	}
	chunk_free(c);
	pieces_end(d, r);
}

static void on_pieces(int r, void *userdata)
{
	struct pieces *d = userdata;

	for (size_t i = 0; r >= 0 && i < d->n; i++)
		d->seen(problem_fields, &d->v[i], d->userdata);
	/* Numbers count from 1, without gaps. */
	if (r >= 0 && d->of != PIECES_PROBLEMS)
		r = chunk_load(d->o->jobs->context->store, d->c.id.uid, d->id, d->offset + 1,
			       d->limit, d->of == PIECES_KEPT ? 1U << ENTRY_KEPT : ~0U, on_chunk,
			       d);
	if (r < 0 || d->of == PIECES_PROBLEMS)
		pieces_end(d, r);
}

void operation_pieces(struct operations *o, const struct caller *c, uint64_t id, enum pieces_of of,
		      uint64_t offset, uint64_t limit, piece_seen_t seen, operation_done_t done,
		      void *userdata)
{
	struct pieces *d = malloc(sizeof(*d));
	struct failure f = { 0 };

	if (d) {
		*d = (struct pieces){ .o = o,
				      .c = { .id = { .uid = c->id.uid } },
				      .id = id,
				      .offset = offset,
				      .limit = limit == 0 ? PIECES_MOST : MIN(limit, PIECES_MOST),
				      .of = of,
				      .seen = seen,
				      .done = done,
				      .userdata = userdata };
		if (store_queue_read(o->jobs->context->store, c->id.uid, read_pieces, on_pieces,
				     d) >= 0)
			return;
	}
	free(d);
	failure_errno(&f, -ENOMEM, "job %" PRIu64, id);
	done(&f, userdata);
}
