/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* With whose authority a spool is emptied, and which is none. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spools/spool-authority.h"
#include "spool-world.h"

#define NO_ACCOUNT 64998 /* an id that no account has */

START_TEST(authority_is_never_more_than_what_put_it_there)
{
	static const struct {
		struct spool_step steps[3];
		enum spool_rule rule;
		uid_t uid;
	} cases[] = {
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0700 } },
		  RULE_ROOT,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0700 } },
		  RULE_ONE,
		  5 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0755 },
		    { .uid = 5, .mode = 0755 } },
		  RULE_ONE,
		  5 },
		/* root's, but its owner's parent may exchange it. */
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0755 },
		    { .uid = 0, .mode = 0755 } },
		  RULE_ONE,
		  5 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 01777 } },
		  RULE_OWNERS,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0770 } },
		  RULE_OWNERS,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0770 } },
		  RULE_OWNERS,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0755 },
		    { .uid = 6, .mode = 0755 } },
		  RULE_NONE,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 5, .mode = 0755 },
		    { .uid = 5, .mode = 0777 } },
		  RULE_NONE,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 01777 },
		    { .uid = 0, .mode = 0755 } },
		  RULE_NONE,
		  0 },
		{ { { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0775 },
		    { .uid = 5, .mode = 0755 } },
		  RULE_NONE,
		  0 },
		{ { { .uid = 0, .mode = 0757 },
		    { .uid = 0, .mode = 0755 },
		    { .uid = 0, .mode = 0755 } },
		  RULE_NONE,
		  0 },
	};
	struct spool_authority owners = { .rule = RULE_OWNERS };
	uid_t uid = 99;

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct spool_authority a = spool_authority(cases[i].steps, 3);

		ck_assert_msg(a.rule == cases[i].rule, "case %zu: rule %d", i, a.rule);
		if (a.rule == RULE_ONE)
			ck_assert_uint_eq(a.uid, cases[i].uid);
	}
	ck_assert_ptr_null(spool_authority_entry(&owners, 5, S_IFREG | 0666, &uid));
	ck_assert_uint_eq(uid, 5);
	ck_assert_ptr_null(spool_authority_entry(&owners, 5, S_IFDIR | 0755, &uid));
	uid = 99;
	ck_assert_ptr_nonnull(spool_authority_entry(&owners, 5, S_IFDIR | 0775, &uid));
	ck_assert_ptr_nonnull(spool_authority_entry(&owners, 5, S_IFDIR | 0757, &uid));
	ck_assert_ptr_nonnull(spool_authority_entry(&owners, 0, S_IFREG | 0600, &uid));
	ck_assert_ptr_nonnull(spool_authority_entry(&owners, 0, S_IFDIR | 0700, &uid));
	ck_assert_uint_eq(uid, 99);
}
END_TEST

START_TEST(others_spools_are_emptied_with_others_authority)
{
	struct world w;

	world_open(&w, 0, NULL);
	make_as(0, "/mnt/spool", S_IFDIR | 01777);
	make_as(1, "/mnt/spool/a", S_IFREG | 0600);
	make_as(2, "/mnt/spool/b", S_IFREG | 0666);
	make_as(1, "/mnt/spool/c", S_IFDIR | 0755);
	make_as(0, "/mnt/spool/roots", S_IFREG | 0666);
	make_as(0, "/mnt/spool/roots-dir", S_IFDIR | 0755);
	make_as(1, "/mnt/spool/shared", S_IFDIR | 0775);
	make_as(NO_ACCOUNT, "/mnt/spool/stranger", S_IFREG | 0600);
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 3 && w.tells == 4);
	ck_assert(strcmp(w.log, "1: a c;2: b;") == 0 || strcmp(w.log, "2: b;1: a c;") == 0);
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/roots is root's"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/roots-dir is root's"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/shared is a directory that others"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/stranger belongs to a user id without"));
	/* Said once; and another look changes nothing. */
	make_as(1, "/mnt/spool/d", S_IFREG | 0600);
	run_until(&w, w.names == 4);
	ck_assert_uint_eq(w.tells, 4);
	/* What is put right is taken. */
	ck_assert_int_eq(chmod("/mnt/spool/shared", 0755), 0);
	ck_assert_int_eq(chown("/mnt/spool/stranger", 2, 2), 0);
	run_until(&w, w.names == 6);
	/* And all of it, when no other user may write the spool. */
	ck_assert_int_eq(chmod("/mnt/spool", 0755), 0);
	run_until(&w, w.names == 8);
	ck_assert_str_eq(w.last, "0: roots roots-dir");
	world_close(&w);
}
END_TEST

