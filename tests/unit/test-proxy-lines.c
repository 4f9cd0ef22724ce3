/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "worker/proxy/proxy-lines.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "support.h"
#include "base/macros.h"

/* As a proxy has it, but smaller. */
#define BUFFER 64

struct stream {
	struct lines lines;
	char buf[BUFFER];
	char sent[KiB(8)];
	size_t n_sent;
};

/* Passes on whatever may be. Returns whether that is waiting for a permit, which is not given. */
static bool pass_on(struct stream *s, bool permit)
{
	bool is_long;
	size_t n;

	for (;;) {
		ck_assert_int_eq(lines_ready(&s->lines, s->buf, BUFFER, &n, &is_long), 0);
		if (n == 0)
			return false;
		if (is_long && !permit)
			return true;
		memcpy(s->sent + s->n_sent, s->buf, n);
		s->n_sent += n;
		ck_assert_int_eq(lines_gone(&s->lines, s->buf, n), s->sent[s->n_sent - 1] == '\0');
	}
}

static void take(struct stream *s, const char *data, size_t n)
{
	ck_assert_uint_le(n, BUFFER - s->lines.held);
	memcpy(s->buf + s->lines.held, data, n);
	s->lines.held += n;
}

START_TEST(short_ones_go_when_they_are_whole)
{
	struct stream s = { 0 };

	take(&s, "half", 4);
	ck_assert(!pass_on(&s, false));
	ck_assert_uint_eq(s.n_sent, 0);
	take(&s, " and half\0second\0thi", 20);
	ck_assert(!pass_on(&s, false));
	ck_assert_mem_eq(s.sent, "half and half\0second", 21);
	ck_assert_uint_eq(s.n_sent, 21);
	ck_assert_uint_eq(s.lines.held, 3);
	take(&s, "rd\0", 3);
	ck_assert(!pass_on(&s, false));
	ck_assert_str_eq(s.sent + 21, "third");
	ck_assert_uint_eq(s.lines.held, 0);
}
END_TEST

START_TEST(long_ones_take_a_permit)
{
	struct stream s = { 0 };
	char data[BUFFER];

	memset(data, 'x', sizeof(data));
	take(&s, data, BUFFER - 1);
	ck_assert(!pass_on(&s, false));
	take(&s, data, 1);
	ck_assert(pass_on(&s, false));
	ck_assert_uint_eq(s.n_sent, 0);
	ck_assert(!pass_on(&s, true));
	ck_assert_uint_eq(s.n_sent, BUFFER);
	/* The end of it still belongs to it; what comes behind does not. */
	take(&s, "xx\0next\0", 8);
	ck_assert(pass_on(&s, false));
	ck_assert(!pass_on(&s, true));
	ck_assert_uint_eq(s.n_sent, BUFFER + 8);
	ck_assert_uint_eq(s.lines.begun, 0);
	take(&s, "n\0", 2);
	ck_assert(!pass_on(&s, false));
	ck_assert_uint_eq(s.n_sent, BUFFER + 10);
}
END_TEST

START_TEST(too_long_is_an_error)
{
	struct lines l = { .held = BUFFER, .begun = LINE_BYTES_MOST - BUFFER };
	char buf[BUFFER];
	bool is_long;
	size_t n;

	memset(buf, 'x', sizeof(buf));
	buf[BUFFER - 1] = '\0';
	ck_assert_int_eq(lines_ready(&l, buf, BUFFER, &n, &is_long), 0);
	ck_assert_uint_eq(n, BUFFER);
	l.begun++;
	ck_assert_int_eq(lines_ready(&l, buf, BUFFER, &n, &is_long), -EMSGSIZE);
	/* Of the next message is not what counts. */
	buf[10] = '\0';
	ck_assert_int_eq(lines_ready(&l, buf, BUFFER, &n, &is_long), 0);
	ck_assert_uint_eq(n, 11);
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(lines_ready(&l, buf, BUFFER, &n, &is_long), -EMSGSIZE);
}
END_TEST

/* Whatever the messages and the pieces in which they are read: what goes in comes out. */
START_TEST(nothing_is_lost_or_changed)
{
	static char data[KiB(4)];
	uint32_t chance = 1;

	for (unsigned round = 0; round < 40; round++) {
		struct stream s = { 0 };
		size_t at = 0;

		for (size_t i = 0; i < sizeof(data); i++) {
			chance = chance * 1103515245 + 12345;
			data[i] = (char)((chance >> 16) % (round + 2));
		}
		data[sizeof(data) - 1] = '\0';
		while (at < sizeof(data)) {
			size_t room = BUFFER - s.lines.held;

			chance = chance * 1103515245 + 12345;
			room = MIN(sizeof(data) - at, 1 + (chance >> 16) % room);
			take(&s, data + at, room);
			at += room;
			ck_assert(!pass_on(&s, true));
		}
		ck_assert_uint_eq(s.n_sent, sizeof(data));
		ck_assert_mem_eq(s.sent, data, sizeof(data));
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { short_ones_go_when_they_are_whole, long_ones_take_a_permit,
				 too_long_is_an_error, nothing_is_lost_or_changed };

	return run_case("proxy-lines", tests, ELEMENTSOF(tests));
}
