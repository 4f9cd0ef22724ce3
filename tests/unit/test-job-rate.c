/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast a job gets on is told from its last seconds, and what is left of it from that. */
#include "base/macros.h"
#include "daemon/jobs/job-rate.h"
#include "store/store.h"
#include "support.h"

#define HALF (USEC_PER_SEC / 2)
#define BEGIN (1000 * USEC_PER_SEC)

/* `steps` times half a second, in each of which so many bytes were freed. */
static uint64_t go(struct job_rate *r, uint64_t *bytes, unsigned steps, uint64_t each)
{
	uint64_t now = MAX(r->usec, (uint64_t)BEGIN);

	for (unsigned i = 0; i < steps; i++)
		job_rate_add(r, now += HALF, 0, *bytes += each);
	return now;
}

static void check_near(double is, double wanted)
{
	ck_assert_msg(is > 0.8 * wanted && is < 1.25 * wanted, "%g is not near %g", is, wanted);
}

START_TEST(steady)
{
	struct job_rate r = { 0 };
	struct job_record j = { .bytes = MiB(1000), .entries = 1 };
	uint64_t bytes = MiB(300);

	job_rate_add(&r, BEGIN, 0, bytes); /* what was done before counts for nothing */
	ck_assert(!(r.bytes_second > 0));
	go(&r, &bytes, 1, MiB(10));
	check_near(r.bytes_second, MiB(20));
	go(&r, &bytes, 39, MiB(10));
	check_near(r.bytes_second, MiB(20));
	j.bytes_freed = bytes;
	j.entries_done = 1;
	check_near((double)job_rate_left_usec(&r, &j), 15.0 * USEC_PER_SEC);
}
END_TEST

START_TEST(steps_of_a_large_file_are_a_mean)
{
	struct job_rate r = { 0 };
	uint64_t bytes = 0;

	job_rate_add(&r, BEGIN, 0, 0);
	for (unsigned i = 0; i < 30; i++) {
		go(&r, &bytes, 1, MiB(40));
		go(&r, &bytes, 3, 0);
		ck_assert(r.bytes_second > MiB(10) && r.bytes_second < MiB(81));
	}
	check_near(r.bytes_second, MiB(20));
}
END_TEST

START_TEST(a_device_that_became_busy_is_seen)
{
	struct job_rate r = { 0 };
	uint64_t bytes = 0;

	job_rate_add(&r, BEGIN, 0, 0);
	go(&r, &bytes, 1000, MiB(100));
	go(&r, &bytes, 120, MiB(1));
	check_near(r.bytes_second, MiB(2));
}
END_TEST

START_TEST(what_takes_longest_counts)
{
	struct job_rate r = { .usec = BEGIN, .entries_second = 100, .bytes_second = 1e6 };
	struct job_record j = {
		.entries = 1000, .entries_done = 500, .bytes = 2000000, .bytes_freed = 1000000
	};

	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 5 * USEC_PER_SEC);
	j.bytes = 0; /* not known, or nothing to be freed */
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 5 * USEC_PER_SEC);
	j.bytes = 11000000;
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 10 * USEC_PER_SEC);
	j.entries_done = j.entries;
	j.bytes_freed = j.bytes + 1;
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 0);
}
END_TEST

START_TEST(large_files_are_bytes)
{
	struct job_rate r = { .usec = BEGIN, .bytes_second = MiB(10) };
	struct job_record j = { .entries = 2, .bytes = MiB(2000), .bytes_freed = MiB(1000) };

	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 100 * USEC_PER_SEC);
	r.entries_second = 1e-6; /* one went long ago */
	j.entries_done = 1;
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 100 * USEC_PER_SEC);
	j.entries = 0; /* not known */
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), 100 * USEC_PER_SEC);
}
END_TEST

START_TEST(what_is_not_known)
{
	struct job_rate r = { .usec = BEGIN, .entries_second = 100, .bytes_second = 1e6 };
	struct job_record j = { .entries_done = 500, .bytes_freed = 1000000 };

	ck_assert_uint_eq(job_rate_left_usec(&r, &j), UINT64_MAX);
	j.bytes = 2000000;
	r.bytes_second = 0; /* it does not get on */
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), UINT64_MAX);
	r.bytes_second = 1e-9;
	ck_assert_uint_eq(job_rate_left_usec(&r, &j), UINT64_MAX);
}
END_TEST

START_TEST(odd_samples)
{
	struct job_rate r = { 0 };

	job_rate_add(&r, BEGIN, 10, 1000);
	job_rate_add(&r, BEGIN, 20, 2000); /* twice at once */
	ck_assert(!(r.entries_second > 0) && !(r.bytes_second > 0));
	job_rate_add(&r, BEGIN + USEC_PER_SEC, 5, 500); /* a worker died with what it had told */
	ck_assert(!(r.entries_second > 0) && !(r.bytes_second > 0));
	job_rate_add(&r, BEGIN + 2 * USEC_PER_SEC, 15, 1500);
	check_near(r.entries_second, 5);
	check_near(r.bytes_second, 500);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("job-rate");
	TCase *tc = tcase_create("job-rate");
	const TTest *const tests[] = {
		steady,
		steps_of_a_large_file_are_a_mean,
		a_device_that_became_busy_is_seen,
		what_takes_longest_counts,
		large_files_are_bytes,
		what_is_not_known,
		odd_samples,
	};

	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