START_TEST(a_users_own_spool_is_emptied_as_that_user)
{
	struct world w;

	world_open(&w, 0, NULL);
	make_as(2, "/mnt/home", S_IFDIR | 0755);
	make_as(2, "/mnt/home/spool", S_IFDIR | 0700);
	make_as(2, "/mnt/home/spool/own", S_IFREG | 0600);
	/* However they came there, it is not with the others' authority that they go. */
	make_as(1, "/mnt/home/spool/others", S_IFDIR | 0755);
	make_as(0, "/mnt/home/spool/roots", S_IFDIR | 0755);
	serve(&w, "/mnt/home/spool");
	run_until(&w, w.names == 3);
	ck_assert_str_eq(w.log, "2: others own roots;");
	world_close(&w);
}
END_TEST

START_TEST(what_several_may_exchange_is_not_served)
{
	struct world w;

	world_open(&w, 0, NULL);
	make_as(0, "/mnt/open", S_IFDIR | 01777);
	make_as(0, "/mnt/open/spool", S_IFDIR | 0755);
	make("/mnt/open/spool/x");
	serve(&w, "/mnt/open/spool");
	run_until(&w, state_of(&w) == SPOOL_UNSERVED);
	ck_assert_uint_eq(w.tells, 1);
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/open/spool can be exchanged"));
	ck_assert_int_eq(chmod("/mnt/open", 0755), 0);
	run_until(&w, w.names == 1);
	ck_assert_uint_eq(w.tells, 1);
	world_close(&w);
}
END_TEST

static void expect_unserved(struct world *w, const char *path, const char *why)
{
	serve(w, path);
	run_until(w, state_of(w) == SPOOL_UNSERVED);
	ck_assert_msg(strstr(w->told, why), "%s: %s", path, w->told);
	ck_assert_uint_eq(w->batches, 0);
	w->told[0] = '\0';
}

START_TEST(what_is_protected_is_no_spool)
{
	struct world w;

	world_open(&w, 0, "/mnt/var/state");
	/* These are the system's own directories: nothing in them is touched, whatever fails. */
	w.answer = NONE;
	make_dir("/mnt/var");
	make_dir("/mnt/var/state");
	make_dir("/mnt/var/state/spool");
	make("/mnt/var/state/spool/x");
	make("/mnt/file");
	ck_assert_int_eq(symlink("var", "/mnt/link"), 0);
	expect_unserved(&w, "/mnt/var", "protected");
	expect_unserved(&w, "/mnt/var/state", "protected");
	expect_unserved(&w, "/mnt/var/state/spool", "protected");
	expect_unserved(&w, "/mnt", "is a mount point");
	expect_unserved(&w, "/mnt/link", "symbolic link");
	expect_unserved(&w, "/mnt/link/other", "symbolic link");
	expect_unserved(&w, "/mnt/file", "no directory");
	expect_unserved(&w, "/usr/share", "belongs to the system");
	expect_unserved(&w, "/", "is the root directory");
	ck_assert(exists("/mnt/var/state/spool/x"));
	world_close(&w);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { authority_is_never_more_than_what_put_it_there,
				 others_spools_are_emptied_with_others_authority,
				 a_users_own_spool_is_emptied_as_that_user,
				 what_several_may_exchange_is_not_served,
				 what_is_protected_is_no_spool };

	return run_spool_case("spool-authority", tests, ELEMENTSOF(tests));
}
