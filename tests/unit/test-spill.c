/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/walk/spill.h"
#include "support.h"
#include "base/macros.h"

START_TEST(keeps_far_more_than_stays_in_memory)
{
	struct spill *s = NULL;
	uint64_t v;
	enum { N = 400000 };

	ck_assert_int_eq(spill_new(&s, KiB(64)), 0);
	for (uint64_t i = 0; i < N; i++) {
		v = i * 2654435761U;
		ck_assert_int_eq(spill_push(s, &v, sizeof(v)), 0);
	}
	ck_assert_uint_eq(spill_top(s), N * sizeof(v));
	for (uint64_t i = 0; i < N; i += 997) {
		ck_assert_int_eq(spill_read(s, i * sizeof(v), &v, sizeof(v)), 0);
		ck_assert_uint_eq(v, i * 2654435761U);
	}
	for (uint64_t i = N; i > 0; i--) {
		ck_assert_int_eq(spill_read(s, (i - 1) * sizeof(v), &v, sizeof(v)), 0);
		ck_assert_uint_eq(v, (i - 1) * 2654435761U);
		spill_cut(s, (i - 1) * sizeof(v));
	}
	ck_assert_uint_eq(spill_top(s), 0);
	spill_free(s);
}
END_TEST

START_TEST(changes_below_the_top_last)
{
	struct spill *s = NULL;
	char block[1000] = { 0 };
	uint64_t mark = 0x1122334455667788, got;

	ck_assert_int_eq(spill_new(&s, KiB(64)), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(spill_push(s, block, sizeof(block)), 0);
	/* In what has long been written out. */
	ck_assert_int_eq(spill_write(s, KiB(16) - 4, &mark, sizeof(mark)), 0);
	for (uint64_t off = 0; off < 900000; off += KiB(16))
		ck_assert_int_eq(spill_read(s, off, &got, sizeof(got)), 0);
	ck_assert_int_eq(spill_read(s, KiB(16) - 4, &got, sizeof(got)), 0);
	ck_assert_uint_eq(got, mark);
	spill_free(s);
}
END_TEST

START_TEST(goes_on_in_memory_when_the_file_cannot_grow)
{
	struct spill *s = NULL;
	struct rlimit old, none = { 0, 0 };
	uint64_t v;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	ck_assert_int_eq(spill_new(&s, 0), 0);
	for (uint64_t i = 0; i < 100000; i++)
		ck_assert_int_eq(spill_push(s, &i, sizeof(i)), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	for (uint64_t i = 0; i < 100000; i++) {
		ck_assert_int_eq(spill_read(s, i * sizeof(v), &v, sizeof(v)), 0);
		ck_assert_uint_eq(v, i);
	}
	spill_free(s);
	ck_assert_ptr_null(spill_free(NULL));
}
END_TEST

/* Some of it is in the file, and stays there. */
START_TEST(test_attack_06_the_file_is_full_half_way)
{
	struct rlimit old, some = { KiB(40), 0 };
	struct spill *s = NULL;
	bool good;
	uint64_t v;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	some.rlim_max = old.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &some), 0);
	/* The checks write to a file as well. */
	good = spill_new(&s, 0) == 0;
	for (uint64_t i = 0; i < 100000 && good; i++)
		good = spill_push(s, &i, sizeof(i)) == 0;
	for (uint64_t i = 0; i < 100000 && good; i++)
		good = spill_read(s, i * sizeof(v), &v, sizeof(v)) == 0 && v == i;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	ck_assert(good);
	spill_free(s);
}
END_TEST

/* Pushes, cuts, writes and reads pieces of any size; a plain array says what there must be. Where
 * `full`, the file cannot be written any more halfway. Returns whether all was right: the checks
 * themselves write to a file. */
static bool compare(bool full, unsigned seed)
{
	enum { MOST = MiB(2), STEPS = 20000 };
	static unsigned char plain[MOST], got[5000];
	struct rlimit old, none;
	struct spill *s = NULL;
	bool good = spill_new(&s, KiB(64)) == 0 && getrlimit(RLIMIT_FSIZE, &old) == 0;
	size_t top = 0, most;

	none = (struct rlimit){ 0, old.rlim_max };
	for (int i = 0; i < STEPS && good; i++) {
		size_t len = 1 + (size_t)rand_r(&seed) % 4999, off;

		if (full && i == STEPS / 2)
			good = setrlimit(RLIMIT_FSIZE, &none) == 0;
		switch (rand_r(&seed) % 8) {
		case 0:
			most = MIN(top, i % 20 == 0 ? KiB(200) : KiB(6));
			top -= most > 0 ? (size_t)rand_r(&seed) % most : 0;
			spill_cut(s, top);
			continue;
		case 1:
		case 2:
		case 3:
			if (top + len > MOST)
				continue;
			for (size_t k = 0; k < len; k++)
				plain[top + k] = (unsigned char)rand_r(&seed);
			good = spill_push(s, plain + top, len) == 0;
			top += len;
			continue;
		default:
			if (len >= top)
				continue;
			off = (size_t)rand_r(&seed) % (top - len);
		}
		if (i % 3 == 0) {
			memset(plain + off, i, len);
			good = spill_write(s, off, plain + off, len) == 0;
		} else {
			good = spill_read(s, off, got, len) == 0 &&
			       memcmp(got, plain + off, len) == 0;
		}
	}
	good = good && spill_top(s) == top;
	(void)setrlimit(RLIMIT_FSIZE, &old);
	spill_free(s);
	return good;
}

/* What has been read of the file before it was cut is not taken for what is in memory since. */
START_TEST(a_cut_forgets_what_was_read)
{
	static char data[KiB(200)], got[KiB(2)];
	struct spill *s = NULL;

	ck_assert_int_eq(spill_new(&s, KiB(64)), 0);
	for (size_t off = 0; off < sizeof(data); off += KiB(1))
		ck_assert_int_eq(spill_push(s, data + off, KiB(1)), 0);
	ck_assert_int_eq(spill_read(s, KiB(60), got, 8), 0);
	spill_cut(s, KiB(100)); /* 32 KiB of it are in memory now */
	memset(data + KiB(68), 'x', KiB(1));
	ck_assert_int_eq(spill_write(s, KiB(68), data + KiB(68), KiB(1)), 0);
	ck_assert_int_eq(spill_read(s, KiB(67), got, sizeof(got)), 0);
	ck_assert_mem_eq(got, data + KiB(67), sizeof(got));
	spill_free(s);
}
END_TEST

START_TEST(agrees_with_a_plain_array)
{
	(void)signal(SIGXFSZ, SIG_IGN);
	for (unsigned seed = 1; seed <= 4; seed++)
		ck_assert_msg(compare(seed % 2 == 0, seed), "seed %u", seed);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { keeps_far_more_than_stays_in_memory,
				 changes_below_the_top_last,
				 goes_on_in_memory_when_the_file_cannot_grow,
				 test_attack_06_the_file_is_full_half_way,
				 a_cut_forgets_what_was_read,
				 agrees_with_a_plain_array };

	return run_case("spill", tests, ELEMENTSOF(tests));
}
