/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: what they would do, having them run, and when their timers elapse, which the service
 * manager is asked for before policies are shown; what it said is kept for a moment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"

#define MANAGER_NAME "org.freedesktop.systemd1"
#define UNIT_PREFIX "/org/freedesktop/systemd1/unit"
/* It says so at once, or not at all. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)
#define KEPT_USEC (1 * USEC_PER_SEC)

/* ---- timers ------------------------------------------------------------------------------- */

struct timer_query {
	struct bus *bus;
	sd_bus_slot *slot;
	size_t policy; /* its place in what was asked about */
};

struct timer_waiter {
	STAILQ_ENTRY(timer_waiter) link;
	void (*done)(void *userdata);
	void *userdata;
};

/* What is known of the timers of the policies that there were when they were asked for. */
struct policy_timers {
	char *names[POLICIES_MOST];
	uint64_t next_usec[POLICIES_MOST];
	struct timer_query queries[POLICIES_MOST];
	size_t n;
	unsigned open;       /* not answered yet */
	uint64_t asked_usec; /* when; 0: never */
	STAILQ_HEAD(timer_waiters, timer_waiter) waiters;
};

static void waiters_call(struct policy_timers *t)
{
	struct timer_waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
	struct timer_waiter *w;

	STAILQ_CONCAT(&waiters, &t->waiters);
	while ((w = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, link);
		w->done(w->userdata);
		free(w);
	}
}

static void query_end(struct timer_query *q)
{
	struct policy_timers *t = q->bus->timers;

	q->slot = sd_bus_slot_unref(q->slot);
	if (--t->open == 0)
		waiters_call(t);
}

static int on_next(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct timer_query *q = userdata;
	uint64_t usec = 0;

	(void)error;
	if (!sd_bus_message_is_method_error(m, NULL) &&
	    sd_bus_message_read(m, "v", "t", &usec) >= 0 && usec != UINT64_MAX)
		q->bus->timers->next_usec[q->policy] = usec;
	query_end(q);
	return 0;
}

static int ask(struct timer_query *q, sd_bus *conn, const char *name)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	_cleanup_free_ char *unit = NULL, *path = NULL;
	int r = asprintf(&unit, "reclaimd-policy@%s.timer", name);

	if (r >= 0)
		r = sd_bus_path_encode(UNIT_PREFIX, unit, &path);
	if (r >= 0)
		r = sd_bus_message_new_method_call(conn, &m, MANAGER_NAME, path,
						   "org.freedesktop.DBus.Properties", "Get");
	if (r >= 0)
		r = sd_bus_message_append(m, "ss", MANAGER_NAME ".Timer", "NextElapseUSecRealtime");
	if (r >= 0)
		r = sd_bus_message_set_auto_start(m, false);
	return r < 0 ? r : sd_bus_call_async(conn, &q->slot, m, on_next, q, PATIENCE_USEC);
}

static void timers_clear(struct policy_timers *t)
{
	while (t->n > 0)
		free(t->names[--t->n]);
}

static void timers_ask(struct bus *b, sd_bus *conn)
{
	struct policy_timers *t = b->timers;
	struct policy_view views[POLICIES_MOST];
	size_t n =
		MIN(operation_policies(b->operations, views, POLICIES_MOST), (size_t)POLICIES_MOST);

	timers_clear(t);
	t->asked_usec = now_usec();
	t->open = 1;
	for (size_t i = 0; i < n; i++) {
		struct timer_query *q = &t->queries[t->n];

		t->names[t->n] = views[i].schedule[0] ? strdup(views[i].name) : NULL;
		if (!t->names[t->n])
			continue;
		*q = (struct timer_query){ .bus = b, .policy = t->n };
		t->next_usec[t->n] = 0;
		t->open += ask(q, conn, t->names[t->n++]) >= 0;
	}
	if (--t->open == 0)
		waiters_call(t);
}

void policy_timers_update(struct bus *b, void (*done)(void *userdata), void *userdata)
{
	struct policy_timers *t = b->timers;
	sd_bus *conn = system_link_connection(b->system);
	bool is_known = t->open == 0 && now_usec() - t->asked_usec < KEPT_USEC;
	struct timer_waiter *w = conn && !is_known ? malloc(sizeof(*w)) : NULL;

	if (!w) {
		done(userdata);
		return;
	}
	*w = (struct timer_waiter){ .done = done, .userdata = userdata };
	STAILQ_INSERT_TAIL(&t->waiters, w, link);
	if (t->open == 0)
		timers_ask(b, conn);
}

void policy_timers_cut(struct bus *b)
{
	struct policy_timers *t = b->timers;

	for (size_t i = 0; i < t->n; i++)
		if (t->queries[i].slot)
			query_end(&t->queries[i]);
}

int policy_timers_new(struct policy_timers **ret)
{
	struct policy_timers *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	STAILQ_INIT(&t->waiters);
	*ret = t;
	return 0;
}

struct policy_timers *policy_timers_free(struct policy_timers *t)
{
	if (t)
		timers_clear(t);
	free(t);
	return NULL;
}

size_t bus_policies_snapshot(struct bus *b)
{
	const struct policy_timers *t = b->timers;
	size_t n = operation_policies(b->operations, b->policies, POLICIES_MOST);

	n = MIN(n, (size_t)POLICIES_MOST);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < t->n; k++)
			if (strcmp(b->policies[i].name, t->names[k]) == 0)
				b->policies[i].next_usec = t->next_usec[k];
	return n;
}

/* ---- calls -------------------------------------------------------------------------------- */

/* The name of the policy whose object is called; malloc'ed. */
static char *name_of(const struct bus_request *q)
{
	char *name = NULL;

	return sd_bus_path_decode(sd_bus_message_get_path(q->m), POLICY_PREFIX, &name) > 0 ? name
											   : NULL;
}

static void on_planned(const struct failure *f, const char *plan, void *userdata)
{
	struct bus_request *q = userdata;

	if (f->cause) {
		request_decide(f, q);
		return;
	}
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append_basic(q->reply, 's', plan);
	q->answer.bytes += strlen(plan);
	request_answer(f, q);
}

static int call_plan(struct bus_request *q)
{
	_cleanup_free_ char *name = name_of(q);

	if (!name)
		return -ENOMEM;
	operation_policy_plan(q->bus->operations, &q->caller, name, on_planned, q);
	return 0;
}

static void on_ran(const struct failure *f, uint64_t job, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX] = "/";

	if (f->cause) {
		request_decide(f, q);
		return;
	}
	if (job > 0)
		job_path(path, job);
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "to", job, path);
	request_answer(f, q);
}

static int call_run(struct bus_request *q)
{
	_cleanup_free_ char *name = name_of(q);

	if (!name)
		return -ENOMEM;
	operation_policy_run(q->bus->operations, &q->caller, name, on_ran, q);
	return 0;
}

const struct call policy_calls[] = {
	{ POLICY_INTERFACE, "Plan", call_plan, 0 },
	{ POLICY_INTERFACE, "Run", call_run, 0 },
	{ 0 },
};
