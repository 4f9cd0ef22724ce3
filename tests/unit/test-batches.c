/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What goes into which call to the daemon. */
#include <stdio.h>
#include <string.h>

#include "ctl/jobs/batches.h"
#include "support.h"
#include "base/macros.h"

/* Adds `names` names in directory `dir`, as if it had been found on a mount. */
static void add(struct roots *r, const char *dir, uint64_t mount, size_t names, bool explicit_names)
{
	const char *why = NULL;
	char path[64];

	for (size_t i = 0; i < names; i++) {
		(void)snprintf(path, sizeof(path), "%s/%zu", dir, i);
		ck_assert_int_eq(roots_add(r, path, explicit_names, &why), 0);
	}
	r->last->id.mnt_id = mount;
	r->last->accepted = true;
}

static struct batches make(const struct roots *r, unsigned fds)
{
	struct batches b = { 0 };

	ck_assert_int_eq(batches_make(&b, r, fds), 0);
	return b;
}

START_TEST(directories_of_a_mount_go_together)
{
	struct roots r = { 0 };
	struct batches b;

	add(&r, "/a", 7, 2, true);
	add(&r, "/b", 8, 1, true);
	add(&r, "/c", 7, 3, true);
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 2);
	ck_assert_uint_eq(b.v[0].n, 2);
	ck_assert_uint_eq(b.v[0].names, 5);
	ck_assert_str_eq(b.v[0].groups[0]->dir, "/a");
	ck_assert_str_eq(b.v[0].groups[1]->dir, "/c");
	ck_assert(!b.v[0].lists);
	ck_assert_uint_eq(b.v[1].names, 1);
	ck_assert_str_eq(b.v[1].groups[0]->dir, "/b");
	batches_done(&b);
	roots_done(&r);
}
END_TEST

START_TEST(what_is_not_accepted_is_left_out)
{
	struct roots r = { 0 };
	struct batches b;

	add(&r, "/a", 7, 1, true);
	add(&r, "/b", 7, 1, true);
	r.last->accepted = false;
	add(&r, "/c", 7, 1, false);
	r.last->names.n = 0;
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 1);
	ck_assert_uint_eq(b.v[0].n, 1);
	ck_assert_str_eq(b.v[0].groups[0]->dir, "/a");
	batches_done(&b);
	roots_done(&r);
}
END_TEST

START_TEST(nothing_is_no_batch)
{
	struct roots r = { 0 };
	struct batches b = make(&r, 16);

	ck_assert_uint_eq(b.n, 0);
	batches_done(&b);
}
END_TEST

START_TEST(many_names_go_in_files)
{
	struct roots r = { 0 };
	struct batches b;

	add(&r, "/a", 7, BATCH_NAMES_MOST, true);
	b = make(&r, 16);
	ck_assert(!b.v[0].lists);
	batches_done(&b);
	add(&r, "/b", 7, 1, true);
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 1);
	ck_assert(b.v[0].lists);
	batches_done(&b);
	roots_done(&r);
}
END_TEST

START_TEST(names_of_a_list_go_in_files)
{
	struct roots r = { 0 };
	struct batches b;

	add(&r, "/a", 7, 1, true);
	add(&r, "/a", 7, 1, false);
	add(&r, "/b", 8, 1, true);
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 2);
	ck_assert(b.v[0].lists);
	ck_assert(!b.v[1].lists);
	batches_done(&b);
	roots_done(&r);
}
END_TEST

START_TEST(a_message_holds_so_many_descriptors)
{
	struct roots r = { 0 };
	struct batches b;
	char dir[16];

	for (int i = 0; i < 250; i++) {
		(void)snprintf(dir, sizeof(dir), "/%d", i);
		add(&r, dir, 7, 1, true);
	}
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 16);
	ck_assert_uint_eq(b.v[0].n, 16);
	ck_assert_uint_eq(b.v[15].n, 10);
	batches_done(&b);
	/* However many it could hold, a job is not of more directories than this. */
	b = make(&r, 240);
	ck_assert_uint_eq(b.n, 3);
	ck_assert_uint_eq(b.v[0].n, BATCH_DIRS_MOST);
	ck_assert_uint_eq(b.v[2].n, 10);
	batches_done(&b);
	/* A file for each directory. */
	add(&r, "/l", 7, 1, false);
	b = make(&r, 16);
	ck_assert_uint_eq(b.n, 32);
	ck_assert_uint_eq(b.v[0].n, 8);
	batches_done(&b);
	roots_done(&r);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { directories_of_a_mount_go_together,
				 what_is_not_accepted_is_left_out,
				 nothing_is_no_batch,
				 many_names_go_in_files,
				 names_of_a_list_go_in_files,
				 a_message_holds_so_many_descriptors };

	return run_case("batches", tests, ELEMENTSOF(tests));
}
