/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What another host may end of what one has left in staging: by its mark, and by nothing else. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "daemon/fleet/adoptable.h"
#include "support.h"

static char name[] = "0123456789abcdef0123456789abcdef";

static struct left_mark good_mark(void)
{
	struct left_mark m = { .job = "7",
			       .own_space = true,
			       .uid = 1000,
			       .dir = { .ino = 11, .btime_nsec = 12, .type = S_IFDIR } };

	(void)snprintf(m.dir_name, sizeof(m.dir_name), "%s", name);
	return m;
}

static struct left_dir good_dir(void)
{
	return (struct left_dir){
		.name = name,
		.uid = 1000,
		.id = { .fsid = 99, .ino = 11, .btime_nsec = 12, .type = S_IFDIR },
		.names = 3,
	};
}

/* Is it kept, with these words among those of why? */
static void kept(const struct left_dir *d, struct left_mark *marks, size_t n, const char *words)
{
	const char *why = NULL;

	left_marks_sort(marks, n);
	ck_assert_ptr_null(left_dir_mark(d, marks, n, &why));
	ck_assert_ptr_nonnull(why);
	ck_assert_msg(strstr(why, words), "%s: expected %s", why, words);
}

START_TEST(what_its_mark_says_is_taken)
{
	struct left_mark marks[3] = { good_mark(), good_mark(), good_mark() };
	struct left_dir d = good_dir();
	const char *why;

	marks[0].dir_name[0] = 'x';
	marks[2].error = -ENOENT;
	left_marks_sort(marks, ELEMENTSOF(marks));
	ck_assert_ptr_eq(left_dir_mark(&d, marks, ELEMENTSOF(marks), &why), &marks[1]);
	ck_assert(!marks[0].has_dir && marks[1].has_dir && !marks[2].has_dir);
}
END_TEST

/* Among many, and whatever they are called. */
START_TEST(each_has_its_own_mark)
{
	static struct left_mark marks[1000];
	struct left_dir d = good_dir();
	char own[NAME_MAX + 2];
	const char *why;

	for (size_t i = 0; i < ELEMENTSOF(marks); i++) {
		marks[i] = good_mark();
		(void)snprintf(marks[i].dir_name, sizeof(marks[i].dir_name), "%zu",
			       i * 7919 % 1000);
		marks[i].error = i % 10 == 3 ? -ENOENT : 0;
	}
	left_marks_sort(marks, ELEMENTSOF(marks));
	d.name = own;
	for (size_t i = 0; i < ELEMENTSOF(marks); i++) {
		const struct left_mark *m;

		(void)snprintf(own, sizeof(own), "%zu", i * 7919 % 1000);
		m = left_dir_mark(&d, marks, ELEMENTSOF(marks), &why);
		ck_assert_int_eq(m == NULL, i % 10 == 3);
		ck_assert(!m || strcmp(m->dir_name, own) == 0);
	}
	(void)snprintf(own, sizeof(own), "1000");
	kept(&d, marks, ELEMENTSOF(marks), "no mark");
	own[0] = '\0';
	kept(&d, marks, ELEMENTSOF(marks), "no mark");
	memset(own, 'x', NAME_MAX + 1);
	own[NAME_MAX + 1] = '\0';
	kept(&d, marks, ELEMENTSOF(marks), "no mark");
}
END_TEST

START_TEST(jobs_that_had_it_are_found)
{
	struct left_record v[] = { { (char *)"b", true },
				   { (char *)"c", false },
				   { (char *)"a", false },
				   { (char *)"c", true } };
	static const struct {
		const char *name;
		bool on_record, goes_on;
	} wanted[] = { { "a", true, false }, { "b", true, true },    { "c", true, true },
		       { "", false, false }, { "bb", false, false }, { "d", false, false } };
	struct left_records records = { v, ELEMENTSOF(v) };
	const struct left_records none = { NULL, 0 };

	left_records_sort(&records);
	for (size_t i = 0; i < ELEMENTSOF(wanted); i++) {
		struct left_dir d = { .name = (char *)wanted[i].name };

		left_dir_find_record(&d, &none);
		ck_assert(!d.on_record && !d.goes_on);
		left_dir_find_record(&d, &records);
		ck_assert_int_eq(d.on_record, wanted[i].on_record);
		ck_assert_int_eq(d.goes_on, wanted[i].goes_on);
	}
}
END_TEST

