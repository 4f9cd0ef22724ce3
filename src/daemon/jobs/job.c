/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "settlement.h"
#include "daemon/context/log.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/units.h"

#define TELL_USEC (500 * USEC_PER_MSEC)

/* ---- table ------------------------------------------------------------------------------------
 */

static struct job **bucket(const struct job_table *t, uint64_t id)
{
	return &t->buckets[id & (t->n_buckets - 1)];
}

int jobs_reserve(struct jobs *jobs, size_t n)
{
	struct job_table *t = &jobs->table;
	struct job_table bigger = { .n_buckets = MAX(t->n_buckets, (size_t)64) };
	struct job *j;
	int r = due_heap_reserve(&jobs->waiting, n);

	if (r < 0 || n <= t->n_buckets)
		return r;
	while (bigger.n_buckets < n)
		bigger.n_buckets *= 2;
	bigger.buckets = calloc(bigger.n_buckets, sizeof(struct job *));
	if (!bigger.buckets)
		return -ENOMEM;
	free(t->buckets);
	t->buckets = bigger.buckets;
	t->n_buckets = bigger.n_buckets;
	TAILQ_FOREACH(j, &t->in_order, in_order) {
		struct job **at = bucket(t, j->r.id);

		j->next_same_hash = *at;
		*at = j;
	}
	return 0;
}

int jobs_reserve_all(struct jobs *jobs)
{
	const struct user *u;
	size_t n = 0;

	LIST_FOREACH(u, &jobs->submitters->users, link)
		n += u->jobs;
	return jobs_reserve(jobs, n);
}

void job_table_add(struct job_table *t, struct job *j)
{
	struct job **at = bucket(t, j->r.id), *before;

	j->next_same_hash = *at;
	*at = j;
	t->n++;
	/* Ids come in order but for submits that overtake one another. */
	TAILQ_FOREACH_REVERSE(before, &t->in_order, job_list, in_order)
		if (before->r.id < j->r.id) {
			TAILQ_INSERT_AFTER(&t->in_order, before, j, in_order);
			return;
		}
	TAILQ_INSERT_HEAD(&t->in_order, j, in_order);
}

void job_table_remove(struct job_table *t, struct job *j)
{
	struct job **at;

	for (at = bucket(t, j->r.id); *at != j; at = &(*at)->next_same_hash)
		;
	*at = j->next_same_hash;
	TAILQ_REMOVE(&t->in_order, j, in_order);
	t->n--;
}

struct job *job_table_find(const struct job_table *t, uint64_t id)
{
	if (t->n == 0)
		return NULL;
	for (struct job *j = *bucket(t, id); j; j = j->next_same_hash)
		if (j->r.id == id)
			return j;
	return NULL;
}

struct job *job_table_from(const struct job_table *t, uint64_t id)
{
	struct job *j = job_table_find(t, id);

	if (j)
		return j;
	j = id > 0 ? job_table_find(t, id - 1) : NULL;
	if (j)
		return TAILQ_NEXT(j, in_order);
	TAILQ_FOREACH(j, &t->in_order, in_order)
		if (j->r.id > id)
			return j;
	return NULL;
}

void job_table_done(struct job_table *t)
{
	struct job *j;

	while ((j = TAILQ_FIRST(&t->in_order))) {
		job_table_remove(t, j);
		job_free(j);
	}
	free(t->buckets);
	*t = (struct job_table){ .in_order = TAILQ_HEAD_INITIALIZER(t->in_order) };
}

/* ---- one job ----------------------------------------------------------------------------------
 */

static const char empty[] = "";
/* Where most come from: many wait, and this is a tenth of what each of them needs. */
static const char submitted[] = "submit";

/* The texts of a record that are the job's own. */
static const size_t own_texts[] = {
	offsetof(struct job_record, path),     offsetof(struct job_record, origin),
	offsetof(struct job_record, inplace),  offsetof(struct job_record, message),
	offsetof(struct job_record, strategy),
};

static const char **text_of(struct job_record *r, size_t offset)
{
	return (const char **)((char *)r + offset);
}

void job_set_text(const char **text, const char *to)
{
	const char *copy = empty;

	if (to && strcmp(to, submitted) == 0)
		copy = submitted;
	else if (to && *to)
		copy = strdup(to);
	if (*text != empty && *text != submitted)
		free((char *)*text);
	*text = copy ? copy : empty;
}

