/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "outcome.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEMS_MAX 1000

struct outcome_range {
	uint64_t from, to;
	enum entry_state state;
};

struct outcome {
	uint64_t job;
	struct lasting_identity staging_id; /* ino 0: not to be set */
	struct outcome_range *ranges;
	size_t n_ranges, ranges_size;
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

struct outcome *outcome_free(struct outcome *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->n_problems; i++) {
		free((char *)o->problems[i].path);
		free((char *)o->problems[i].what);
	}
	free(o->problems);
	free(o->ranges);
	free(o);
	return NULL;
}

int outcome_mark(struct outcome *o, uint64_t from, uint64_t to, enum entry_state state)
{
	struct outcome_range *last = o->n_ranges > 0 ? &o->ranges[o->n_ranges - 1] : NULL;
	size_t size;

	if (last && last->state == state && last->to + 1 == from) {
		last->to = to;
		return 0;
	}
	if (!o->ranges || o->n_ranges == o->ranges_size) {
		size = o->ranges_size ? 2 * o->ranges_size : 4;
		last = reallocarray(o->ranges, size, sizeof(*last));
		if (!last)
			return -ENOMEM;
		o->ranges = last;
		o->ranges_size = size;
	}
	o->ranges[o->n_ranges++] = (struct outcome_range){ .from = from, .to = to, .state = state };
	return 0;
}

int outcome_problem(struct outcome *o, const struct problem_record *p)
{
	struct problem_record *copy;

	if (o->n_problems == PROBLEMS_MAX)
		return 0;
	copy = reallocarray(o->problems, o->n_problems + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	o->problems = copy;
	copy += o->n_problems;
	*copy = *p;
	copy->path = strdup(p->path);
	copy->what = strdup(p->what);
	if (!copy->path || !copy->what) {
		free((char *)copy->path);
		free((char *)copy->what);
		return -ENOMEM;
	}
	o->n_problems++;
	return 0;
}

static int record_work(struct store *s, void *userdata)
{
	struct outcome *o = userdata;
	int r = o->staging_id.ino != 0 ? store_job_staged(s, o->job, &o->staging_id) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < o->n_ranges; i++) {
		const struct outcome_range *range = &o->ranges[i];

		r = store_entries_set(s, o->job, range->from, range->to, range->state);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < o->n_problems; i++) {
		r = store_problem_add(s, o->job, &o->problems[i]);
		if (r < 0)
			return r;
	}
	return 0;
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
