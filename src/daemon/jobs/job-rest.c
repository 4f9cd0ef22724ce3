/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-rest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/context/log.h"
#include "policy/policy.h"
#include "shrinking.h"
#include "undo-deadline.h"

/* Jobs that have their turn at the same time. More would not be faster, because the store thread
 * does one after the other. */
#define TURNS_MOST 64

/* How long a job waits whose record could not be read. */
#define RETRY_USEC (1 * USEC_PER_SEC)

/* ---- falling asleep ---------------------------------------------------------------------------
 */

/* Returns true if other modules read the job's record while it rests. These are the jobs of the
 * system's policies. Only root can create them, so there are few. */
static bool is_special(const struct job *j)
{
	return policy_of_origin(j->r.origin);
}

/* Returns true if the record in the store is the one in memory. */
static bool is_stored(const struct job *j)
{
	return j->told && j->saving == 0 && !j->unsaved && !j->unmarked;
}

static bool is_used(const struct job *j)
{
	return j->run || j->submit || j->remainder || j->deletes || j->frees || j->settles ||
	       j->withdrawal || j->shared || j->stopped || !SLIST_EMPTY(&j->shrinking) ||
	       j->jobs->at_hand.job == j ||
	       /* What the fleet knows of a job points to it. */
	       (j->jobs->sharing && j->r.started_usec > 0);
}

static bool may_rest(const struct job *j)
{
	return job_phase_is(j->phase, PHASES_AT_REST) && is_stored(j) && !is_used(j) &&
	       !is_special(j);
}

void job_rest_loaded(struct job *j)
{
	if (may_rest(j) && !shrinking_has(j->jobs, j->r.id))
		job_sleep(j);
}

static void turns_begin(struct jobs *jobs);

static int on_rest(sd_event_source *source, void *userdata)
{
	struct jobs *jobs = userdata;
	struct job *j;

	(void)source;
	while ((j = LIST_FIRST(&jobs->may_rest))) {
		LIST_REMOVE(j, may_rest);
		j->rest_asked = false;
		if (may_rest(j))
			job_sleep(j);
	}
	turns_begin(jobs);
	return 0;
}

int job_rest_begin(struct jobs *jobs)
{
	int r = sd_event_add_defer(jobs->context->event, &jobs->rest_source, on_rest, jobs);

	return r < 0 ? r : sd_event_source_set_description(jobs->rest_source, "rest");
}

/* ---- waking -----------------------------------------------------------------------------------
 */

struct waiter {
	STAILQ_ENTRY(waiter) next;
	job_awake_t awake;
	void *userdata;
};

struct wake {
	struct job_stub *stub;
	uint64_t id; /* of the stub, for the store thread */
	struct job_record r;
	char *texts; /* of r */
	STAILQ_HEAD(waiters, waiter) waiters;
};

static int keep_record(const struct job_record *r, void *userdata)
{
	struct wake *w = userdata;

	return job_record_copy(&w->r, r, &w->texts);
}

static int wake_work(struct store *store, void *userdata)
{
	struct wake *w = userdata;

	return store_job_get(store, w->id, keep_record, w);
}

static void wake_done(int r, void *userdata)
{
	struct wake *w = userdata;
	struct job_stub *s = w->stub;
	struct context *c = s->jobs->context;
	struct waiter *waiter;

	if (r >= 0 && memcmp(w->r.uuid, s->uuid, sizeof(s->uuid)) != 0)
		r = -ESTALE;
	if (r >= 0)
		r = job_awaken(s, &w->r);
	if (r < 0 && !s->jobs->unreadable)
		log_line(LOG_ERR, "The record of job %" PRIu64 " cannot be read: %s", s->id,
			 strerror(-r));
	s->jobs->unreadable = r < 0;
	if (r >= 0 && s->job->phase == PHASE_QUEUED && s->due.index > 0)
		s->job->retry_usec = deadline_of(s);
	s->wake = NULL;
	while ((waiter = STAILQ_FIRST(&w->waiters))) {
		STAILQ_REMOVE_HEAD(&w->waiters, next);
		waiter->awake(MIN(r, 0), s, waiter->userdata);
		free(waiter);
	}
	if (r >= 0)
		job_rest_later(s->job);
	free(w->texts);
	free(w);
	context_flow_ends(c);
}

static int wake_begin(struct job_stub *s)
{
	struct wake *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	STAILQ_INIT(&w->waiters);
	w->stub = s;
	w->id = s->id;
	r = store_queue_read(s->jobs->context->store, STORE_DAEMON, wake_work, wake_done, w);
	if (r < 0) {
		free(w);
		return r;
	}
	s->wake = w;
	context_flow_begins(s->jobs->context);
	return 0;
}

void job_wake(struct job_stub *s, job_awake_t awake, void *userdata)
{
	struct waiter *waiter;
	int r = 0;

	if (s->job) {
		awake(0, s, userdata);
		return;
	}
	waiter = malloc(sizeof(*waiter));
	if (waiter && !s->wake)
		r = wake_begin(s);
	if (!waiter || r < 0) {
		free(waiter);
		awake(-ENOMEM, s, userdata);
		return;
	}
	*waiter = (struct waiter){ .awake = awake, .userdata = userdata };
	STAILQ_INSERT_TAIL(&s->wake->waiters, waiter, next);
}

/* ---- turns ------------------------------------------------------------------------------------
 */

static void on_turn(int r, struct job_stub *s, void *userdata)
{
	struct jobs *jobs = userdata;

	if (r >= 0) {
		struct job *j = s->job;

		jobs->turn(j);
		job_rest_later(j);
		return;
	}
	s->has_turn = false;
	jobs->n_turns--;
	if (s->due.index == 0)
		deadline_wait(s, deadline_clock(jobs) + RETRY_USEC);
}

static void turns_begin(struct jobs *jobs)
{
	struct job_stub *s;

	while (jobs->n_turns < TURNS_MOST && (s = TAILQ_FIRST(&jobs->turns))) {
		TAILQ_REMOVE(&jobs->turns, s, in_queue);
		s->place = STUB_NOWHERE;
		s->has_turn = true;
		jobs->n_turns++;
		job_wake(s, on_turn, jobs);
	}
}

void job_turn_wait(struct job_stub *s)
{
	if (s->place != STUB_NOWHERE || s->has_turn)
		return;
	TAILQ_INSERT_TAIL(&s->jobs->turns, s, in_queue);
	s->place = STUB_TURN;
	turns_begin(s->jobs);
}
