/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/context/log.h"
#include "support.h"
#include "base/escape.h"
#include "base/fd.h"

static int before = -1, caught = -1;
static uint64_t clock_usec;

/* Time goes by when the test says so. */
uint64_t __wrap_now_usec(void);

uint64_t __wrap_now_usec(void)
{
	return clock_usec;
}

static void catch_begin(void)
{
	struct timespec ts;

	/* So long ago that a minute later is over by now. */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	clock_usec = (uint64_t)ts.tv_sec * USEC_PER_SEC - 120 * USEC_PER_SEC;
	(void)unsetenv("JOURNAL_STREAM");
	before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	caught = memfd_create("stderr", MFD_CLOEXEC);
	ck_assert_int_ge(dup2(caught, STDERR_FILENO), 0);
}

static void catch_end(void)
{
	(void)dup2(before, STDERR_FILENO);
	fd_closep(&before);
	fd_closep(&caught);
}

/* What was logged; the caller frees it. */
static char *said(void)
{
	off_t size = lseek(caught, 0, SEEK_END);
	char *s = calloc(1, (size_t)size + 1);

	ck_assert_int_eq(pread(caught, s, (size_t)size, 0), size);
	return s;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

START_TEST(test_attack_03_whatever_is_given_is_one_line)
{
	const char *name = "x\nreclaimd: forged\r\033[31m\xc2\x9b\xe2\x80\xae\xff";
	char *text, *line;

	log_line(LOG_INFO, "%s", name);
	log_event(LOG_INFO, MESSAGE_CONFIGURATION, "%s", name);
	log_user(LOG_INFO, 1, MESSAGE_CONFIGURATION, "%s", name);
	text = said();
	ck_assert_uint_eq(count(text, "\n"), 3);
	ck_assert_uint_eq(count(text, "reclaimd: x\\nreclaimd: forged\\x0d\\x1b[31m"), 3);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert(text_is_safe(line));
	free(text);
	log_end();
}
END_TEST

/* Of what goes well, and of what does not, so much; users do not take it from each other, nor from
 * what is about none. */
START_TEST(test_attack_03_one_user_has_so_many_lines_a_minute)
{
	char *text;

	for (int i = 0; i < 1000; i++) {
		log_user(LOG_INFO, 7, SD_ID128_NULL, "well");
		log_user(LOG_WARNING, 7, SD_ID128_NULL, "badly");
		log_line(LOG_INFO, "daemon");
	}
	log_user(LOG_INFO, 8, SD_ID128_NULL, "another");
	log_user(LOG_INFO, UID_NONE, SD_ID128_NULL, "none");
	log_end();
	text = said();
	ck_assert_uint_eq(count(text, "daemon"), 1000);
	ck_assert_uint_eq(count(text, "another"), 1);
	ck_assert_uint_eq(count(text, "none"), 1);
	ck_assert_uint_eq(count(text, "suppressed"), 1);
	ck_assert_uint_eq(count(text, "well"), 300);
	ck_assert_uint_eq(count(text, "badly"), 300);
	ck_assert_uint_eq(count(text, "1400 more messages about user 7 suppressed"), 1);
	free(text);
}
END_TEST

START_TEST(test_attack_03_all_users_have_so_many_lines_a_minute)
{
	char *text;

	for (uid_t uid = 1; uid <= 1000; uid++)
		for (int i = 0; i < 300; i++)
			log_user(LOG_INFO, uid, SD_ID128_NULL, "well");
	log_end();
	text = said();
	ck_assert_uint_eq(count(text, "well"), 5000);
	ck_assert_uint_eq(count(text, "more messages about other users"), 1);
	ck_assert_uint_eq(count(text, "more messages about user "), 128 - 16);
	free(text);
}
END_TEST

/* By the next message, and where there is none, by the event loop. */
START_TEST(what_was_left_out_is_told_when_the_minute_is_over)
{
	sd_event *e;
	char *text;

	ck_assert_int_ge(sd_event_new(&e), 0);
	ck_assert_int_ge(log_begin(e), 0);
	for (int i = 0; i < 301; i++)
		log_user(LOG_INFO, 7, SD_ID128_NULL, "well");
	clock_usec += 60 * USEC_PER_SEC;
	for (int i = 0; i < 302; i++)
		log_user(LOG_INFO, 7, SD_ID128_NULL, "well");
	text = said();
	ck_assert_uint_eq(count(text, "reclaimd: 1 more messages about user 7"), 1);
	free(text);
	ck_assert_int_gt(sd_event_run(e, UINT64_MAX), 0);
	text = said();
	ck_assert_uint_eq(count(text, "well"), 600);
	ck_assert_uint_eq(count(text, "reclaimd: 2 more messages about user 7"), 1);
	free(text);
	log_end();
	sd_event_unref(e);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { test_attack_03_whatever_is_given_is_one_line,
				 test_attack_03_one_user_has_so_many_lines_a_minute,
				 test_attack_03_all_users_have_so_many_lines_a_minute,
				 what_was_left_out_is_told_when_the_minute_is_over };
	Suite *s = suite_create("log");
	TCase *tc = tcase_create("log");

	tcase_add_checked_fixture(tc, catch_begin, catch_end);
	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
