/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "ctl/common/space.h"
#include "support.h"
#include "base/macros.h"

/* 1 GiB with 10 MiB available, in blocks of 4 KiB. */
static const struct statvfs fs = {
	.f_bsize = 1 << 20,
	.f_frsize = 4096,
	.f_blocks = 262144,
	.f_bfree = 5120,
	.f_bavail = 2560,
};

static uint64_t wanted(const char *s)
{
	struct space_goal v;

	ck_assert_msg(space_parse(s, &v) == 0, "%s", s);
	return space_bytes(&v, &fs);
}

START_TEST(bytes_and_shares)
{
	ck_assert_uint_eq(wanted("120G"), 120ULL << 30);
	ck_assert_uint_eq(wanted("0"), 0);
	ck_assert_uint_eq(wanted("50%"), 1ULL << 29);
	ck_assert_uint_eq(wanted("100%"), 1ULL << 30);
	ck_assert_uint_eq(wanted("12.5%"), 1ULL << 27);
	ck_assert_uint_eq(wanted("0%"), 0);
}
END_TEST

START_TEST(free_is_what_an_ordinary_user_may_have)
{
	ck_assert_uint_eq(space_free(&fs), 10ULL << 20);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	static const char *const bad[] = { "",     "%",    "much", "10%%",   "0x10%",
					   "1e1%", "10 %", "inf%", "1.2.3%", "10%G" };
	struct space_goal v = { .bytes = 42 };

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(space_parse(bad[i], &v) == -EINVAL, "%s", bad[i]);
	ck_assert_int_eq(space_parse("101%", &v), -ERANGE);
	ck_assert_int_eq(space_parse("-1G", &v), -ERANGE);
	ck_assert_uint_eq(v.bytes, 42);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { bytes_and_shares, free_is_what_an_ordinary_user_may_have,
				 nonsense_is_refused };

	return run_case("space", tests, ELEMENTSOF(tests));
}
