/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "daemon/context/account.h"
#include "support.h"
#include "base/macros.h"

/* What both files of so many users take at most, of processor time: it was minutes when the one
 * was read for each line of the other. */
#define MANY 10000
#define ENOUGH_SECONDS 5

struct fixture {
	char dir[PATH_MAX - 8], subuid[PATH_MAX], passwd[PATH_MAX];
	struct accounts a;
};

static void begin(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	scratch_make(f->dir, sizeof(f->dir));
	(void)snprintf(f->subuid, sizeof(f->subuid), "%s/subuid", f->dir);
	(void)snprintf(f->passwd, sizeof(f->passwd), "%s/passwd", f->dir);
}

static void end(struct fixture *f)
{
	accounts_done(&f->a);
	scratch_remove(f->dir);
}

static uid_t find(struct fixture *f, uid_t uid)
{
	return accounts_find(&f->a, uid, f->subuid, f->passwd);
}

START_TEST(whose_ids_are)
{
	struct fixture f;

	begin(&f);
	ck_assert_uint_eq(find(&f, 100000), 100000);
	file_make(f.dir, "passwd",
		  "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n"
		  "broken\nann:x:1002:1002::/:/bin/sh\n");
	file_make(f.dir, "subuid",
		  "bob:200000:10\nann:100000:10\n1003:300000:10\nroot:400000:10\n0:500000:10\n"
		  "gone:600000:10\nann:700000:10\nnothing\nbob:0:10\nbob:800000:0\n");
	ck_assert_uint_eq(find(&f, 0), 0);
	ck_assert_uint_eq(find(&f, 1), 1);
	ck_assert_uint_eq(find(&f, 99999), 99999);
	ck_assert_uint_eq(find(&f, 100000), 1000);
	ck_assert_uint_eq(find(&f, 100009), 1000);
	ck_assert_uint_eq(find(&f, 100010), 100010);
	ck_assert_uint_eq(find(&f, 700001), 1000);
	ck_assert_uint_eq(find(&f, 200001), 1001);
	ck_assert_uint_eq(find(&f, 300001), 1003);
	ck_assert_uint_eq(find(&f, 400001), 400000);
	ck_assert_uint_eq(find(&f, 500001), 500000);
	ck_assert_uint_eq(find(&f, 600001), 600000);
	ck_assert_uint_eq(find(&f, 800000), 800000);
	/* Without the other file, names are of no account. */
	ck_assert_int_eq(unlink(f.passwd), 0);
	file_make(f.dir, "subuid", "ann:100000:10\n");
	ck_assert_uint_eq(find(&f, 100001), 100000);
	ck_assert_int_eq(unlink(f.subuid), 0);
	ck_assert_uint_eq(find(&f, 100001), 100001);
	end(&f);
}
END_TEST

START_TEST(test_attack_08_each_file_is_read_once)
{
	struct timespec began, ended;
	struct fixture f;
	FILE *ids, *names;

	begin(&f);
	ids = fopen(f.subuid, "we");
	names = fopen(f.passwd, "we");
	ck_assert(ids && names);
	for (unsigned i = 0; i < MANY; i++) {
		(void)fprintf(ids, "user%u:%u:65536\n", i, 100000 + i * 65536);
		(void)fprintf(names, "user%u:x:%u:%u::/home/user%u:/bin/sh\n", i, 1000 + i,
			      1000 + i, i);
	}
	ck_assert_int_eq(fclose(ids), 0);
	ck_assert_int_eq(fclose(names), 0);
	ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began), 0);
	for (unsigned i = 0; i < MANY; i += 1000)
		ck_assert_uint_eq(find(&f, 100007 + i * 65536), 1000 + i);
	ck_assert_uint_eq(find(&f, 100000 + MANY * 65536), 100000 + MANY * 65536);
	ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended), 0);
	ck_assert_int_lt(ended.tv_sec - began.tv_sec, ENOUGH_SECONDS);
	end(&f);
}
END_TEST

/* As where all descriptors are used up, by those whom the account is to be known of. */
START_TEST(test_attack_08_what_cannot_be_read_is_read_later)
{
	struct rlimit before, none;
	struct fixture f;

	begin(&f);
	file_make(f.dir, "passwd", "ann:x:1000:1000::/:/bin/sh\n");
	file_make(f.dir, "subuid", "ann:100000:10\n");
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_uint_eq(find(&f, 100001), 100001);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_uint_eq(find(&f, 100001), 1000);
	/* What was known stays known. */
	file_make(f.dir, "subuid", "ann:100000:10\nann:200000:10\n");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_uint_eq(find(&f, 200001), 200001);
	ck_assert_uint_eq(find(&f, 100001), 1000);
	/* One descriptor is enough. */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_cur = (rlim_t)open("/", O_PATH | O_CLOEXEC) + 1;
	ck_assert_int_eq(close((int)none.rlim_cur - 1), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_uint_eq(find(&f, 200001), 1000);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		whose_ids_are,
		test_attack_08_each_file_is_read_once,
		test_attack_08_what_cannot_be_read_is_read_later,
	};

	return run_case("account", tests, ELEMENTSOF(tests));
}
