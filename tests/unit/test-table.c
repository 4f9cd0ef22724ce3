/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables: column widths, what is cut, and the jobs in them. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "ctl/jobs/job-json.h"
#include "ctl/jobs/job-print.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "support.h"
#include "base/macros.h"

static const char *const titles[] = { "N", "STATE", "PATH" };
static const unsigned flags[] = { COLUMN_RIGHT, COLUMN_STATE, 0 };

static struct table *filled(const char *const *cells, size_t n)
{
	struct table *t = table_new(titles, flags, ELEMENTSOF(titles));

	ck_assert_ptr_nonnull(t);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(table_add(t, cells[i]), 0);
	return t;
}

static void expect(struct table *t, unsigned width, bool colours, const char *wanted)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	table_print(t, f, width, colours);
	(void)fclose(f);
	ck_assert_str_eq(text, wanted);
	free(text);
}

START_TEST(columns_are_as_wide_as_what_is_in_them)
{
	static const char *const cells[] = { "7", "running", "/a", "12", "held", "/b c" };
	struct table *t = filled(cells, ELEMENTSOF(cells));

	expect(t, 0, false,
	       " N STATE   PATH\n"
	       " 7 running /a\n"
	       "12 held    /b c\n");
	table_hide(t, 2);
	expect(t, 0, false,
	       " N STATE\n"
	       " 7 running\n"
	       "12 held\n");
	table_free(t);
}
END_TEST

START_TEST(an_empty_table_is_its_titles)
{
	struct table *t = filled(NULL, 0);

	expect(t, 80, false, "N STATE PATH\n");
	table_free(t);
}
END_TEST

START_TEST(a_terminal_cuts_the_last_column)
{
	static const char *const cells[] = { "7", "held", "/a/very/long/path" };
	struct table *t = filled(cells, ELEMENTSOF(cells));

	expect(t, 18, false,
	       "N STATE PATH\n"
	       "7 held  /a/very/l…\n");
	/* Where too little is left for it to be of use, the line runs over. */
	expect(t, 10, false,
	       "N STATE PATH\n"
	       "7 held  /a/very/long/path\n");
	table_free(t);
}
END_TEST

START_TEST(a_narrow_terminal_has_fewer_columns)
{
	static const char *const names[] = { "N", "USER", "WHEN", "PATH" };
	static const unsigned kinds[] = { COLUMN_RIGHT, COLUMN_SPARE, COLUMN_SPARE, COLUMN_PATH };
	static const char *const cells[] = { "7", "root", "5s ago", "/a/語語/very/long/path" };
	struct table *t = table_new(names, kinds, ELEMENTSOF(names));

	ck_assert_ptr_nonnull(t);
	for (size_t i = 0; i < ELEMENTSOF(cells); i++)
		ck_assert_int_eq(table_add(t, cells[i]), 0);
	expect(t, 36, false,
	       "N USER WHEN   PATH\n"
	       "7 root 5s ago /a/語語/very/long/path\n");
	expect(t, 33, false,
	       "N USER WHEN   PATH\n"
	       "7 root 5s ago …語/very/long/path\n");
	expect(t, 29, false,
	       "N WHEN   PATH\n"
	       "7 5s ago …語語/very/long/path\n");
	expect(t, 20, false,
	       "N PATH\n"
	       "7 …語/very/long/path\n");
	table_free(t);
}
END_TEST

START_TEST(wide_characters_take_two_columns)
{
	static const char *const cells[] = { "7", "held", "/語語語語語語", "8", "語", "/ä" };
	struct table *t = filled(cells, ELEMENTSOF(cells));

	expect(t, 17, false,
	       "N STATE PATH\n"
	       "7 held  /語語語…\n"
	       "8 語    /ä\n");
	table_free(t);
}
END_TEST

START_TEST(colours_are_for_terminals)
{
	static const char *const cells[] = { "7", "failed", "/a", "8", "queued", "/b" };
	struct table *t = filled(cells, ELEMENTSOF(cells));
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	table_print(t, f, 0, true);
	(void)fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "\n7 " COLOUR_RED "failed " COLOUR_OFF "/a\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n8 queued /b\n"));
	free(text);
	table_free(t);
}
END_TEST

