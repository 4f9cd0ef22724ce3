/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What callers may read: unfinished jobs from memory, history from the store in pages, so that
 * neither a long history nor a slow client makes the daemon grow. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/jobs/stored-names.h"
#include "daemon/context/failure.h"
#include "operations-state.h"
#include "operations.h"

#define PAGE 1024
#define TEXTS_BYTES KiB(32)

/* Texts of records, each ended by NUL. */
struct texts {
	struct texts *next;
	size_t used, size;
	char v[];
};

/* Records of the store's, for the thread of the loop. */
struct page {
	struct job_record v[PAGE];
	size_t n;
	/* Of texts the one that is being filled comes first; spare ones have no text any more. */
	struct texts *texts, *spare;
};

struct listing {
	struct operations *o;
	struct caller c;
	struct job_query q; /* ids are a copy */
	uint64_t told;
	uint64_t shown_to;  /* all with smaller numbers have been shown */
	uint64_t read_from; /* the next page begins there */
	struct page *pages[2], *reading;
	size_t at_id;
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

/* Most are not asked for where few are, and of few anything is being deleted: nothing is copied for
 * the others. */
static void show_job(struct listing *l, const struct job *j)
{
	struct job_record r;

	if (is_full(l) || !is_asked(l, &j->r))
		return;
	l->told++;
	if (!j->run && !j->remainder) {
		l->seen(&j->r, l->userdata);
		return;
	}
	job_snapshot(j, &r);
	l->seen(&r, l->userdata);
}

static bool show_from_memory(struct listing *l, uint64_t id)
{
	const struct job *j = job_table_find(&l->o->jobs->table, id);

	if (!j)
		return false;
	show_job(l, j);
	return true;
}

/* Its memory is kept for the page that is read into it next. */
static void page_clear(struct page *p)
{
	struct texts *t;

	while ((t = p->texts)) {
		p->texts = t->next;
		t->used = 0;
		t->next = p->spare;
		p->spare = t;
	}
	p->n = 0;
}

static void page_free(struct page *p)
{
	struct texts *t;

	if (!p)
		return;
	page_clear(p);
	while ((t = p->spare)) {
		p->spare = t->next;
		free(t);
	}
	free(p);
}

static void listing_end(struct listing *l, int error)
{
	struct failure f = { 0 };

	if (error < 0)
		failure_errno(&f, error, "the job store cannot be read");
	else if (l->q.n_ids == 1 && l->told == 0)
		failure_set(&f, ERROR_NO_SUCH_JOB, "there is no job %" PRIu64, l->q.ids[0]);
	l->done(&f, l->userdata);
	for (size_t i = 0; i < ELEMENTSOF(l->pages); i++)
		page_free(l->pages[i]);
	free((void *)l->q.ids);
	free(l);
}

/* ---- pages of the store -----------------------------------------------------------------------
 */

/* A spare one, or another. */
static struct texts *texts_new(struct page *page, size_t len)
{
	size_t size = MAX(len, (size_t)TEXTS_BYTES);
	struct texts *t = page->spare;

	if (t && t->size >= len) {
		page->spare = t->next;
		return t;
	}
	t = malloc(sizeof(*t) + size);
	if (t)
		*t = (struct texts){ .size = size };
	return t;
}

/* Makes room for so many bytes of texts. NULL: there is no memory. */
static char *texts_room(struct page *page, size_t len)
{
	struct texts *t = page->texts;

	if (!t || t->size - t->used < len) {
		t = texts_new(page, len);
		if (!t)
			return NULL;
		t->next = page->texts;
		page->texts = t;
	}
	t->used += len;
	return t->v + t->used - len;
}

static int keep(const struct job_record *r, void *userdata)
{
	struct page *page = userdata;
	struct job_record *p = &page->v[page->n];
	const char **const texts[] = { &p->origin,  &p->path,    &p->mount,   &p->staging,
				       &p->inplace, &p->message, &p->strategy };
	size_t lens[ELEMENTSOF(texts)], len = 0;
	char *at;

	*p = *r;
	/* Most of them are empty. */
	for (size_t i = 0; i < ELEMENTSOF(texts); i++)
		len += lens[i] = **texts[i] ? strlen(*texts[i]) + 1 : 0;
	at = texts_room(page, len);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < ELEMENTSOF(texts); at += lens[i++])
		*texts[i] = lens[i] > 0 ? memcpy(at, *texts[i], lens[i]) : "";
	p->groups = NULL;
	p->n_groups = 0;
	page->n++;
	return 0;
}

