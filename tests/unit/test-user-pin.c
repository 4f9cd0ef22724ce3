/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "engine/guard/user-pin.h"
#include "support.h"

START_TEST(user_pin_values_are_parsed_and_made)
{
	static const struct {
		const char *value;
		struct user_pin pin;
	} known[] = {
		{ "", { .kind = USER_PIN_NOT } },
		{ "entries", { .kind = USER_PIN_NOT, .entries = true } },
		{ "always", { .kind = USER_PIN_ALWAYS } },
		{ "always entries", { .kind = USER_PIN_ALWAYS, .entries = true } },
		{ "1970-01-01T00:00:01Z", { .kind = USER_PIN_UNTIL, .until_sec = 1 } },
		{ "1969-12-31T23:59:59Z", { .kind = USER_PIN_UNTIL, .until_sec = -1 } },
		{ "2099-01-31T22:59:59Z entries",
		  { .kind = USER_PIN_UNTIL, .until_sec = 4073583599, .entries = true } },
	};
	char value[USER_PIN_VALUE];

	for (size_t i = 0; i < ELEMENTSOF(known); i++) {
		struct user_pin p = user_pin_parse(known[i].value, strlen(known[i].value));

		ck_assert_uint_eq(user_pin_format(&known[i].pin, value), strlen(known[i].value));
		ck_assert_str_eq(value, known[i].value);
		/* An attribute with nothing in it is there all the same. */
		if (i == 0)
			continue;
		ck_assert_int_eq(p.kind, known[i].pin.kind);
		ck_assert_int_eq(p.until_sec, known[i].pin.until_sec);
		ck_assert_int_eq(p.entries, known[i].pin.entries);
	}
}
END_TEST

START_TEST(user_pin_in_doubt_keeps)
{
	static const char *const wrong[] = {
		"",
		"Always",
		"always ",
		" always",
		"alwaysentries",
		"entries always",
		"entries entries",
		"2099-01-31",
		"2099-01-31T22:59:59",
		"@4073583599",
		"2099-13-31T22:59:59Z",
		"always entries x",
		"2099-01-31T22:59:59Zx",
		"\xff",
		"none",
	};
	static const char longer[300] = "always";

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		struct user_pin p = user_pin_parse(wrong[i], strlen(wrong[i]));

		ck_assert_msg(p.kind == USER_PIN_UNCLEAR, "%s", wrong[i]);
		ck_assert(user_pin_holds(&p));
	}
	ck_assert_int_eq(user_pin_parse(longer, sizeof(longer)).kind, USER_PIN_UNCLEAR);
	ck_assert_int_eq(user_pin_parse(longer, strlen(longer) + 1).kind, USER_PIN_UNCLEAR);
}
END_TEST

START_TEST(user_pin_of_what_has_none)
{
	_cleanup_close_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[400];
	struct user_pin p;

	ck_assert_int_ge(root, 0);
	ck_assert_int_ge(proc, 0);
	ck_assert_int_eq(user_pin_read(root, "").kind, USER_PIN_NOT);
	ck_assert_int_eq(user_pin_read(root, "no such name").kind, USER_PIN_NOT);
	ck_assert_int_eq(user_pin_read(proc, "").kind, USER_PIN_NOT);
	ck_assert_int_eq(user_pin_read(proc, "self").kind, USER_PIN_NOT);
	ck_assert_int_eq(user_pin_around(proc).kind, USER_PIN_NOT);
	/* No name can be as long: it is not another one. */
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	p = user_pin_read(root, name);
	ck_assert_int_eq(p.kind, USER_PIN_UNREAD);
	ck_assert(user_pin_holds(&p));
}
END_TEST

START_TEST(user_pin_words_have_room)
{
	char words[USER_PIN_WORDS];
	const struct user_pin p[] = {
		{ .kind = USER_PIN_NOT },
		{ .kind = USER_PIN_UNTIL, .until_sec = 4073583599 },
		{ .kind = USER_PIN_UNTIL, .until_sec = INT64_MAX },
		{ .kind = USER_PIN_ALWAYS },
		{ .kind = USER_PIN_UNCLEAR },
		{ .kind = USER_PIN_UNREAD, .error = -5 },
	};

	for (size_t i = 0; i < ELEMENTSOF(p); i++)
		ck_assert_uint_lt(strlen(user_pin_words(&p[i], true, words)), sizeof(words) - 1);
	ck_assert_str_eq(user_pin_words(&p[1], false, words),
			 "is pinned until 2099-01-31 22:59:59 UTC: see reclaimctl unpin");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { user_pin_values_are_parsed_and_made, user_pin_in_doubt_keeps,
				       user_pin_of_what_has_none, user_pin_words_have_room };

	return run_case("user-pin", tests, ELEMENTSOF(tests));
}
