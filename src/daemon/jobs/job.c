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

static struct job_stub **bucket(const struct job_table *t, uint64_t id)
{
	return &t->buckets[id & (t->n_buckets - 1)];
}

int jobs_reserve(struct jobs *jobs, size_t n)
{
	struct job_table *t = &jobs->table;
	size_t size = MAX(t->n_buckets, (size_t)64);
	struct job_stub **buckets, *s;
	int r = due_heap_reserve(&jobs->waiting, n);

	if (r < 0 || n <= t->n_buckets)
		return r;
	while (size < n)
		size *= 2;
	buckets = calloc(size, sizeof(struct job_stub *));
	if (!buckets)
		return -ENOMEM;
	free(t->buckets);
	t->buckets = buckets;
	t->n_buckets = size;
	TAILQ_FOREACH(s, &t->in_order, in_order) {
		struct job_stub **at = bucket(t, s->id);

		s->next_same_hash = *at;
		*at = s;
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

static void awake_add(struct job_table *t, struct job *j)
{
	TAILQ_INSERT_TAIL(&t->awake, j, awake);
	t->n_awake++;
}

static void awake_remove(struct job_table *t, struct job *j)
{
	TAILQ_REMOVE(&t->awake, j, awake);
	t->n_awake--;
}

void job_table_add(struct job_table *t, struct job *j)
{
	struct job_stub *s = j->stub, **at = bucket(t, s->id), *before;

	s->next_same_hash = *at;
	*at = s;
	t->n++;
	awake_add(t, j);
	/* Ids come in order but for submits that overtake one another. */
	TAILQ_FOREACH_REVERSE(before, &t->in_order, job_list, in_order)
		if (before->id < s->id) {
			TAILQ_INSERT_AFTER(&t->in_order, before, s, in_order);
			return;
		}
	TAILQ_INSERT_HEAD(&t->in_order, s, in_order);
}

void job_table_remove(struct job_table *t, struct job *j)
{
	struct job_stub **at;

	for (at = bucket(t, j->r.id); *at != j->stub; at = &(*at)->next_same_hash)
		;
	*at = j->stub->next_same_hash;
	TAILQ_REMOVE(&t->in_order, j->stub, in_order);
	t->n--;
	awake_remove(t, j);
}

struct job_stub *job_table_find(const struct job_table *t, uint64_t id)
{
	if (t->n == 0)
		return NULL;
	for (struct job_stub *s = *bucket(t, id); s; s = s->next_same_hash)
		if (s->id == id)
			return s;
	return NULL;
}

struct job *job_table_find_awake(const struct job_table *t, uint64_t id)
{
	const struct job_stub *s = job_table_find(t, id);

	return s ? s->job : NULL;
}

struct job_stub *job_table_from(const struct job_table *t, uint64_t id)
{
	struct job_stub *s = job_table_find(t, id);

	if (s)
		return s;
	s = id > 0 ? job_table_find(t, id - 1) : NULL;
	if (s)
		return TAILQ_NEXT(s, in_order);
	TAILQ_FOREACH(s, &t->in_order, in_order)
		if (s->id > id)
			return s;
	return NULL;
}

static void stub_free(struct job_stub *s)
{
	staging_area_unref(s->area);
	submitter_unref(s->submitter);
	free(s);
}

void job_table_done(struct job_table *t)
{
	struct job_stub *s;
	struct job *j;

	while ((j = TAILQ_FIRST(&t->awake))) {
		job_table_remove(t, j);
		job_free(j);
	}
	while ((s = TAILQ_FIRST(&t->in_order))) {
		TAILQ_REMOVE(&t->in_order, s, in_order);
		stub_free(s);
	}
	free(t->buckets);
	*t = (struct job_table){ .in_order = TAILQ_HEAD_INITIALIZER(t->in_order),
				 .awake = TAILQ_HEAD_INITIALIZER(t->awake) };
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

/* Has job-rest.h look at what may be done now. */
static void rest_kick(const struct jobs *jobs)
{
	if (jobs->rest_source)
		(void)sd_event_source_set_enabled(jobs->rest_source, SD_EVENT_ONESHOT);
}

void job_rest_later(struct job *j)
{
	if (!j->rest_asked)
		LIST_INSERT_HEAD(&j->jobs->may_rest, j, may_rest);
	j->rest_asked = true;
	rest_kick(j->jobs);
}

static void turn_end(struct job_stub *s)
{
	if (!s->has_turn)
		return;
	s->has_turn = false;
	s->jobs->n_turns--;
	rest_kick(s->jobs);
}

/* Frees the job without its stub. */
static void awake_free(struct job *j)
{
	struct jobs *jobs = j->jobs;

	assert(!j->remainder && !j->deletes && !j->frees && SLIST_EMPTY(&j->shrinking));
	if (jobs->at_hand.job == j)
		at_hand_clear(jobs);
	if (j->rest_asked)
		LIST_REMOVE(j, may_rest);
	turn_end(j->stub);
	for (size_t i = 0; i < ELEMENTSOF(own_texts); i++)
		job_set_text(text_of(&j->r, own_texts[i]), NULL);
	j->stub->job = NULL;
	free(j);
}

struct job *job_free(struct job *j)
{
	struct job_stub *s = j ? j->stub : NULL;

	if (!j)
		return NULL;
	awake_free(j);
	stub_free(s);
	return NULL;
}

void job_sleep(struct job *j)
{
	struct job_stub *s = j->stub;

	s->phase = j->phase;
	s->held_until_usec = j->r.held_until_usec;
	s->started = j->r.started_usec > 0;
	s->takes_back = job_life_start(j->phase, j->r.resume_state) == START_TAKE_BACK;
	awake_remove(&j->jobs->table, j);
	awake_free(j);
}

struct job_record job_stub_key(const struct job_stub *s)
{
	struct job_record r = { .id = s->id, .uid = s->submitter->id.uid };

	memcpy(r.uuid, s->uuid, sizeof(r.uuid));
	return r;
}

void job_uuid_format(const uint8_t uuid[static 16], char ret[static 33])
{
	for (size_t i = 0; i < 16; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}

/* Makes the job of a stub, which is not among those awake yet. Returns 0 or -ENOMEM. */
static int awake_new(struct job_stub *s, const struct job_record *r)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->r = *r;
	j->stub = s;
	j->jobs = s->jobs;
	j->phase = job_life_loaded(r->state);
	j->submitter = s->submitter;
	j->area = s->area;
	job_uuid_format(r->uuid, j->uuid_text);
	j->r.groups = s->submitter->id.groups;
	j->r.n_groups = s->submitter->id.n_groups;
	j->r.mount = s->area->mount;
	j->r.host = s->area->host;
	j->r.staging = r->staging && *r->staging ? j->uuid_text : empty;
	for (size_t i = 0; i < ELEMENTSOF(own_texts); i++) {
		const char **text = text_of(&j->r, own_texts[i]), *to = *text;

		*text = empty;
		job_set_text(text, to);
	}
	s->job = j;
	return 0;
}

int job_new(struct job **ret, struct jobs *jobs, const struct job_record *r,
	    struct submitter *submitter, struct staging_area *area)
{
	struct job_stub *s = malloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct job_stub){ .id = r->id,
				.jobs = jobs,
				.submitter = submitter_ref(submitter),
				.area = staging_area_ref(area),
				.priority = r->priority };
	memcpy(s->uuid, r->uuid, sizeof(s->uuid));
	if (awake_new(s, r) < 0) {
		stub_free(s);
		return -ENOMEM;
	}
	*ret = s->job;
	return 0;
}

int job_awaken(struct job_stub *s, const struct job_record *r)
{
	int e = awake_new(s, r);
	struct job *j = s->job;

	if (e < 0)
		return e;
	j->phase = s->phase;
	j->r.state = job_phases[s->phase].state;
	j->r.held_until_usec = s->held_until_usec;
	j->told = true;
	awake_add(&j->jobs->table, j);
	return 0;
}

bool job_state_finished(enum job_state s)
{
	return s >= JOB_DONE;
}

bool job_knows_staged(const struct job *j)
{
	return j->r.started_usec == 0 || (j->r.attempts == 0 && !*j->r.host);
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
	/* It may take long from here on. */
	if (to == PHASE_RUNNING || job_phase_is(to, PHASES_FREEING))
		turn_end(j->stub);
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
	else if (!j->refused)
		job_rest_later(j);
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
