/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "outcome.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define PROBLEMS_MAX 1000

struct outcome_range {
	uint64_t from, to;
	enum entry_state state;
};

struct outcome {
	uint64_t job;
	struct lasting_identity staging_id; /* ino 0: not to be set */
	struct outcome_range *ranges;
	size_t n_ranges;
	struct problem_record *problems;
	size_t n_problems;
	void (*recorded)(int r, void *userdata);
	void *userdata;
};

struct outcome *outcome_new(uint64_t job)
{
	struct outcome *o = calloc(1, sizeof(*o));

	if (o)
		o->job = job;
	return o;
}

void outcome_staging(struct outcome *o, const struct lasting_identity *id)
{
	o->staging_id = *id;
}

static void problem_free(struct problem_record *p)
{
	free((char *)p->path);
	free((char *)p->what);
}

struct outcome *outcome_free(struct outcome *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->n_problems; i++)
		problem_free(&o->problems[i]);
	free(o->problems);
	free(o->ranges);
	free(o);
	return NULL;
}

int outcome_mark(struct outcome *o, uint64_t from, uint64_t to, enum entry_state state)
{
	struct outcome_range *last = o->n_ranges > 0 ? &o->ranges[o->n_ranges - 1] : NULL;

	if (last && last->state == state && last->to + 1 == from) {
		last->to = to;
		return 0;
	}
	last = array_add(&o->ranges, &o->n_ranges, sizeof(*last));
	if (!last)
		return -ENOMEM;
	*last = (struct outcome_range){ .from = from, .to = to, .state = state };
	return 0;
}

int outcome_problem(struct outcome *o, const struct problem_record *p)
{
	struct problem_record *copy;

	if (o->n_problems == PROBLEMS_MAX)
		return 0;
	copy = array_add(&o->problems, &o->n_problems, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *p;
	copy->path = strdup(p->path);
	copy->what = strdup(p->what);
	if (copy->path && copy->what)
		return 0;
	problem_free(copy);
	o->n_problems--;
	return -ENOMEM;
}

static int record_work(struct store *s, void *userdata)
{
	struct outcome *o = userdata;
	int r = o->staging_id.ino != 0 ? store_job_staged(s, o->job, &o->staging_id) : 0;

	for (size_t i = 0; i < o->n_ranges && r >= 0; i++) {
		const struct outcome_range *range = &o->ranges[i];

		r = store_entries_set(s, o->job, range->from, range->to, range->state);
	}
	for (size_t i = 0; i < o->n_problems && r >= 0; i++)
		r = store_problem_add(s, o->job, &o->problems[i]);
	return r < 0 ? r : 0;
}

static void record_done(int r, void *userdata)
{
	struct outcome *o = userdata;

	if (o->recorded)
		o->recorded(r, o->userdata);
	outcome_free(o);
}

void outcome_record(struct outcome *o, struct store_queue *q,
		    void (*recorded)(int r, void *userdata), void *userdata)
{
	int r;

	o->recorded = recorded;
	o->userdata = userdata;
	r = store_queue_post(q, record_work, record_done, o);
	if (r < 0)
		record_done(r, o);
}
