/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "pacing/sensors/disk-sensor.h"
#include "support.h"
#include "base/macros.h"

/* As recorded on Linux 4.9, 4.19 and 6.1. */
#define STAT11 "   10   1   20   30   40   2   50   60   3   70   90\n"
#define STAT15 "   10   1   20   30   40   2   50   60   3   70   90  5 0 600 7\n"
#define STAT17 "   10   1   20   30   40   2   50   60   3   70   90  5 0 600 7 8 9\n"

struct fixture {
	char dir[PATH_MAX];
	struct disk_sensor s;
};

static void begin(struct fixture *f, const char *stat)
{
	scratch_make(f->dir, sizeof(f->dir));
	file_make(f->dir, "dev/block/8:0/stat", stat);
	f->s = (struct disk_sensor){ .fd = -1 };
}

static void end(struct fixture *f)
{
	disk_sensor_close(&f->s);
	scratch_remove(f->dir);
}

static void check_common(const struct disk_sample *d)
{
	ck_assert_uint_eq(d->reads, 10);
	ck_assert_uint_eq(d->read_sectors, 20);
	ck_assert_uint_eq(d->read_msec, 30);
	ck_assert_uint_eq(d->writes, 40);
	ck_assert_uint_eq(d->write_sectors, 50);
	ck_assert_uint_eq(d->write_msec, 60);
	ck_assert_uint_eq(d->in_flight, 3);
	ck_assert_uint_eq(d->busy_msec, 70);
}

START_TEST(kernels_count_more_and_more)
{
	static const char *const stats[] = { STAT11, STAT15, STAT17,
					     "10 1 20 30 40 2 50 60 3 70 90 "
					     "5 0 600 7 8 9 10 11 12" };

	for (size_t i = 0; i < 4; i++) {
		struct disk_sample d;
		struct fixture f;

		begin(&f, stats[i]);
		ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 0)), 0);
		ck_assert_int_eq(disk_sensor_sample(&f.s, &d), 0);
		check_common(&d);
		ck_assert_int_eq(f.s.has_discards, i >= 1);
		ck_assert_int_eq(f.s.has_flushes, i >= 2);
		ck_assert_uint_eq(d.discards, i >= 1 ? 5 : 0);
		ck_assert_uint_eq(d.discard_sectors, i >= 1 ? 600 : 0);
		ck_assert_uint_eq(d.discard_msec, i >= 1 ? 7 : 0);
		ck_assert_uint_eq(d.flushes, i >= 2 ? 8 : 0);
		ck_assert_uint_eq(d.flush_msec, i >= 2 ? 9 : 0);
		end(&f);
	}
}
END_TEST

START_TEST(something_else_is_refused)
{
	static const char *const stats[] = { "", "1 2 3\n", "10 1 20 30 40 2 50 60 3 70\n",
					     "10 1 20 thirty 40 2 50 60 3 70 90\n",
					     "10 1 20 30 40 2 50 60 3 70 90 five\n" };
	struct disk_sample d = { .reads = 77 };
	struct fixture f;

	for (size_t i = 0; i < ELEMENTSOF(stats); i++) {
		begin(&f, stats[i]);
		ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 0)), -EBADMSG);
		ck_assert_int_eq(f.s.fd, -1);
		end(&f);
	}
	begin(&f, STAT17);
	ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 1)), -ENOENT);
	ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 0)), 0);
	file_make(f.dir, "dev/block/8:0/stat", "garbage");
	ck_assert_int_eq(disk_sensor_sample(&f.s, &d), -EBADMSG);
	ck_assert_uint_eq(d.reads, 77);
	end(&f);
}
END_TEST

static void *sample_often(void *userdata)
{
	const struct disk_sensor *s = userdata;
	struct disk_sample d;
	intptr_t failed = 0;

	for (int i = 0; i < 20000; i++)
		failed += disk_sensor_sample(s, &d) < 0 || d.reads != 10;
	return (void *)failed;
}

