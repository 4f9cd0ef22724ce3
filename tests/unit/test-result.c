/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/result.h"
#include "support.h"
#include "base/macros.h"

static void say(struct policy_result *r, const char *text)
{
	struct safe_text t;

	safe_text_format(&t, "%s", text);
	result_say(r, &t);
}

/* Writes it down and reads it again. The caller frees the text. */
static char *written(const struct policy_result *r)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	result_write(f, r);
	ck_assert_int_eq(fclose(f), 0);
	return text;
}

START_TEST(what_is_written_is_read)
{
	struct policy_result r = { .began_usec = 1,
				   .success_usec = UINT64_MAX,
				   .oldest_usec = 3,
				   .status = RESULT_PARTIAL,
				   .job = 12,
				   .handed = { 4, 5 },
				   .refused = { 6, 7 },
				   .excess = { 8, 9 },
				   .pinned = { 13, 14 },
				   .total = { 10, 11 },
				   .jobs = { { 2, RESULT_DONE }, { 12, RESULT_PARTIAL } },
				   .n_jobs = 2 };
	struct policy_result read;
	char *text, *again;

	say(&r, "/srv/a b: is immutable");
	say(&r, "a line with\na newline and \x1b[31m");
	text = written(&r);
	ck_assert_uint_lt(strlen(text), RESULT_TEXT_MOST);
	ck_assert_int_eq(result_parse(text, &read), 0);
	again = written(&read);
	ck_assert_str_eq(text, again);
	ck_assert_uint_eq(read.n_jobs, 2);
	ck_assert_uint_eq(read.success_usec, UINT64_MAX);
	ck_assert_uint_eq(read.pinned.bytes, 14);
	ck_assert_str_eq(read.why, r.why);
	ck_assert_ptr_nonnull(strstr(text, "why a line with\\na newline and \\x1b[31m\n"));
	free(text);
	free(again);
}
END_TEST

/* Whatever is there, and cut off anywhere, it is a result or none. */
START_TEST(what_is_no_result)
{
	static const char *const wrong[] = {
		"",
		"nonsense",
		"reclaimd-policy-result 2\n",
		"reclaimd-policy-result 1\nbegan\n",
		"reclaimd-policy-result 1\nbegan x\n",
		"reclaimd-policy-result 1\nbegan -1\n",
		"reclaimd-policy-result 1\nbegan 1 2\n",
		"reclaimd-policy-result 1\nhanded 1\n",
		"reclaimd-policy-result 1\nbegan 18446744073709551616\n",
		"reclaimd-policy-result 1\nstatus 5\n",
		"reclaimd-policy-result 1\nopen 1\n",
		"reclaimd-policy-result 1\nbegan 1",
	};
	struct policy_result r = { .began_usec = 5, .handed = { 1, 2 }, .n_jobs = 1 };
	struct policy_result untouched = { .job = 77 }, read;
	char *text;

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		ck_assert_msg(result_parse(wrong[i], &untouched) == -EBADMSG, "%s", wrong[i]);
		ck_assert_uint_eq(untouched.job, 77);
	}
	ck_assert_int_eq(
		result_parse("reclaimd-policy-result 1\nfrom-later 1 2 3\nbegan 4\n", &read), 0);
	ck_assert_uint_eq(read.began_usec, 4);
	say(&r, "why");
	text = written(&r);
	for (size_t len = strlen(text); len > 0; len--) {
		text[len - 1] = '\0';
		(void)result_parse(text, &read);
	}
	free(text);
}
END_TEST

START_TEST(what_has_no_room_is_left_out)
{
	struct policy_result r = { 0 }, read;
	char line[500], *text;

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	for (int i = 0; i < 100; i++)
		say(&r, line);
	ck_assert_uint_lt(strlen(r.why), sizeof(r.why));
	say(&r, "short");
	ck_assert_ptr_nonnull(strstr(r.why, "\nshort"));
	for (uint64_t id = 1; id < 2 * RESULT_JOBS_MOST; id++) {
		struct policy_result next;

		result_begin(&next, &r, id);
		next.job = id;
		result_end(&next, RESULT_DONE, id);
		r = next;
	}
	ck_assert_uint_eq(r.n_jobs, RESULT_JOBS_MOST);
	ck_assert_uint_eq(r.jobs[RESULT_JOBS_MOST - 1].id, 2 * RESULT_JOBS_MOST - 1);
	text = written(&r);
	ck_assert_int_eq(result_parse(text, &read), 0);
	free(text);
}
END_TEST

/* From run to run: what is deleted adds up, and a success is what did all that it was to do. */
START_TEST(from_run_to_run)
{
	const struct policy_sum some = { 3, 300 };
	struct policy_result none = { 0 }, a, b, c;

	/* Nothing to delete. */
	result_begin(&a, &none, 10);
	result_end(&a, RESULT_DONE, 11);
	ck_assert_uint_eq(a.success_usec, 11);
	/* A job that has not ended when the next run begins. */
	result_begin(&b, &a, 20);
	b.job = 1;
	result_end(&b, RESULT_DONE, 21);
	ck_assert_uint_eq(b.success_usec, 11);
	ck_assert_str_eq(result_word(&b), "done");
	result_begin(&c, &b, 30);
	c.job = 2;
	result_end(&c, RESULT_DONE, 31);
	ck_assert_uint_eq(c.n_jobs, 2);
	result_job_ended(&c, 0, RESULT_DONE, 35, &some);
	ck_assert_uint_eq(c.success_usec, 35);
	ck_assert_uint_eq(c.total.bytes, 300);
	ck_assert_uint_eq(c.status, RESULT_DONE);
	/* Its own job tells of the run, too. */
	result_job_ended(&c, 0, RESULT_PARTIAL, 36, &some);
	ck_assert_uint_eq(c.success_usec, 35);
	ck_assert_uint_eq(c.total.n, 6);
	ck_assert_str_eq(result_word(&c), "partial");
	ck_assert_uint_eq(c.n_jobs, 0);
	/* A run that has refused something is none, though its job is done. */
	result_begin(&a, &c, 40);
	a.job = 3;
	result_end(&a, RESULT_PARTIAL, 41);
	result_job_ended(&a, 0, RESULT_DONE, 45, &some);
	ck_assert_uint_eq(a.success_usec, 35);
	ck_assert_str_eq(result_word(&a), "partial");
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_is_written_is_read, what_is_no_result,
				 what_has_no_room_is_left_out, from_run_to_run };

	return run_case("result", tests, ELEMENTSOF(tests));
}
