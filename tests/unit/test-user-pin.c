/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
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

#ifndef SYS_getxattrat
#define SYS_getxattrat 464
#endif

/* From here on the kernel answers getxattrat(2) with that error, as old ones and filters of service
 * managers do. */
static bool refuse_getxattrat(int error)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getxattrat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = ELEMENTSOF(steps), .filter = steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
	       syscall(SYS_getxattrat, -1, NULL, 0, NULL, NULL, (size_t)0) < 0 && errno == error;
}

/* Returns the line of the first surprise, 0 if there is none. */
static int reads_all(int dirfd)
{
	static const struct {
		const char *name;
		enum user_pin_kind kind;
	} known[] = {
		{ "always", USER_PIN_ALWAYS }, { "until", USER_PIN_UNTIL },
		{ "past", USER_PIN_NOT },      { "none", USER_PIN_NOT },
		{ "link", USER_PIN_NOT },      { "dir", USER_PIN_ALWAYS },
		{ "long", USER_PIN_UNCLEAR },  { "unclear", USER_PIN_UNCLEAR },
		{ "gone", USER_PIN_NOT },
	};

	/* What was found out of the call the first time holds the second time. */
	for (size_t i = 0; i < 2 * ELEMENTSOF(known); i++) {
		size_t k = i % ELEMENTSOF(known);

		if (user_pin_read(dirfd, known[k].name).kind != known[k].kind) {
			(void)fprintf(stderr, "%s\n", known[k].name);
			return __LINE__;
		}
	}
	return 0;
}

static bool pin_as(const char *dir, const char *name, const char *value)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return setxattr(path, USER_PIN_ATTRIBUTE, value, strlen(value), 0) == 0;
}

START_TEST(user_pin_is_read_whatever_the_kernel_refuses)
{
	/* 0: nothing is refused. */
	static const int errors[] = { 0,     ENOSYS, EPERM,   EACCES, EINVAL, EOPNOTSUPP,  ENOENT,
				      ELOOP, E2BIG,  ENOTDIR, EIO,    ERANGE, ENAMETOOLONG };
	char dir[PATH_MAX];
	_cleanup_close_ int fd = -1;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "always until past none long unclear dir/");
	fd = open(dir, O_PATH | O_DIRECTORY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(symlinkat("always", fd, "link"), 0);
	ck_assert(pin_as(dir, "always", "always"));
	ck_assert(pin_as(dir, "dir", "always entries"));
	ck_assert(pin_as(dir, "until", "2099-01-31T22:59:59Z"));
	ck_assert(pin_as(dir, "past", "2001-01-31T22:59:59Z"));
	ck_assert(pin_as(dir, "unclear", "sometimes"));
	ck_assert(pin_as(dir, "long", "always, or at least longer than any value has room for"));
	for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
		int status = -1;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			int line = errors[i] == 0 || refuse_getxattrat(errors[i]) ? reads_all(fd)
										  : __LINE__;

			if (line)
				(void)fprintf(stderr, "%s: line %d\n", strerror(errors[i]), line);
			_exit(line != 0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "with getxattrat refused: %s", strerror(errors[i]));
	}
	scratch_remove(dir);
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
				       user_pin_of_what_has_none,
				       user_pin_is_read_whatever_the_kernel_refuses,
				       user_pin_words_have_room };

	return run_case("user-pin", tests, ELEMENTSOF(tests));
}