START_TEST(without_a_good_mark_it_stays)
{
	struct left_mark m = good_mark();
	struct left_dir d = good_dir();

	kept(&d, NULL, 0, "no mark says that it may be deleted");
	for (int error = 1; error < 134; error++) {
		m.error = -error;
		kept(&d, &m, 1, "no mark");
		ck_assert(!m.has_dir);
	}
	m = good_mark();
	m.dir_name[31] = 'x';
	kept(&d, &m, 1, "no mark");
	m.dir_name[31] = '\0';
	kept(&d, &m, 1, "no mark");
}
END_TEST

START_TEST(a_mark_of_anything_else_is_none)
{
	struct left_mark m = good_mark();
	struct left_dir d = good_dir();

	m.own_space = false;
	kept(&d, &m, 1, "other numbers");
	m = good_mark();
	m.uid = 0;
	kept(&d, &m, 1, "another user");
	m = good_mark();
	m.dir.ino++;
	kept(&d, &m, 1, "another directory");
	m = good_mark();
	m.dir.btime_nsec++;
	kept(&d, &m, 1, "another directory");
	m = good_mark();
	m.dir.fsid = 98;
	kept(&d, &m, 1, "another directory");
	m = good_mark();
	m.dir.type = S_IFREG;
	kept(&d, &m, 1, "another directory");
	for (size_t i = 0; i < 2; i++) {
		struct left_mark two[2] = { good_mark(), good_mark() };

		/* Also if one of them says what is wrong. */
		two[i].uid = 0;
		kept(&d, two, 2, "several marks");
		ck_assert(two[0].has_dir && two[1].has_dir);
		ck_assert_ptr_null(left_dir_named(&d, two, 2));
	}
}
END_TEST

START_TEST(what_is_no_job_of_a_host_stays)
{
	static const mode_t types[] = { 0, S_IFREG, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK };
	struct left_mark m = good_mark();
	struct left_dir d = good_dir();

	for (size_t i = 0; i < ELEMENTSOF(types); i++) {
		d.id.type = types[i];
		kept(&d, &m, 1, "no directory");
	}
	d = good_dir();
	d.strange = 1;
	kept(&d, &m, 1, "no job has put there");
	d = good_dir();
	d.error = -EIO;
	kept(&d, &m, 1, "cannot be listed");
}
END_TEST

/* What became of a job of this host is final. */
START_TEST(what_was_adopted_before_is_not_again)
{
	struct left_mark m = good_mark();
	struct left_dir d = good_dir();

	d.on_record = true;
	kept(&d, &m, 1, "was cancelled");
	ck_assert_ptr_eq(left_dir_named(&d, &m, 1), &m);
	d.on_record = false;
	m.adopted = m.left = true;
	kept(&d, &m, 1, "was cancelled");
	d.goes_on = true;
	kept(&d, &m, 1, "a job of this host has adopted it");
	ck_assert(m.has_dir);
}
END_TEST

START_TEST(names_that_jobs_give)
{
	static const char *const good[] = { "1", "10", "9223372036854775807" };
	static const char *const bad[] = {
		"", "0", "01", "-1", "+1", " 1", "1 ", "1x", "x", "1/2", "12345678901234567890",
	};

	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		ck_assert(left_name_is_staged(good[i]));
	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert(!left_name_is_staged(bad[i]));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		what_its_mark_says_is_taken,          each_has_its_own_mark,
		jobs_that_had_it_are_found,           without_a_good_mark_it_stays,
		a_mark_of_anything_else_is_none,      what_is_no_job_of_a_host_stays,
		what_was_adopted_before_is_not_again, names_that_jobs_give
	};

	return run_tests(suite_create("adoptable"), tcase_create("adoptable"), tests,
			 ELEMENTSOF(tests));
}