bool job_say(struct job *j, const char *format, ...)
{
	struct safe_text text;
	bool changed;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&text, format, ap);
	va_end(ap);
	changed = strcmp(j->r.message, text.line) != 0;
	job_set_text(&j->r.message, text.line);
	return changed;
}

void at_hand_clear(struct jobs *jobs)
{
	fd_closep(&jobs->at_hand.dirfd);
	jobs->at_hand.job = NULL;
}

void at_hand_put(struct job *j, int dirfd)
{
	at_hand_clear(j->jobs);
	j->jobs->at_hand = (struct at_hand){ .job = j, .dirfd = dirfd };
}

int at_hand_take(const struct job *j)
{
	struct at_hand *a = &j->jobs->at_hand;

	if (a->job != j)
		return -1;
	a->job = NULL;
	return fd_take(&a->dirfd);
}

struct job *job_free(struct job *j)
{
	if (!j)
		return NULL;
	assert(!j->remainder && !j->deletes && !j->frees && SLIST_EMPTY(&j->shrinking));
	if (j->jobs->at_hand.job == j)
		at_hand_clear(j->jobs);
	for (size_t i = 0; i < ELEMENTSOF(own_texts); i++)
		job_set_text(text_of(&j->r, own_texts[i]), NULL);
	staging_area_unref(j->area);
	submitter_unref(j->submitter);
	free(j);
	return NULL;
}

const char *job_adopted_from(const struct job_record *r)
{
	size_t len = strlen(ORIGIN_ADOPT);

	return strncmp(r->origin, ORIGIN_ADOPT, len) == 0 ? r->origin + len : NULL;
}

int job_new(struct job **ret, struct jobs *jobs, const struct job_record *r,
	    struct submitter *submitter, struct staging_area *area)
{
	_cleanup_(job_freep) struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->r = *r;
	j->jobs = jobs;
	j->phase = job_life_loaded(r->state);
	j->submitter = submitter_ref(submitter);
	j->area = staging_area_ref(area);
	for (size_t i = 0; i < sizeof(r->uuid); i++)
		(void)snprintf(j->uuid_text + 2 * i, 3, "%02x", r->uuid[i]);
	j->r.groups = submitter->id.groups;
	j->r.n_groups = submitter->id.n_groups;
	j->r.mount = area->mount;
	j->r.host = area->host;
	j->r.staging = r->staging && *r->staging ? j->uuid_text : empty;
	/* Other hosts may have helped with it until a moment ago. */
	j->shared = j->marked = *area->host && r->kind == JOB_DELETE && job_adopted_from(r);
	for (size_t i = 0; i < ELEMENTSOF(own_texts); i++) {
		const char **text = text_of(&j->r, own_texts[i]), *to = *text;

		*text = empty;
		job_set_text(text, to);
	}
	*ret = j;
	j = NULL;
	return 0;
}

bool job_state_finished(enum job_state s)
{
	return s >= JOB_DONE;
}

bool job_knows_staged(const struct job *j)
{
	return j->r.started_usec == 0 ||
	       (j->r.attempts == 0 && !*j->r.host && !job_adopted_from(&j->r));
}

void job_snapshot(const struct job *j, struct job_record *ret)
{
	struct run_progress deleted = { 0 }, freed = { 0 };

	if (j->deletes)
		worker_progress(j->deletes, &deleted);
	if (j->frees)
		worker_progress(j->frees, &freed);
	*ret = j->r;
	ret->entries_done += deleted.entries;
	ret->bytes_freed += deleted.bytes;
	if (freed.bytes > j->frees_from_bytes)
		ret->bytes_freed += freed.bytes - j->frees_from_bytes;
	ret->owed_bytes = j->settles ? settlement_owed(j->settles) : 0;
}

/* Of a job that runs; its record has it until it is measured again. */
static void rate_measure(struct job *j, const struct job_record *now)
{
	uint64_t left = UINT64_MAX;

	if (j->r.state != JOB_RUNNING || j->r.settling)
		j->rate = (struct job_rate){ 0 };
	else
		job_rate_add(&j->rate, j->changed_usec, now->entries_done, now->bytes_freed);
	if (j->rate.usec > j->rate.begun_usec)
		left = job_rate_left_usec(&j->rate, now);
	j->r.rate_bytes = (uint64_t)j->rate.bytes_second;
	j->r.rate_entries = (uint64_t)j->rate.entries_second;
	j->r.expected_end_usec = left < UINT64_MAX ? context_clock() + left : 0;
}

