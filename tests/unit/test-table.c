/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables: column widths, what is cut, and the jobs in them. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "ctl/jobs/job-print.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "support.h"
#include "base/macros.h"

static const struct table_column columns[] = { { "N", COLUMN_RIGHT },
					       { "STATE", COLUMN_STATE },
					       { "PATH", 0 } };

static struct table *filled(const char *const *cells, size_t n)
{
	struct table *t = table_new(columns, ELEMENTSOF(columns));

	ck_assert_ptr_nonnull(t);
	for (size_t i = 0; i < n; i += ELEMENTSOF(columns))
		ck_assert_int_eq(table_add(t, cells + i), 0);
	return t;
}

static void expect(struct table *t, unsigned width, bool colours, const char *wanted)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(table_print(t, f, width, colours), 0);
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
	table_hide_titles(t);
	expect(t, 0, false,
	       " 7 running\n"
	       "12 held\n");
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
	table_free(t);
	/* Where too little is left for it to be of use, the line runs over. */
	t = filled(cells, ELEMENTSOF(cells));
	expect(t, 10, false,
	       "N STATE PATH\n"
	       "7 held  /a/very/long/path\n");
	table_free(t);
}
END_TEST

START_TEST(a_narrow_terminal_has_fewer_columns)
{
	static const struct table_column spare[] = { { "N", COLUMN_RIGHT },
						     { "USER", COLUMN_SPARE },
						     { "WHEN", COLUMN_SPARE },
						     { "PATH", COLUMN_PATH } };
	static const char *const cells[] = { "7", "root", "5s ago", "/a/語語/very/long/path" };
	static const struct {
		unsigned width;
		const char *text;
	} prints[] = {
		{ 36, "N USER WHEN   PATH\n7 root 5s ago /a/語語/very/long/path\n" },
		{ 33, "N USER WHEN   PATH\n7 root 5s ago …語/very/long/path\n" },
		{ 29, "N WHEN   PATH\n7 5s ago …語語/very/long/path\n" },
		{ 20, "N PATH\n7 …語/very/long/path\n" },
	};

	for (size_t i = 0; i < ELEMENTSOF(prints); i++) {
		struct table *t = table_new(spare, ELEMENTSOF(spare));

		ck_assert_ptr_nonnull(t);
		ck_assert_int_eq(table_add(t, cells), 0);
		expect(t, prints[i].width, false, prints[i].text);
		table_free(t);
	}
}
END_TEST

/* Names have been escaped before; that is not done twice. */
START_TEST(texts_stay_as_they_are)
{
	static const char *const cells[] = { "7", "held", "/a\\x1b\\\\ b" };
	struct table *t = filled(cells, ELEMENTSOF(cells));

	expect(t, 0, false,
	       "N STATE PATH\n"
	       "7 held  /a\\x1b\\\\ b\n");
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

	ck_assert_int_eq(table_print(t, f, 0, true), 0);
	(void)fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "\n7 " COLOUR_RED "failed" COLOUR_OFF " /a\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n8 queued /b\n"));
	free(text);
	table_free(t);
}
END_TEST

START_TEST(progress_in_words)
{
	char b[64];

	ck_assert_str_eq(entries_format(b, sizeof(b), 1234, 20000, " of "), "1,234 of 20,000");
	ck_assert_str_eq(entries_format(b, sizeof(b), 1234, 0, " of "), "1,234");
	ck_assert_str_eq(entries_format(b, sizeof(b), 7, 7, " of "), "7");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 3ULL << 29, 2ULL << 30), "1.5 of 2.0 GiB");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 512, 2ULL << 30), "512 B of 2.0 GiB");
	ck_assert_str_eq(bytes_format(b, sizeof(b), 512, 0), "512 B");
	ck_assert_str_eq(entries_format(b, sizeof(b), 1234, 20000, "/"), "1,234/20,000");
	ck_assert_str_eq(bytes_brief(b, sizeof(b), 512, 2ULL << 30), "512B/2.0G");
	ck_assert_str_eq(bytes_brief(b, sizeof(b), 2ULL << 30, 0), "2.0G");
	/* More than was thought is no fraction. */
	ck_assert_str_eq(entries_format(b, sizeof(b), 9, 7, " of "), "9");
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
					  .kind = i % 3 == 0 ? "rmdir" : "delete",
					  .path = paths[i % ELEMENTSOF(paths)],
					  .names = 6,
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
		size_t n = i < 2 ? ELEMENTSOF(v) : 0, len = 0;
		char *text = NULL,
		     *wanted = jobs_dumped(v, n, pretty ? JSON_INDENT(2) : JSON_COMPACT);
		FILE *f = open_memstream(&text, &len);

		jobs_json_print(f, v, n, pretty);
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
				 texts_stay_as_they_are,
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
