/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "pacing/sensors/pressure-sensor.h"
#include "support.h"
#include "base/macros.h"

#define LATER                                                                                      \
	"avg60=0.02 avg300=0.59 total=359835386\n"                                                 \
	"full avg10=0.00 avg60=0.00 avg300=0.44 total=185339888\n"
#define TEXT "some avg10=0.01 " LATER

struct fixture {
	char dir[PATH_MAX], path[PATH_MAX + 16];
	struct pressure_sample p;
};

static void begin(struct fixture *f, const char *text)
{
	scratch_make(f->dir, sizeof(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/io", f->dir);
	file_make(f->dir, "io", text);
}

START_TEST(sums)
{
	struct fixture f;

	begin(&f, TEXT);
	ck_assert_int_eq(pressure_sample(f.path, &f.p), 0);
	ck_assert_uint_eq(f.p.some_usec, 359835386);
	ck_assert_uint_eq(f.p.full_usec, 185339888);
	scratch_remove(f.dir);
}
END_TEST

/* Within the last ten seconds. */
START_TEST(recent_waiting)
{
	static const struct {
		const char *text;
		bool recent;
	} cases[] = { { "some avg10=0.00 " LATER, false },
		      { "some avg10=0.01 " LATER, true },
		      { "some avg10=3.00 " LATER, true },
		      { "some avg10=100.00 " LATER, true } };
	struct fixture f;

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		begin(&f, cases[i].text);
		ck_assert_int_eq(pressure_sample(f.path, &f.p), 0);
		ck_assert_int_eq(f.p.recent, cases[i].recent);
		scratch_remove(f.dir);
	}
}
END_TEST

START_TEST(something_else_is_refused)
{
	static const char *const texts[] = { "", "garbage\n", "some avg10=0.00\nfull total=5\n",
					     "some avg10=0.00 total=5\n",
					     "some total=x\nfull total=5\n" };
	struct fixture f;

	for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
		begin(&f, texts[i]);
		ck_assert_int_eq(pressure_sample(f.path, &f.p), -EBADMSG);
		scratch_remove(f.dir);
	}
	ck_assert_int_eq(pressure_sample("/nowhere", &f.p), -ENOENT);
}
END_TEST

START_TEST(this_kernel)
{
	struct pressure_sample a, b;

	if (pressure_sample("/proc/pressure/io", &a) < 0) {
		(void)fputs("not tested: this kernel measures no pressure\n", stderr);
		return;
	}
	ck_assert_int_eq(pressure_sample("/proc/pressure/io", &b), 0);
	ck_assert_uint_ge(b.some_usec, a.some_usec);
	ck_assert_uint_ge(b.some_usec, b.full_usec);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { sums, recent_waiting, something_else_is_refused, this_kernel };

	return run_case("pressure-sensor", tests, sizeof(tests) / sizeof(tests[0]));
}
