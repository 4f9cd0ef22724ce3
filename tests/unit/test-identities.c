/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many identities at once are those that each name has by itself. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/walk/identities.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define NAMES 100

static char dir[PATH_MAX], names[NAMES][16];
static struct engine_unit_name asked[NAMES];
static int errors[NAMES];
static _Atomic bool cancelled;

/* Every seventh is not there; the others are directories, files and links. */
static void are_as_asked_one_by_one(size_t n)
{
	_cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY);

	for (size_t i = 0; i < n; i++) {
		asked[i] = (struct engine_unit_name){ .name = names[i] };
		errors[i] = 1;
	}
	identities_at(fd, asked, errors, n, &cancelled);
	for (size_t i = 0; i < n; i++) {
		struct identity id;
		int r = fd_identity(fd, names[i], &id);

		ck_assert_int_eq(r, i % 7 == 3 ? -ENOENT : 0);
		ck_assert_int_eq(errors[i], r);
		ck_assert_str_eq(asked[i].name, names[i]);
		if (r < 0)
			continue;
		ck_assert(identity_equal(&asked[i].id, &id));
		ck_assert_uint_eq(asked[i].id.mode, id.mode);
		ck_assert_uint_eq(asked[i].id.is_mount_root, id.is_mount_root);
	}
}

START_TEST(all_are_as_asked_one_by_one)
{
	scratch_make(dir, sizeof(dir));
	for (size_t i = 0; i < NAMES; i++) {
		const char *what = i % 3 == 0 ? "/" : i % 3 == 1 ? "" : ">nowhere";
		char word[32];

		(void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
		(void)snprintf(word, sizeof(word), "n%zu%s", i, what);
		if (i % 7 != 3)
			tree_make(dir, word);
	}
	for (size_t n = 0; n <= NAMES; n++)
		are_as_asked_one_by_one(n);
	cancelled = true;
	identities_at(AT_FDCWD, asked, errors, NAMES, &cancelled);
	for (size_t i = 0; i < NAMES; i++)
		ck_assert_int_eq(errors[i], -ECANCELED);
	scratch_remove(dir);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { all_are_as_asked_one_by_one };

	return run_case("identities", tests, ELEMENTSOF(tests));
}
