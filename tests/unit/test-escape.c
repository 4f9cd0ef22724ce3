/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "base/escape.h"
#include "base/macros.h"

static void expect(const char *in, const char *out)
{
	char *s = escape_name(in);

	ck_assert_str_eq(s, out);
	free(s);
}

START_TEST(printable_names_stay)
{
	expect("", "");
	expect("plain name.txt", "plain name.txt");
	expect("größe-文件-😀", "größe-文件-😀");
}
END_TEST

START_TEST(controls_are_shown)
{
	expect("a\nb", "a\\nb");
	expect("a\tb", "a\\tb");
	expect("\033[2Jx", "\\x1b[2Jx");
	expect("back\\slash", "back\\\\slash");
	expect("\177", "\\x7f");
	expect("\xc2\x9b", "\\xc2\\x9b"); /* CSI as one character */
}
END_TEST

START_TEST(deceptive_characters_are_shown)
{
	expect("gpj\xe2\x80\xae.exe", "gpj\\xe2\\x80\\xae.exe"); /* right-to-left override */
	expect("a\xe2\x80\x8b", "a\\xe2\\x80\\x8b");             /* zero-width space */
	expect("\xef\xbb\xbfx", "\\xef\\xbb\\xbfx");             /* byte order mark */
	expect("\xe2\x80\xa8", "\\xe2\\x80\\xa8");               /* line separator */
	expect("\xe3\x85\xa4", "\\xe3\\x85\\xa4");               /* filler, which is blank */
	expect("a\xef\xb8\x8f", "a\\xef\\xb8\\x8f");             /* variation selector */
}
END_TEST

START_TEST(what_is_not_utf8_is_shown_byte_by_byte)
{
	expect("\xff\xfe", "\\xff\\xfe");
	expect("\xc0\xaf", "\\xc0\\xaf");          /* overlong slash */
	expect("\xe2\x80", "\\xe2\\x80");          /* cut short */
	expect("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* surrogate */
}
END_TEST

START_TEST(test_attack_03_lines_stay_one)
{
	static const char *const raw[] = { "a\nb\\nc\033[31m", "\xe2\x80\xa8\xff\xc2\x85", "\\",
					   "" };
	static const char *const lines[] = { "a\\nb\\nc\\x1b[31m", "\\xe2\\x80\\xa8\\xff\\xc2\\x85",
					     "\\", "" };
	struct safe_text t;

	for (size_t i = 0; i < ELEMENTSOF(raw); i++) {
		char *once = escape_line(raw[i]), *twice = escape_line(once);

		ck_assert_str_eq(once, lines[i]);
		ck_assert_str_eq(twice, lines[i]);
		ck_assert(text_is_safe(once));
		ck_assert_int_eq(text_is_safe(raw[i]), strcmp(raw[i], lines[i]) == 0);
		safe_text_format(&t, "%s", raw[i]);
		ck_assert_str_eq(t.line, lines[i]);
		free(once);
		free(twice);
	}
	safe_text_format(&t, "%s\n%d", "a\rb", 7);
	ck_assert_str_eq(t.line, "a\\x0db\\n7");
}
END_TEST

/* Whatever the last character that has room is, neither it nor what stands for it is cut. */
START_TEST(what_is_too_long_ends_in_dots)
{
	static const char *const last[] = { "x",  "\xc3\xa4",     "\xf0\x9f\x98\x80",
					    "\n", "\xe2\x80\xa8", "\xff" };
	char s[SAFE_TEXT_SIZE + 64];
	struct safe_text t;

	for (size_t i = 0; i < ELEMENTSOF(last); i++)
		for (size_t len = SAFE_TEXT_SIZE - 24; len < SAFE_TEXT_SIZE + 8; len++) {
			char *whole;
			size_t n;

			memset(s, 'a', len);
			s[len] = '\0';
			for (int k = 0; k < 3; k++)
				strcat(s, last[i]);
			whole = escape_line(s);
			safe_text_format(&t, "%s", s);
			n = strlen(t.line);
			ck_assert(text_is_safe(t.line));
			if (strlen(whole) < SAFE_TEXT_SIZE) {
				ck_assert_str_eq(t.line, whole);
			} else {
				ck_assert_str_eq(t.line + n - 3, "...");
				ck_assert_int_eq(strncmp(t.line, whole, n - 3), 0);
				ck_assert_uint_gt(n, SAFE_TEXT_SIZE - 20);
			}
			free(whole);
		}
}
END_TEST

START_TEST(what_is_not_printable_ends_the_span)
{
	for (unsigned byte = 1; byte <= UCHAR_MAX; byte++)
		for (size_t at = 0; at < 24; at++) {
			char s[25] = "~ ABCDEFGHIJKLMNOPQRSTU~";
			bool printable = byte >= ' ' && byte <= '~';

			s[at] = (char)byte;
			ck_assert_uint_eq(escape_span(s), printable ? 24 : at);
			ck_assert_uint_eq(escape_span(s + at), printable ? 24 - at : 0);
		}
	ck_assert_uint_eq(escape_span(""), 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { printable_names_stay,
				 controls_are_shown,
				 deceptive_characters_are_shown,
				 what_is_not_utf8_is_shown_byte_by_byte,
				 test_attack_03_lines_stay_one,
				 what_is_too_long_ends_in_dots,
				 what_is_not_printable_ends_the_span };

	return run_case("escape", tests, ELEMENTSOF(tests));
}
