/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "util/escape.h"
#include "util/macros.h"

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
	const TTest *tests[] = { printable_names_stay, controls_are_shown,
				 deceptive_characters_are_shown,
				 what_is_not_utf8_is_shown_byte_by_byte,
				 what_is_not_printable_ends_the_span };

	return run_case("escape", tests, ELEMENTSOF(tests));
}