/* By number, as many as a page takes. */
static int read_ids(struct store *s, struct listing *l)
{
	int r = 0;

	for (; l->at_id < l->q.n_ids && l->reading->n < PAGE && r >= 0; l->at_id++) {
		r = store_job_get(s, l->q.ids[l->at_id], keep, l->reading);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

#define FINISHED (~0U << JOB_DONE & ((1U << JOB_STATES) - 1))

/* Only what has finished, which never changes any more; what has not is in memory. */
static int read_page(struct store *s, void *userdata)
{
	struct listing *l = userdata;
	struct job_filter f = { .states = l->q.states ? l->q.states & FINISHED : FINISHED,
				.one_uid = l->q.one_uid,
				.uid = l->q.uid,
				.since_id = l->read_from,
				.limit = PAGE };

	if (l->q.n_ids > 0)
		return read_ids(s, l);
	if (!f.one_uid && l->c.id.uid != 0) {
		f.one_uid = true;
		f.uid = l->c.id.uid;
	}
	return l->q.brief ? store_history_each(s, &f, keep, l->reading)
			  : store_jobs_each(s, &f, keep, l->reading);
}

static void show_ids(struct listing *l, const struct page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct job_record *record = &p->v[i];

		/* Unfinished and not in memory: a submit that is not complete yet. */
		if (!show_from_memory(l, record->id) && job_state_finished(record->state))
			show(l, record);
	}
}

/* Shows what is in memory, too, up to the last of the page; after the last page, all of it. */
static void show_page(struct listing *l, const struct page *p, bool last)
{
	const struct job *j = job_table_from(&l->o->jobs->table, l->shown_to);

	for (size_t i = 0; i < p->n; i++) {
		const struct job_record *record = &p->v[i];

		for (; j && j->r.id < record->id; j = TAILQ_NEXT(j, in_order))
			show_job(l, j);
		/* Not forgotten yet: as much is known here. */
		if (!j || j->r.id != record->id)
			show(l, record);
		l->shown_to = record->id + 1;
	}
	for (; j && last; j = TAILQ_NEXT(j, in_order))
		show_job(l, j);
}

static int ask_page(struct listing *l);

/* Asks for the page behind this one. */
static int ask_next(struct listing *l, const struct page *p)
{
	if (p->n > 0)
		l->read_from = p->v[p->n - 1].id + 1;
	return ask_page(l);
}

/* What finishes while it is read is forgotten in memory only after this. */
static void on_page(int r, void *userdata)
{
	struct listing *l = userdata;
	struct page *p = l->reading;
	bool by_id = l->q.n_ids > 0;
	bool last = r < 0 || (by_id ? l->at_id == l->q.n_ids : p->n < PAGE);
	/* The next one is read while this one is shown, if there surely is room for some of it. */
	bool ahead = !last && (l->q.limit == 0 || l->told + p->n < l->q.limit);

	if (ahead)
		r = ask_next(l, p);
	if (r >= 0 && by_id)
		show_ids(l, p);
	else if (r >= 0)
		show_page(l, p, last);
	if (!last && !ahead && !is_full(l))
		r = ask_next(l, p);
	else if (!ahead)
		last = true;
	page_clear(p);
	if (last || r < 0)
		listing_end(l, r);
}

/* Has a page read into the one that is not in use. */
static int ask_page(struct listing *l)
{
	struct page **p = &l->pages[l->reading && l->reading == l->pages[0]];

	if (!*p) {
		*p = malloc(sizeof(**p)); /* its records would take long to be cleared */
		if (!*p)
			return -ENOMEM;
		(*p)->texts = (*p)->spare = NULL;
		(*p)->n = 0;
	}
	l->reading = *p;
	return store_queue_read(l->o->jobs->context->store, read_page, on_page, l);
}

/* ---- beginning --------------------------------------------------------------------------------
 */

static bool memory_will_do(const struct listing *l)
{
	/* As it mostly is behind the first page: asking takes longer than showing a thousand. */
	if (l->q.n_ids == 0 && MAX(l->q.since_id, UINT64_C(1)) > l->o->jobs->finished_last)
		return true;
	if (l->q.n_ids == 0)
		return l->q.states ? !(l->q.states & FINISHED) : !l->q.finished;
	for (size_t i = 0; i < l->q.n_ids; i++) {
		if (!job_table_find(&l->o->jobs->table, l->q.ids[i]))
			return false;
	}
	return true;
}

static void list_from_memory(struct listing *l)
{
	const struct job *j;

	if (l->q.n_ids > 0) {
		for (size_t i = 0; i < l->q.n_ids; i++)
			(void)show_from_memory(l, l->q.ids[i]);
		return;
	}
	j = job_table_from(&l->o->jobs->table, l->q.since_id);
	for (; j && !is_full(l); j = TAILQ_NEXT(j, in_order))
		show_job(l, j);
}

void operation_list(struct operations *o, const struct caller *c, const struct job_query *q,
		    job_seen_t seen, operation_done_t done, void *userdata)
{
	struct listing *l = calloc(1, sizeof(*l));
	uint64_t *ids = calloc(MAX(q->n_ids, (size_t)1), sizeof(*ids));
	struct failure f = { 0 };
	int r;

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
	l->shown_to = l->read_from = q->since_id;
	l->seen = seen;
	l->done = done;
	l->userdata = userdata;
	if (memory_will_do(l)) {
		list_from_memory(l);
		listing_end(l, 0);
		return;
	}
	r = ask_page(l);
	if (r < 0)
		listing_end(l, r);
}

/* ---- one job's problems and names -------------------------------------------------------------
 */

struct detail {
	struct operations *o;
	struct caller c;
	uint64_t id, offset;
	uint32_t limit;
	bool problems;
	struct problem_record *v;
	size_t n, size;
	void (*problem)(const struct problem_record *p, void *userdata);
	void (*entry)(const char *path, enum entry_state state, void *userdata);
	operation_done_t done;
	void *userdata;
};

/* A page of anything, whatever is asked for. */
#define DETAIL_MAX 10000U

static void detail_end(struct detail *d, int error)
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
	const struct detail *d = userdata;

	return caller_may_see(&d->c, r) ? 0 : -ENOENT;
}

