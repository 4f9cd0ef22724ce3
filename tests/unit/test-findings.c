/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What was found of a host that is gone: of more than an answer holds, it is told that there is
 * more. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "daemon/fleet/findings.h"
#include "support.h"

static void add(struct findings *f, size_t path_len, const char *outcome, uint64_t job)
{
	char *path = malloc(path_len + 1);

	ck_assert_ptr_nonnull(path);
	memset(path, 'x', path_len);
	path[path_len] = '\0';
	finding_add(f, path,
		    &(struct adoption_item){ .outcome = outcome, .job = job, .why = "so" });
}

static size_t count(const struct findings *f, const char *outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += strcmp(f->items[i].outcome, outcome) == 0;
	return n;
}

START_TEST(few_are_told_as_they_are)
{
	struct findings f = { 0 };

	findings_end(&f, "rack7");
	ck_assert_uint_eq(f.n, 0);
	add(&f, 5, "kept", 0);
	add(&f, 6, "adopted", 7);
	findings_end(&f, "rack7");
	ck_assert_uint_eq(f.n, 2);
	ck_assert_str_eq(f.items[0].path, "xxxxx");
	ck_assert_str_eq(f.items[0].why, "so");
	ck_assert_uint_eq(f.items[1].job, 7);
	ck_assert_uint_eq(f.kept, 1);
	ck_assert_uint_eq(f.adopted, 1);
	findings_clear(&f);
	ck_assert_uint_eq(f.n, 0);
}
END_TEST

/* However many are adopted, there is room for what is kept. */
START_TEST(of_many_those_that_are_kept_are_told)
{
	struct findings f = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < 10000; i++)
		add(&f, 100, "adopted", i + 1);
	for (size_t i = 0; i < 10; i++)
		add(&f, 100, "kept", 0);
	findings_end(&f, "rack7");
	ck_assert_uint_eq(count(&f, "kept"), 10);
	ck_assert_uint_eq(f.kept, 10);
	ck_assert_uint_eq(f.adopted, 10000);
	ck_assert_str_eq(f.items[0].path, ".reclaim/@rack7");
	ck_assert_str_eq(f.items[0].outcome, "adopted");
	ck_assert_int_eq(sscanf(f.items[0].why, "%zu more are not listed", &n), 1);
	ck_assert_uint_eq(n + f.n - 1, 10010);
	findings_clear(&f);
}
END_TEST

/* Less than a MiB, which D-Bus takes; that some are not told makes it known that some are kept. */
START_TEST(long_ones_take_no_more_than_an_answer)
{
	static const size_t lengths[] = { 1, 200, 4000 };

	for (size_t k = 0; k < ELEMENTSOF(lengths); k++) {
		struct findings f = { 0 };
		size_t bytes = 0;

		for (size_t i = 0; i < 10000; i++)
			add(&f, lengths[k], "kept", 0);
		finding_add(&f, NULL, &(struct adoption_item){ .outcome = "kept", .why = "so" });
		findings_end(&f, "rack7");
		for (size_t i = 0; i < f.n; i++)
			bytes += strlen(f.items[i].path) + strlen(f.items[i].why) + 64;
		ck_assert_uint_lt(bytes, MiB(1));
		ck_assert_uint_lt(f.n, 10001);
		ck_assert_uint_eq(f.kept, 10001);
		ck_assert_str_eq(f.items[0].outcome, "kept");
		ck_assert_ptr_nonnull(strstr(f.items[0].why, "more are not listed"));
		findings_clear(&f);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { few_are_told_as_they_are,
				       of_many_those_that_are_kept_are_told,
				       long_ones_take_no_more_than_an_answer };

	return run_tests(suite_create("findings"), tcase_create("findings"), tests,
			 ELEMENTSOF(tests));
}
