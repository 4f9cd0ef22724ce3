/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "support.h"
#include "base/macros.h"
#include "base/units.h"

static uint64_t size(const char *s)
{
	uint64_t v = 0;

	ck_assert_int_eq(size_parse(s, &v), 0);
	return v;
}

static uint64_t span(const char *s)
{
	uint64_t v = 0;

	ck_assert_int_eq(timespan_parse(s, &v), 0);
	return v;
}

START_TEST(sizes_parse)
{
	ck_assert_uint_eq(size("0"), 0);
	ck_assert_uint_eq(size("4096B"), 4096);
	ck_assert_uint_eq(size("10G"), 10ULL << 30);
	ck_assert_uint_eq(size("1.5 MiB"), 3ULL << 19);
	ck_assert_uint_eq(size("200MB"), 200000000);
	ck_assert_uint_eq(size("7B"), 7);
	ck_assert_uint_eq(size(" 2T "), 2ULL << 40);
}
END_TEST

START_TEST(nonsense_sizes_are_refused)
{
	static const char *const bad[] = { "",    "G",  "1.2.3",  "10X", "1 2",  "0x10",
					   "1e3", "K5", "10GiBs", ".",   "4096", "0.5 " };
	uint64_t v = 42;

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_int_eq(size_parse(bad[i], &v), -EINVAL);
	ck_assert_int_eq(size_parse("-5", &v), -ERANGE);
	ck_assert_int_eq(size_parse("16E", &v), -ERANGE);
	ck_assert_int_eq(size_parse("99999999999999999999999B", &v), -ERANGE);
	ck_assert_uint_eq(v, 42);
}
END_TEST

START_TEST(shares_parse)
{
	static const char *const bad[] = { "",     "%",    "much",   "10%%", "0x10%",
					   "1e1%", "inf%", "1.2.3%", "10%G", "10" };
	double v = 42;

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(share_parse(bad[i], &v) == -EINVAL, "%s", bad[i]);
	ck_assert_int_eq(share_parse("101%", &v), -ERANGE);
	ck_assert_int_eq(share_parse("-1%", &v), -ERANGE);
	ck_assert_double_eq_tol(v, 42, 1e-9);
	ck_assert_int_eq(share_parse("12.5%", &v), 0);
	ck_assert_double_eq_tol(v, 0.125, 1e-9);
	ck_assert_int_eq(share_parse("100 %", &v), 0);
	ck_assert_double_eq_tol(v, 1, 1e-9);
	ck_assert_int_eq(share_parse("0%", &v), 0);
	ck_assert_double_eq_tol(v, 0, 1e-9);
}
END_TEST

START_TEST(spans_parse_as_systemd_has_them)
{
	ck_assert_uint_eq(span("90s"), 90000000);
	ck_assert_uint_eq(span("1h 30min"), 5400000000);
	ck_assert_uint_eq(span("1h30min"), 5400000000);
	ck_assert_uint_eq(span("2ms"), 2000);
	ck_assert_uint_eq(span("0"), 0);
	ck_assert_uint_eq(span("1.5d"), 129600000000);
	ck_assert_uint_eq(span("10 us"), 10);
}
END_TEST

START_TEST(nonsense_spans_are_refused)
{
	static const char *const bad[] = { "", "s", "5x", "1h-", "five", "5", "1h 5", "5 1h" };
	uint64_t v;

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_int_lt(timespan_parse(bad[i], &v), 0);
	ck_assert_int_eq(timespan_parse("-3s", &v), -ERANGE);
	ck_assert_int_eq(timespan_parse("99999999999999y", &v), -ERANGE);
}
END_TEST

START_TEST(formats)
{
	char b[32];

	ck_assert_str_eq(size_format(b, sizeof(b), 312), "312 B");
	ck_assert_str_eq(size_format(b, sizeof(b), 3ULL << 29), "1.5 GiB");
	ck_assert_str_eq(size_format(b, sizeof(b), UINT64_MAX), "16.0 EiB");
	ck_assert_str_eq(timespan_format(b, sizeof(b), 340000), "340ms");
	ck_assert_str_eq(timespan_format(b, sizeof(b), 12000000), "12s");
	ck_assert_str_eq(timespan_format(b, sizeof(b), 7500000000ULL), "2h 5min");
	ck_assert_str_eq(count_format(b, sizeof(b), 0), "0");
	ck_assert_str_eq(count_format(b, sizeof(b), 1234567), "1,234,567");
	ck_assert_str_eq(count_format(b, sizeof(b), 999), "999");
	ck_assert_str_eq(counted_format(b, sizeof(b), 0, "entry", "entries"), "0 entries");
	ck_assert_str_eq(counted_format(b, sizeof(b), 1, "entry", "entries"), "1 entry");
	ck_assert_str_eq(counted_format(b, sizeof(b), 1500, "entry", "entries"), "1,500 entries");
}
END_TEST

int main(void)
{
	const TTest *tests[] = { sizes_parse,
				 nonsense_sizes_are_refused,
				 shares_parse,
				 spans_parse_as_systemd_has_them,
				 nonsense_spans_are_refused,
				 formats };

	return run_case("units", tests, ELEMENTSOF(tests));
}