static int keep_problem(const struct problem_record *p, void *userdata)
{
	struct detail *d = userdata;
	struct problem_record copy = *p;
	void *v;

	if (d->n == d->size) {
		d->size = d->size ? 2 * d->size : 16;
		v = reallocarray(d->v, d->size, sizeof(*d->v));
		if (!v)
			return -ENOMEM;
		d->v = v;
	}
	copy.path = strdup(p->path);
	copy.what = strdup(p->what);
	if (!copy.path || !copy.what) {
		free((char *)copy.path);
		free((char *)copy.what);
		return -ENOMEM;
	}
	d->v[d->n++] = copy;
	return 0;
}

static int read_detail(struct store *s, void *userdata)
{
	struct detail *d = userdata;
	int r = store_job_get(s, d->id, check_owner, d);

	if (r >= 0 && d->problems)
		r = store_problems_each(s, d->id, d->offset, d->limit, keep_problem, d);
	return r;
}

static void on_chunk(int r, struct chunk *c, void *userdata)
{
	struct detail *d = userdata;

	for (size_t i = 0; r >= 0 && i < c->n; i++) {
		char *path = chunk_path(c, &c->entries[i], "");

		if (!path) {
			r = -ENOMEM;
			break;
		}
		d->entry(path, c->entries[i].state, d->userdata);
		free(path);
	}
	chunk_free(c);
	detail_end(d, r);
}

static void on_detail(int r, void *userdata)
{
	struct detail *d = userdata;

	for (size_t i = 0; r >= 0 && i < d->n; i++)
		d->problem(&d->v[i], d->userdata);
	/* Numbers count from 1, without gaps. */
	if (r >= 0 && !d->problems)
		r = chunk_load(d->o->jobs->context->store, d->id, d->offset + 1, d->limit, ~0U,
			       on_chunk, d);
	if (r < 0 || d->problems)
		detail_end(d, r);
}

static void detail_begin(const struct detail *what, const struct caller *c)
{
	struct detail *d = malloc(sizeof(*d));
	struct failure f = { 0 };

	if (d) {
		*d = *what;
		d->c = (struct caller){ .id = { .uid = c->id.uid } };
		d->limit = d->limit == 0 ? DETAIL_MAX : MIN(d->limit, DETAIL_MAX);
		if (store_queue_read(d->o->jobs->context->store, read_detail, on_detail, d) >= 0)
			return;
	}
	free(d);
	failure_errno(&f, -ENOMEM, "job %" PRIu64, what->id);
	what->done(&f, what->userdata);
}

void operation_problems(struct operations *o, const struct caller *c, uint64_t id, uint64_t offset,
			uint32_t limit,
			void (*seen)(const struct problem_record *p, void *userdata),
			operation_done_t done, void *userdata)
{
	struct detail d = { .o = o,
			    .id = id,
			    .offset = offset,
			    .limit = limit,
			    .problems = true,
			    .problem = seen,
			    .done = done,
			    .userdata = userdata };

	detail_begin(&d, c);
}

void operation_entries(struct operations *o, const struct caller *c, uint64_t id, uint64_t offset,
		       uint32_t limit,
		       void (*seen)(const char *path, enum entry_state state, void *userdata),
		       operation_done_t done, void *userdata)
{
	struct detail d = { .o = o,
			    .id = id,
			    .offset = offset,
			    .limit = limit,
			    .entry = seen,
			    .done = done,
			    .userdata = userdata };

	detail_begin(&d, c);
}
