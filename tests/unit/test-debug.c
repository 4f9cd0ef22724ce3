/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "support.h"

static unsigned evaluated;

static int counted(void)
{
	return (int)++evaluated;
}

/* Logs with standard error in a file of its own, and returns what that has then. */
static const char *logged(bool journal)
{
	static char text[4096];
	char stream[64];
	struct stat st;
	int before = dup(STDERR_FILENO), caught = memfd_create("stderr", MFD_CLOEXEC);
	ssize_t n;

	ck_assert_int_ge(dup2(caught, STDERR_FILENO), 0);
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		       (unsigned long long)st.st_ino);
	(void)setenv("JOURNAL_STREAM", journal ? stream : "1:1", 1);
	debug_log("%d of %s", counted(), "a\nb");
	ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
	n = pread(caught, text, sizeof(text) - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	fd_closep(&before);
	fd_closep(&caught);
	return text;
}

START_TEST(debug_is_off_without_a_level)
{
	(void)unsetenv("SYSTEMD_LOG_LEVEL");
	debug_begin();
	ck_assert_str_eq(logged(false), "");
	ck_assert_uint_eq(evaluated, 0);
}
END_TEST

START_TEST(debug_takes_names_and_numbers)
{
	static const struct {
		const char *level;
		int r;
		bool on;
	} cases[] = { { "debug", 0, true },        { "info", 0, false },    { "7", 0, true },
		      { "0", 0, false },           { "8", -EINVAL, false }, { "", -EINVAL, false },
		      { "DEBUG", -EINVAL, false }, { "77", -EINVAL, false } };

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		debug_enabled = false;
		ck_assert_int_eq(debug_set_level(cases[i].level), cases[i].r);
		ck_assert(debug_enabled == cases[i].on);
		(void)setenv("SYSTEMD_LOG_LEVEL", cases[i].level, 1);
		debug_begin();
		ck_assert(debug_enabled == cases[i].on);
	}
}
END_TEST

START_TEST(debug_writes_one_escaped_line)
{
	char wanted[256];

	(void)setenv("SYSTEMD_LOG_LEVEL", "debug", 1);
	debug_begin();
	evaluated = 0;
	(void)snprintf(wanted, sizeof(wanted), "%s[%d]: 1 of a\\nb\n",
		       program_invocation_short_name, (int)getpid());
	ck_assert_str_eq(logged(false), wanted);
	(void)snprintf(wanted, sizeof(wanted), "<7>%s[%d]: 2 of a\\nb\n",
		       program_invocation_short_name, (int)getpid());
	ck_assert_str_eq(logged(true), wanted);
}
END_TEST

START_TEST(debug_environment_has_nothing_else)
{
	char *env[DEBUG_ENVIRONMENT];
	unsigned found = 0;

	(void)setenv("SYSTEMD_LOG_LEVEL", "7", 1);
	(void)setenv("JOURNAL_STREAM", "1:2", 1);
	(void)setenv("JOURNAL_STREAMS", "3:4", 1);
	debug_begin();
	debug_environment(env);
	for (char **e = env; *e; e++, found++)
		ck_assert(strcmp(*e, "SYSTEMD_LOG_LEVEL=7") == 0 ||
			  strcmp(*e, "JOURNAL_STREAM=1:2") == 0);
	ck_assert_uint_eq(found, 2);
	ck_assert_int_eq(debug_set_level("info"), 0);
	debug_environment(env);
	ck_assert_ptr_null(env[0]);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { debug_is_off_without_a_level, debug_takes_names_and_numbers,
				 debug_writes_one_escaped_line,
				 debug_environment_has_nothing_else };

	return run_case("debug", tests, ELEMENTSOF(tests));
}
