/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A system call that no library makes says the same as one that a library does. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "engine/remove/direct-calls.h"
#include "support.h"

static char dir[PATH_MAX];

static void says_as_unlinkat(int (*call)(int dirfd, const char *name, int flags))
{
	char longest[NAME_MAX + 2];
	_cleanup_close_ int fd = -1;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "file keep/ keep/x void/");
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(call(fd, "file", 0), 0);
	ck_assert_int_eq(faccessat(fd, "file", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	ck_assert_int_eq(call(fd, "file", 0), -ENOENT);
	ck_assert_int_eq(call(fd, "void", 0), -EISDIR);
	ck_assert_int_eq(call(fd, "keep", AT_REMOVEDIR), -ENOTEMPTY);
	ck_assert_int_eq(call(fd, "keep/x", AT_REMOVEDIR), -ENOTDIR);
	ck_assert_int_eq(call(fd, "void", 0x10000), -EINVAL);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ck_assert_int_eq(call(fd, longest, 0), -ENAMETOOLONG);
	ck_assert_int_eq(call(fd, (const char *)1, 0), -EFAULT);
	ck_assert_int_eq(call(-1, "void", 0), -EBADF);
	ck_assert_int_eq(faccessat(fd, "keep/x", F_OK, AT_SYMLINK_NOFOLLOW), 0);
	ck_assert_int_eq(call(fd, "void", AT_REMOVEDIR), 0);
	ck_assert_int_eq(faccessat(fd, "void", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	scratch_remove(dir);
}

static void says_as_fd_identity(int (*call)(int dirfd, const char *name, struct statx *ret))
{
	struct identity id, expected;
	_cleanup_close_ int fd = -1;
	struct statx sx;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "file sub/");
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(symlinkat("file", fd, "link"), 0);
	ck_assert_int_eq(linkat(fd, "file", fd, "twin", 0), 0);
	for (size_t i = 0; i < 4; i++) {
		const char *name = (const char *[]){ "file", "sub", "link", "twin" }[i];

		memset(&sx, 0xff, sizeof(sx));
		ck_assert_int_eq(call(fd, name, &sx), 0);
		ck_assert_int_eq(fd_identity(fd, name, &expected), 0);
		id = identity_of(&sx);
		ck_assert(identity_equal(&id, &expected));
		ck_assert_uint_eq(id.mode, expected.mode);
		ck_assert_uint_eq(id.nlink, expected.nlink);
		ck_assert_uint_eq(id.size_bytes, expected.size_bytes);
		ck_assert_uint_eq(id.blocks_bytes, expected.blocks_bytes);
	}
	ck_assert_int_eq(call(fd, "nothing", &sx), -ENOENT);
	ck_assert_int_eq(call(fd, "file/x", &sx), -ENOTDIR);
	ck_assert_int_eq(call(fd, (const char *)1, &sx), -EFAULT);
	ck_assert_int_eq(call(-1, "file", &sx), -EBADF);
	scratch_remove(dir);
}

START_TEST(with_the_library)
{
	says_as_unlinkat(unlink_call);
	says_as_fd_identity(statx_call);
}
END_TEST

#ifdef DIRECT_CALLS
START_TEST(without_the_library)
{
	says_as_unlinkat(unlink_direct);
	says_as_fd_identity(statx_direct);
}
END_TEST
#endif

int main(void)
{
	const TTest *tests[] = {
		with_the_library,
#ifdef DIRECT_CALLS
		without_the_library,
#endif
	};

	return run_case("direct-calls", tests, ELEMENTSOF(tests));
}