void job_tell(struct job *j)
{
	struct job_record r;

	j->changed_usec = now_usec();
	job_snapshot(j, &r);
	rate_measure(j, &r);
	if (!j->told)
		return;
	job_snapshot(j, &r);
	tell_job_changed(j->jobs->context, &r);
}

void job_progressed(struct job *j)
{
	if (now_usec() - j->changed_usec >= TELL_USEC)
		job_tell(j);
}

void job_enter(struct job *j, enum job_phase to)
{
	struct jobs *jobs = j->jobs;

	assert(to < PHASES && job_phase_is(j->phase, job_phases[to].from));
	debug_log("job %" PRIu64 ": from %s to %s", j->r.id, job_phases[j->phase].name,
		  job_phases[to].name);
	j->phase = to;
	if (to == PHASE_LEAVING || to == PHASE_CLEARING) {
		assert(j->r.state == job_phases[to].state);
	} else {
		jobs->counts[j->r.state]--;
		j->r.state = job_phases[to].state;
		jobs->counts[j->r.state]++;
		job_tell(j);
	}
	gate("life", job_phases[to].name);
}

/* ---- saving -----------------------------------------------------------------------------------
 */

/* The job lives while it is saved; of what may change meanwhile, the record has its own. */
struct save {
	struct job *j;
	struct job_record r;
	void (*saved)(int r, void *userdata);
	void *userdata;
};

static struct save *save_free(struct save *s)
{
	if (!s)
		return NULL;
	free((char *)s->r.inplace);
	free((char *)s->r.message);
	free((char *)s->r.strategy);
	free(s);
	return NULL;
}

static struct save *save_new(struct job *j)
{
	struct save *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->j = j;
	s->r = j->r;
	s->r.inplace = strdup(j->r.inplace);
	s->r.message = strdup(j->r.message);
	s->r.strategy = strdup(j->r.strategy);
	return s->r.inplace && s->r.message && s->r.strategy ? s : save_free(s);
}

static int save_work(struct store *store, void *userdata)
{
	struct save *s = userdata;

	return store_job_update(store, &s->r);
}

static void finished_saved(struct job *j)
{
	struct jobs *jobs = j->jobs;

	if (j->told)
		tell_job_finished(jobs->context, &j->r);
	if (*j->r.staging)
		staging_tidy(j->area, j->submitter, j->uuid_text);
	jobs->counts[j->r.state]--;
	jobs->finished[j->r.state]++;
	j->submitter->user->jobs--;
	job_table_remove(&jobs->table, j);
	job_free(j);
}

static void save_answered(int r, void *userdata)
{
	struct save *s = userdata;
	struct job *j = s->j;

	j->saving--;
	j->unsaved = r < 0 || (j->unsaved && j->saving > 0);
	store_says(j->jobs->context, r);
	if (s->saved)
		s->saved(r, s->userdata);
	save_free(s);
	if (j->refused && j->saving == 0)
		job_free(j);
	else if (!j->refused && job_state_finished(j->r.state) && !j->unsaved && j->saving == 0)
		finished_saved(j);
}

void job_save(struct job *j, void (*saved)(int r, void *userdata), void *userdata)
{
	struct save *s = save_new(j);
	int r = -ENOMEM;

	j->saving++;
	if (s) {
		s->saved = saved;
		s->userdata = userdata;
		r = (job_state_finished(j->r.state) ? store_queue_post_last : store_queue_post)(
			j->jobs->context->store, save_work, save_answered, s);
	}
	if (r >= 0)
		return;
	save_free(s);
	j->saving--;
	j->unsaved = true;
	store_says(j->jobs->context, r);
	if (saved)
		saved(r, userdata);
}

void job_marked(int r, void *userdata)
{
	struct job *j = userdata;

	j->unmarked = r;
	store_says(j->jobs->context, r);
}

void job_save_retry(struct job *j)
{
	if (j->unsaved && j->saving == 0)
		job_save(j, NULL, NULL);
}
