/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What top makes of what the daemon says again and again. */
#include <string.h>

#include "ctl/devices/daemon-devices.h"
#include "ctl/top/top-model.h"
#include "support.h"
#include "base/macros.h"

#define MOMENT (1000 * USEC_PER_SEC)

struct said {
	struct metrics metrics;
	struct job_list lists[TOP_STATES];
};

static void say_job(struct said *s, enum top_state state, struct job_line j)
{
	struct job_list *l = &s->lists[state];

	j.state = top_state_names[state];
	j.origin = "submit";
	j.priority = "normal";
	j.path = "/x";
	l->v = reallocarray(l->v, l->n + 1, sizeof(j));
	ck_assert_ptr_nonnull(l->v);
	l->v[l->n++] = j;
}

static void say_device(struct said *s, const char *key, const char *mode, int quantum_usec)
{
	if (!s->metrics.devices)
		s->metrics.devices = json_array();
	ck_assert_int_eq(
		json_array_append_new(s->metrics.devices,
				      json_pack("{sssssisi}", "key", key, "mode", mode,
						"target_usec", 2000, "piece_usec", quantum_usec)),
		0);
}

static void update(struct top_model *m, struct said *s, uint64_t now)
{
	ck_assert_int_eq(top_model_update(m, &s->metrics, s->lists, now), 0);
	for (size_t i = 0; i < TOP_STATES; i++)
		ck_assert_uint_eq(s->lists[i].n, 0);
	*s = (struct said){ 0 };
}

START_TEST(what_runs_comes_first)
{
	struct top_model m = { 0 };
	struct said s = { 0 };

	say_job(&s, TOP_HELD, (struct job_line){ .id = 1 });
	say_job(&s, TOP_QUEUED, (struct job_line){ .id = 2 });
	say_job(&s, TOP_RUNNING, (struct job_line){ .id = 3 });
	say_job(&s, TOP_QUEUED, (struct job_line){ .id = 4 });
	update(&m, &s, MOMENT);
	ck_assert_uint_eq(m.n_jobs, 4);
	ck_assert_uint_eq(m.jobs[0].line->id, 3);
	ck_assert_uint_eq(m.jobs[1].line->id, 2);
	ck_assert_uint_eq(m.jobs[3].line->id, 1);
	ck_assert_uint_eq(top_model_place(&m, 4, 0), 2);
	/* What is gone leaves its place to another, or to the last. */
	ck_assert_uint_eq(top_model_place(&m, 9, 1), 1);
	ck_assert_uint_eq(top_model_place(&m, 9, 7), 3);
	top_model_done(&m);
	ck_assert_uint_eq(top_model_place(&m, 9, 7), 0);
}
END_TEST

START_TEST(how_fast_and_how_long)
{
	struct top_model m = { 0 };
	struct said s = { 0 };

	say_job(&s, TOP_RUNNING,
		(struct job_line){ .id = 1, .entries = 1000, .entries_done = 100 });
	update(&m, &s, MOMENT);
	/* How fast it goes is not known from one answer. */
	ck_assert_double_lt(m.jobs[0].entries_rate, 0);
	ck_assert_uint_eq(m.jobs[0].left_usec, 0);
	ck_assert_double_eq_tol(m.jobs[0].share, 0.1, 0.001);
	say_job(&s, TOP_RUNNING,
		(struct job_line){ .id = 1, .entries = 1000, .entries_done = 200 });
	update(&m, &s, MOMENT + 2 * USEC_PER_SEC);
	ck_assert_double_eq_tol(m.jobs[0].entries_rate, 50, 0.001);
	/* Two seconds tell nothing of hours. */
	ck_assert_uint_eq(m.jobs[0].left_usec, 0);
	say_job(&s, TOP_RUNNING,
		(struct job_line){ .id = 1, .entries = 1000, .entries_done = 300 });
	update(&m, &s, MOMENT + 4 * USEC_PER_SEC);
	ck_assert_uint_eq(m.jobs[0].left_usec, 14 * USEC_PER_SEC);
	/* One that stands still is soon known to. */
	say_job(&s, TOP_RUNNING,
		(struct job_line){ .id = 1, .entries = 1000, .entries_done = 300 });
	update(&m, &s, MOMENT + 6 * USEC_PER_SEC);
	ck_assert_double_eq_tol(m.jobs[0].entries_rate, 35, 0.001);
	top_model_done(&m);
}
END_TEST

START_TEST(a_file_is_its_bytes)
{
	struct job_line j = { .id = 1, .entries = 1, .bytes = MiB(4) * 1000 };
	struct top_model m = { 0 };
	struct said s = { 0 };

	say_job(&s, TOP_RUNNING, j);
	update(&m, &s, MOMENT);
	j.bytes_freed = MiB(4) * 500;
	say_job(&s, TOP_RUNNING, j);
	update(&m, &s, MOMENT + 5 * USEC_PER_SEC);
	ck_assert_double_eq_tol(m.jobs[0].share, 0.5, 0.001);
	ck_assert_double_eq_tol(m.jobs[0].bytes_rate, MiB(4) * 100, 0.001);
	ck_assert_double_eq_tol((double)m.jobs[0].left_usec, 5e6, 1e5);
	top_model_done(&m);
}
END_TEST

START_TEST(no_share_without_a_whole)
{
	struct top_model m = { 0 };
	struct said s = { 0 };

	say_job(&s, TOP_RUNNING, (struct job_line){ .id = 1, .entries_done = 70 });
	/* More than was thought is all of it. */
	say_job(&s, TOP_RUNNING, (struct job_line){ .id = 2, .entries = 5, .entries_done = 7 });
	update(&m, &s, MOMENT);
	ck_assert_double_lt(m.jobs[0].share, 0);
	ck_assert_double_eq_tol(m.jobs[1].share, 1, 0.001);
	top_model_done(&m);
}
END_TEST

START_TEST(a_device_has_a_past)
{
	struct top_model m = { 0 };
	struct said s = { 0 };
	const double *past;
	json_t *name;

	say_device(&s, "no:number", "paced", 1000);
	update(&m, &s, MOMENT);
	say_device(&s, "other", "paced", 500);
	say_device(&s, "no:number", "paced", 3000);
	update(&m, &s, MOMENT + 1);
	say_device(&s, "no:number", "fast", 3000);
	update(&m, &s, MOMENT + 2);
	ck_assert_uint_eq(m.n_devices, 1);
	ck_assert_str_eq(json_string_value(json_object_get(m.devices[0].now, "key")), "no:number");
	name = device_set_name("no:number+no");
	ck_assert_str_eq(json_string_value(name), "no:number+no");
	json_decref(name);
	past = m.devices[0].history + TOP_HISTORY;
	ck_assert_double_eq_tol(past[-3], 0.5, 0.001);
	ck_assert_double_eq_tol(past[-2], 1.5, 0.001);
	ck_assert_double_eq_tol(past[-1], 0, 0.001);
	top_model_done(&m);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_runs_comes_first, how_fast_and_how_long, a_file_is_its_bytes,
				 no_share_without_a_whole, a_device_has_a_past };

	return run_case("top", tests, ELEMENTSOF(tests));
}