START_TEST(progress_in_words)
{
	char b[64];

	ck_assert_str_eq(entries_format(b, sizeof(b), 1234, 20000), "1,234 of 20,000");
	ck_assert_str_eq(entries_format(b, sizeof(b), 1234, 0), "1,234");
	ck_assert_str_eq(entries_format(b, sizeof(b), 7, 7), "7");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 3ULL << 29, 2ULL << 30), "1.5 of 2.0 GiB");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 512, 2ULL << 30), "512 B of 2.0 GiB");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 512, 0), "512 B");
	ck_assert_str_eq(entries_brief(b, sizeof(b), 1234, 20000), "1,234/20,000");
	ck_assert_str_eq(bytes_brief(b, sizeof(b), 512, 2ULL << 30), "512B/2.0G");
	ck_assert_str_eq(bytes_brief(b, sizeof(b), 2ULL << 30, 0), "2.0G");
	/* More than was thought is no fraction. */
	ck_assert_str_eq(entries_format(b, sizeof(b), 9, 7), "9");
}
END_TEST

/* Names of all kinds, and more of them than are written in one piece. */
static void jobs_fill(struct job_line *v, size_t n)
{
	static const char *const paths[] = { "/a", "/b \"c\"", "/d\\e\nf", "/\xff", "/ä" };

	for (size_t i = 0; i < n; i++)
		v[i] = (struct job_line){ .id = i + 1,
					  .uid = 7,
					  .state = "done",
					  .origin = "spool:/s",
					  .priority = "low",
					  .path = paths[i % ELEMENTSOF(paths)],
					  .entries = 5,
					  .entries_done = 4,
					  .bytes = 3,
					  .bytes_freed = 2,
					  .errors = 1,
					  .created_usec = 1ULL << 52,
					  .held_until_usec = 11,
					  .started_usec = 12,
					  .finished_usec = 13 };
}

static char *jobs_dumped(const struct job_line *v, size_t n, size_t flags_of_jansson)
{
	json_t *array = json_array();
	char *text;

	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(json_array_append_new(array, job_line_json(&v[i])), 0);
	text = json_dumps(array, flags_of_jansson | JSON_ENSURE_ASCII);
	json_decref(array);
	return text;
}

START_TEST(lists_are_the_same_json_as_their_jobs)
{
	static struct job_line v[300];

	jobs_fill(v, ELEMENTSOF(v));
	for (size_t i = 0; i < 4; i++) {
		bool pretty = i % 2;
		struct job_json j;
		size_t n = i < 2 ? ELEMENTSOF(v) : 0, len = 0;
		char *text = NULL,
		     *wanted = jobs_dumped(v, n, pretty ? JSON_INDENT(2) : JSON_COMPACT);
		FILE *f = open_memstream(&text, &len);

		job_json_begin(&j, f, pretty ? JSON_PRETTY : JSON_SHORT);
		job_json_add(&j, v, n / 2);
		job_json_add(&j, v + n / 2, n - n / 2);
		job_json_end(&j);
		(void)fclose(f);
		ck_assert_uint_eq(len, strlen(wanted) + 1);
		ck_assert_int_eq(text[len - 1], '\n');
		ck_assert_int_eq(strncmp(text, wanted, len - 1), 0);
		free(text);
		free(wanted);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { columns_are_as_wide_as_what_is_in_them,
				 an_empty_table_is_its_titles,
				 a_terminal_cuts_the_last_column,
				 a_narrow_terminal_has_fewer_columns,
				 wide_characters_take_two_columns,
				 colours_are_for_terminals,
				 progress_in_words,
				 lists_are_the_same_json_as_their_jobs };

	if (!setlocale(LC_CTYPE, "C.UTF-8")) {
		(void)fputs("skipped: there is no C.UTF-8 locale\n", stderr);
		return 77;
	}
	return run_case("table", tests, ELEMENTSOF(tests));
}
