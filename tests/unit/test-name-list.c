/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "worker/name-list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define NO_BOUND UINT64_MAX

static int file_of(const char *content, size_t len)
{
	int fd = memfd_create("names", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, content, len), (ssize_t)len);
	return fd;
}

/* Reads to the end. Returns what the last call said; *ret_n: how many names there were. */
static int read_all(struct name_list *l, size_t head, size_t *ret_n)
{
	char *name;
	int r;

	for (*ret_n = 0; (r = name_list_next(l, head, &name)) > 0; (*ret_n)++)
		;
	return r;
}

static int read_file(const char *content, size_t len, size_t head, size_t *ret_n)
{
	_cleanup_close_ int fd = file_of(content, len);
	struct name_list l;
	int r;

	ck_assert_int_eq(name_list_open(&l, NULL, 0, fd, NO_BOUND), 0);
	r = read_all(&l, head, ret_n);
	name_list_done(&l);
	return r;
}

START_TEST(names_of_a_message)
{
	char names[] = "a\0bc\0\0d";
	struct name_list l;
	char *name;

	ck_assert_int_eq(name_list_open(&l, names, sizeof(names), -1, NO_BOUND), 0);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(name_list_next(&l, 0, &name), 1);
		ck_assert_str_eq(name, ((const char *[]){ "a", "bc", "", "d" })[i]);
	}
	ck_assert_int_eq(name_list_next(&l, 0, &name), 0);
	name_list_done(&l);
	ck_assert_int_eq(name_list_open(&l, names, sizeof(names) - 1, -1, NO_BOUND), 0);
	ck_assert_int_eq(read_all(&l, 0, &(size_t){ 0 }), -EBADMSG);
	ck_assert_int_eq(name_list_open(&l, NULL, 0, -1, NO_BOUND), 0);
	ck_assert_int_eq(name_list_next(&l, 0, &name), 0);
	ck_assert_int_eq(name_list_open(&l, names, 3, -1, 2), -E2BIG);
}
END_TEST

/* Names of all lengths, so that they lie across the ends of chunks in all ways. */
START_TEST(names_of_a_file_over_many_chunks)
{
	_cleanup_close_ int fd = memfd_create("names", MFD_CLOEXEC);
	FILE *f = fdopen(dup(fd), "w");
	struct name_list l;
	char *name;

	for (int i = 0; i < 5000; i++)
		ck_assert_int_gt(fprintf(f, "%0*d%c", 1 + i * 7 % 250, i, '\0'), 0);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(name_list_open(&l, NULL, 0, fd, NO_BOUND), 0);
	for (int i = 0; i < 5000; i++) {
		ck_assert_int_eq(name_list_next(&l, 0, &name), 1);
		ck_assert_int_eq(atoi(name), i);
	}
	ck_assert_int_eq(name_list_next(&l, 0, &name), 0);
	name_list_done(&l);
}
END_TEST

START_TEST(records_have_a_head_with_any_bytes)
{
	static const char records[] = "\0\0\0\0abc\0\1\0\2\0d\0\0\0\0";
	size_t n;

	ck_assert_int_eq(read_file(records, 14, 4, &n), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(read_file(records, 13, 4, &n), -EBADMSG);
	ck_assert_int_eq(read_file(records, 17, 4, &n), -EBADMSG);
	ck_assert_uint_eq(n, 2);
}
END_TEST

START_TEST(test_attack_05_lists_that_are_none)
{
	_cleanup_close_ int hole = memfd_create("hole", MFD_CLOEXEC);
	_cleanup_free_ char *endless = malloc(NAME_LIST_CHUNK * 2);
	int ends[2];
	struct name_list l;
	char *name;
	size_t n;

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(name_list_open(&l, NULL, 0, ends[0], NO_BOUND), -EINVAL);
	fd_closep(&ends[0]);
	fd_closep(&ends[1]);
	memset(endless, 'x', NAME_LIST_CHUNK * 2);
	ck_assert_int_eq(read_file(endless, NAME_LIST_CHUNK * 2, 0, &n), -ENAMETOOLONG);
	ck_assert_int_eq(read_file(endless, 100, 0, &n), -EBADMSG);
	ck_assert_int_eq(read_file("", 0, 0, &n), 0);
	/* A terabyte that takes no room: refused for its size, or an empty name is its first. */
	ck_assert_int_eq(ftruncate(hole, 1LL << 40), 0);
	ck_assert_int_eq(name_list_open(&l, NULL, 0, hole, 1ULL << 30), -E2BIG);
	ck_assert_int_eq(name_list_open(&l, NULL, 0, hole, NO_BOUND), 0);
	ck_assert_int_eq(name_list_next(&l, 0, &name), 1);
	ck_assert_str_eq(name, "");
	name_list_done(&l);
}
END_TEST

/* The file is cut off, or goes on, while it is read: an error, not a shorter list, nor a signal. */
START_TEST(test_attack_05_a_list_that_changes)
{
	_cleanup_free_ char *names = malloc(NAME_LIST_CHUNK * 4);

	for (size_t i = 0; i < NAME_LIST_CHUNK * 4; i++)
		names[i] = i % 16 == 15 ? '\0' : 'a';
	for (off_t cut = 0; cut <= (off_t)NAME_LIST_CHUNK * 5; cut += 4096) {
		_cleanup_close_ int fd = file_of(names, NAME_LIST_CHUNK * 4);
		struct name_list l;
		char *name;
		size_t n;

		ck_assert_int_eq(name_list_open(&l, NULL, 0, fd, NO_BOUND), 0);
		ck_assert_int_eq(name_list_next(&l, 0, &name), 1);
		ck_assert_int_eq(ftruncate(fd, cut), 0);
		ck_assert_int_eq(read_all(&l, 0, &n),
				 cut == (off_t)NAME_LIST_CHUNK * 4 ? 0 : -ESTALE);
		ck_assert_uint_le(n, NAME_LIST_CHUNK * 4 / 16);
		name_list_done(&l);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { names_of_a_message, names_of_a_file_over_many_chunks,
				 records_have_a_head_with_any_bytes,
				 test_attack_05_lists_that_are_none,
				 test_attack_05_a_list_that_changes };

	return run_case("name-list", tests, ELEMENTSOF(tests));
}
