/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pacing/sensors/pressure-sensor.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define TEXT                                                                                       \
	"some avg10=0.01 avg60=0.02 avg300=0.59 total=359835386\n"                                 \
	"full avg10=0.00 avg60=0.00 avg300=0.44 total=185339888\n"

struct fixture {
	char dir[PATH_MAX], path[PATH_MAX + 16];
	struct pressure_sensor s;
	struct pressure_sample p;
};

static void begin(struct fixture *f, const char *text)
{
	scratch_make(f->dir, sizeof(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/io", f->dir);
	file_make(f->dir, "io", text);
	f->s = (struct pressure_sensor){ .fd = -1 };
}

static void end(struct fixture *f)
{
	pressure_sensor_close(&f->s);
	scratch_remove(f->dir);
}

START_TEST(sums)
{
	struct fixture f;

	begin(&f, TEXT);
	ck_assert_int_eq(pressure_sensor_open(&f.s, f.path), 0);
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert_uint_eq(f.p.some_usec, 359835386);
	ck_assert_uint_eq(f.p.full_usec, 185339888);
	ck_assert(!f.p.triggered);
	file_make(f.dir, "io", "some avg10=9.00 total=400\nfull avg10=1.00 total=300\n");
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert_uint_eq(f.p.some_usec, 400);
	ck_assert_uint_eq(f.p.full_usec, 300);
	end(&f);
}
END_TEST

START_TEST(waiting_that_grows)
{
	struct fixture f;

	begin(&f, "some total=1000000\nfull total=0\n");
	ck_assert_int_eq(pressure_sensor_open(&f.s, f.path), 0);
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert(!f.p.triggered);
	/* 10 ms are nothing, 10 s are. */
	file_make(f.dir, "io", "some total=1010000\nfull total=0\n");
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert(!f.p.triggered);
	file_make(f.dir, "io", "some total=11010000\nfull total=0\n");
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert(f.p.triggered);
	/* It is told once. */
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert(!f.p.triggered);
	/* A sum that shrinks is none of ours. */
	file_make(f.dir, "io", "some total=5\nfull total=0\n");
	ck_assert_int_eq(pressure_sensor_sample(&f.s, &f.p), 0);
	ck_assert(!f.p.triggered);
	end(&f);
}
END_TEST

START_TEST(a_recorded_file_takes_no_trigger)
{
	_cleanup_free_ char *text = NULL;
	struct fixture f;

	begin(&f, TEXT);
	ck_assert_int_eq(pressure_sensor_open(&f.s, f.path), 0);
	ck_assert(!f.s.has_trigger);
	ck_assert_int_gt(fd_read_file(f.path, KiB(4), &text), 0);
	ck_assert_str_eq(text, TEXT);
	end(&f);
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
		ck_assert_int_eq(pressure_sensor_open(&f.s, f.path), -EBADMSG);
		ck_assert_int_eq(f.s.fd, -1);
		end(&f);
	}
	ck_assert_int_eq(pressure_sensor_open(&f.s, "/nowhere"), -ENOENT);
}
END_TEST

START_TEST(this_kernel)
{
	struct pressure_sample a, b;
	struct pressure_sensor s;

	if (pressure_sensor_open(&s, "/proc/pressure/io") < 0) {
		(void)fputs("not tested: this kernel measures no pressure\n", stderr);
		return;
	}
	ck_assert_int_eq(pressure_sensor_sample(&s, &a), 0);
	ck_assert_int_eq(pressure_sensor_sample(&s, &b), 0);
	ck_assert_uint_ge(b.some_usec, a.some_usec);
	ck_assert_uint_ge(b.some_usec, b.full_usec);
	pressure_sensor_close(&s);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { sums, waiting_that_grows, a_recorded_file_takes_no_trigger,
				 something_else_is_refused, this_kernel };

	return run_case("pressure-sensor", tests, sizeof(tests) / sizeof(tests[0]));
}