/* As the sampler and a lane do. */
START_TEST(two_threads_sample_one_disk)
{
	struct fixture f;
	pthread_t thread;
	void *failed;

	begin(&f, STAT17);
	ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 0)), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, sample_often, &f.s), 0);
	ck_assert_ptr_null(sample_often(&f.s));
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_null(failed);
	end(&f);
}
END_TEST

START_TEST(each_sample_is_new)
{
	struct disk_sample then, now, since;
	struct fixture f;

	begin(&f, STAT17);
	ck_assert_int_eq(disk_sensor_open(&f.s, f.dir, makedev(8, 0)), 0);
	ck_assert_int_eq(disk_sensor_sample(&f.s, &then), 0);
	file_make(f.dir, "dev/block/8:0/stat", "11 1 28 31 42 2 66 64 1 75 99 6 0 1600 17 9 29\n");
	ck_assert_int_eq(disk_sensor_sample(&f.s, &now), 0);
	disk_sample_since(&now, &then, &since);
	ck_assert_uint_eq(since.reads, 1);
	ck_assert_uint_eq(since.read_sectors, 8);
	ck_assert_uint_eq(since.read_msec, 1);
	ck_assert_uint_eq(since.writes, 2);
	ck_assert_uint_eq(since.write_sectors, 16);
	ck_assert_uint_eq(since.write_msec, 4);
	ck_assert_uint_eq(since.in_flight, 1);
	ck_assert_uint_eq(since.busy_msec, 5);
	ck_assert_uint_eq(since.discards, 1);
	ck_assert_uint_eq(since.discard_sectors, 1000);
	ck_assert_uint_eq(since.discard_msec, 10);
	ck_assert_uint_eq(since.flushes, 1);
	ck_assert_uint_eq(since.flush_msec, 20);
	end(&f);
}
END_TEST

START_TEST(counters_that_go_backwards)
{
	struct disk_sample then = { .reads = 10, .read_msec = UINT32_MAX - 1, .writes = 5 };
	struct disk_sample now = { .reads = 12, .read_msec = 3, .writes = 6, .in_flight = 2 };
	const struct disk_sample zero = { 0 };
	struct disk_sample since;

	/* Times wrap at 32 bits. */
	disk_sample_since(&now, &then, &since);
	ck_assert_uint_eq(since.reads, 2);
	ck_assert_uint_eq(since.read_msec, 5);
	ck_assert_uint_eq(since.writes, 1);
	ck_assert_uint_eq(since.in_flight, 2);
	/* Counts do not: it is another device. */
	now.writes = 4;
	disk_sample_since(&now, &then, &since);
	ck_assert_mem_eq(&since, &zero, sizeof(since));
	/* The result may be one of the two. */
	now.writes = 5;
	disk_sample_since(&now, &then, &now);
	ck_assert_uint_eq(now.reads, 2);
	ck_assert_uint_eq(now.writes, 0);
}
END_TEST

START_TEST(sums)
{
	/* Every field is 64 bits: so that none is forgotten, they are taken as an array. */
	enum { FIELDS = sizeof(struct disk_sample) / sizeof(uint64_t) };
	uint64_t a[FIELDS], b[FIELDS];
	struct disk_sample x, y;

	for (uint64_t i = 0; i < FIELDS; i++) {
		a[i] = 100 + i;
		b[i] = 1000 * (i + 1);
	}
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	disk_sample_add(&x, &y);
	memcpy(a, &x, sizeof(x));
	for (uint64_t i = 0; i < FIELDS; i++)
		ck_assert_uint_eq(a[i], 100 + i + 1000 * (i + 1));
}
END_TEST

int main(void)
{
	const TTest *tests[] = { kernels_count_more_and_more, something_else_is_refused,
				 each_sample_is_new,          two_threads_sample_one_disk,
				 counters_that_go_backwards,  sums };

	return run_case("disk-sensor", tests, sizeof(tests) / sizeof(tests[0]));
}
