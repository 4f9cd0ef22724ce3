/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies, as callers see them and have them work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "config/config.h"
#include "daemon/context/failure.h"
#include "daemon/jobs/jobs.h"
#include "daemon/policies/policy-last.h"
#include "daemon/policies/policy-process.h"
#include "policy/policy.h"
#include "operations-state.h"
#include "operations.h"

/* Each is a process that scans. */
#define WORKS_MOST 8

struct policy_work {
	LIST_ENTRY(policy_work) link;
	struct operations *operations;
	struct policy_process *process;
	struct listener listener; /* of a run: for its job */
	char *name;
	policy_planned_t planned; /* of a plan; or */
	policy_ran_t ran;         /* of a run; NULL: both have been called */
	void *userdata;
};

static struct policy_work *work_free(struct policy_work *w)
{
	LIST_REMOVE(w, link);
	listener_remove(w->operations->jobs->context, &w->listener);
	(void)policy_process_free(w->process);
	free(w->name);
	free(w);
	return NULL;
}

/* ---- views -------------------------------------------------------------------------------- */

static void view_fill(struct policy_view *v, const struct config_policy *p)
{
	*v = (struct policy_view){
		.name = p->name,
		.path = p->rules.path,
		.schedule = p->schedule ? p->schedule : "",
		.match = p->rules.match,
		.watched = !p->schedule && policy_has_marks(&p->rules),
		.max_delete = p->rules.max_delete,
		.undo_usec = p->undo_usec,
	};
}

/* Room for n; they point into themselves, and are read again where that is another number. Without
 * memory it is as if none had run. */
static struct policy_last *lasts_get(struct operations *o, size_t n)
{
	if (n == o->n_policy_lasts)
		return o->policy_lasts;
	free(o->policy_lasts);
	o->policy_lasts = calloc(n, sizeof(*o->policy_lasts));
	o->n_policy_lasts = o->policy_lasts ? n : 0;
	return o->policy_lasts;
}

static void view_add_last(struct policy_view *v, const struct policy_last *l)
{
	v->last_usec = l->r.began_usec;
	v->last_result = l->r.began_usec > 0 ? result_word(&l->r) : "";
	v->last_job = l->r.job;
	v->refused = l->r.refused.n;
	v->excess = l->r.excess.n;
	v->success_usec = l->r.success_usec;
	v->oldest_usec = l->r.oldest_usec;
	v->why = l->why;
}

static struct policy_view *view_find(struct policy_view *views, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(views[i].name, name) == 0)
			return &views[i];
	return NULL;
}

size_t operation_policies(struct operations *o, struct policy_view *views, size_t n)
{
	const struct config *c = o->jobs->context->config;
	size_t filled = MIN(n, c->n_policies);
	struct policy_last *lasts = lasts_get(o, c->n_policies);
	const struct policy_work *w;
	const struct job *j;

	for (size_t i = 0; i < filled; i++) {
		view_fill(&views[i], &c->policies[i]);
		if (lasts)
			policy_last_update(&lasts[i], o->jobs->context->o.state_dir, views[i].name);
		if (lasts)
			view_add_last(&views[i], &lasts[i]);
	}
	LIST_FOREACH(w, &o->policy_works, link) {
		struct policy_view *v = w->planned ? NULL : view_find(views, filled, w->name);

		if (v)
			v->running = true;
	}
	TAILQ_FOREACH(j, &o->jobs->table.awake, awake) {
		const char *name = policy_of_origin(j->r.origin);
		struct policy_view *v = name ? view_find(views, filled, name) : NULL;

		if (v && !job_state_finished(j->r.state)) {
			v->running = true;
			v->job = j->r.id;
		}
	}
	return c->n_policies;
}

/* ---- work --------------------------------------------------------------------------------- */

/* Answers what is waited for, if it is. */
static void work_answer(struct policy_work *w, const struct failure *f, const char *plan,
			uint64_t job)
{
	policy_planned_t planned = w->planned;
	policy_ran_t ran = w->ran;

	w->planned = NULL;
	w->ran = NULL;
	if (planned)
		planned(f, plan, w->userdata);
	else if (ran)
		ran(f, job, w->userdata);
}

/* The object in the array of one. */
static char *plan_of(const char *output, size_t len)
{
	while (len > 0 && output[len - 1] == '\n')
		len--;
	if (len < 4 || output[0] != '[' || output[1] != '{' || output[len - 2] != '}' ||
	    output[len - 1] != ']' || memchr(output, '\0', len))
		return NULL;
	return strndup(output + 1, len - 2);
}

static void on_ended(bool went_well, const char *output, size_t len, void *userdata)
{
	struct policy_work *w = userdata;
	_cleanup_free_ char *plan = w->planned && output ? plan_of(output, len) : NULL;
	struct failure f = { 0 };

	if (w->planned && !output)
		failure_set(&f, ERROR_LIMIT_EXCEEDED,
			    "the plan of policy %s is longer than can be answered: see reclaimctl "
			    "policy plan %s",
			    w->name, w->name);
	else if (w->planned && (!plan || !text_is_safe(plan)))
		failure_set(&f, ERROR_FAILED,
			    "policy %s could not be planned: see the journal, or reclaimctl policy "
			    "plan %s",
			    w->name, w->name);
	else if (w->ran && !went_well)
		failure_set(&f, ERROR_FAILED,
			    "policy %s could not run, or not do all it was to do: see the journal, "
			    "or reclaimctl policy plan %s",
			    w->name, w->name);
	work_answer(w, &f, plan, 0);
	(void)work_free(w);
}

static void on_job_new(const struct job_record *r, void *userdata)
{
	struct policy_work *w = userdata;
	const char *name = policy_of_origin(r->origin);
	struct failure none = { 0 };

	if (name && strcmp(name, w->name) == 0)
		work_answer(w, &none, NULL, r->id);
}

static bool is_there(const struct operations *o, const char *name)
{
	const struct config *c = o->jobs->context->config;

	for (size_t i = 0; i < c->n_policies; i++)
		if (strcmp(c->policies[i].name, name) == 0)
			return true;
	return false;
}

static bool may_begin(const struct operations *o, const struct caller *c, const char *name,
		      const char *what, struct failure *f)
{
	const struct policy_work *w;
	unsigned n = 0;

	/* What has been answered only waits for a job. */
	LIST_FOREACH(w, &o->policy_works, link)
		n += w->planned || w->ran;
	if (operations_stopping(o, f) || !authorize_everybody(c, f, what))
		return false;
	if (!is_there(o, name))
		failure_set(f, ERROR_INVALID_ARGUMENT, "there is no policy %.80s", name);
	else if (n >= WORKS_MOST)
		failure_set(
			f, ERROR_LIMIT_EXCEEDED,
			"%u policies are looked at, or run, already: try again when one of them "
			"is done",
			n);
	return f->cause == ERROR_NONE;
}

/* Takes *wanted as what it begins with; returns 0 or a negative errno. */
static int work_begin(struct operations *o, const struct policy_work *wanted, const char *name)
{
	struct policy_work *w = malloc(sizeof(*w));
	bool run = wanted->ran;
	int r = -ENOMEM;

	if (!w)
		return r;
	*w = *wanted;
	w->operations = o;
	w->name = strdup(name);
	w->listener = (struct listener){ .job_new = run ? on_job_new : NULL, .userdata = w };
	LIST_INSERT_HEAD(&o->policy_works, w, link);
	listener_add(o->jobs->context, &w->listener);
	if (w->name)
		r = policy_process_new(&w->process, o->jobs->context, w->name, run, on_ended, w);
	if (r < 0)
		(void)work_free(w);
	return r;
}

void operation_policy_plan(struct operations *o, const struct caller *c, const char *name,
			   policy_planned_t done, void *userdata)
{
	const struct policy_work wanted = { .planned = done, .userdata = userdata };
	struct failure f = { 0 };
	int r = -EPERM;

	if (may_begin(o, c, name, "see what a policy would delete", &f))
		r = work_begin(o, &wanted, name);
	if (r < 0 && !f.cause)
		failure_errno(&f, r, "policy %s could not be planned", name);
	if (f.cause)
		done(&f, NULL, userdata);
}

void operation_policy_run(struct operations *o, const struct caller *c, const char *name,
			  policy_ran_t done, void *userdata)
{
	const struct policy_work wanted = { .ran = done, .userdata = userdata };
	struct failure f = { 0 };
	int r = -EPERM;

	if (may_begin(o, c, name, "have a policy run", &f))
		r = work_begin(o, &wanted, name);
	if (r < 0 && !f.cause)
		failure_errno(&f, r, "policy %s could not be run", name);
	if (f.cause)
		done(&f, 0, userdata);
}

void policy_works_end(struct operations *o)
{
	struct failure f = { 0 };

	failure_set(&f, ERROR_BUSY, "reclaimd is stopping: try again when it runs");
	for (struct policy_work *w = LIST_FIRST(&o->policy_works), *next; w; w = next) {
		next = LIST_NEXT(w, link);
		work_answer(w, &f, NULL, 0);
		(void)work_free(w);
	}
}
