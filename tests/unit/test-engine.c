/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The engine as a library, on whatever filesystem the scratch directory is. Other filesystems and
 * all races: tests/integration. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "support.h"

struct world {
	char dir[PATH_MAX];
	struct root_group group;
	struct engine_progress result;
	unsigned problems;
};

static void begin(struct world *w, const char *tree)
{
	*w = (struct world){ 0 };
	scratch_make(w->dir, sizeof(w->dir));
	tree_make(w->dir, tree);
	w->group = (struct root_group){ .dir = w->dir,
					.dirfd = open(w->dir, O_PATH),
					.accepted = true };
}

static void root(struct world *w, const char *name)
{
	ck_assert_int_eq(dirlist_add(&w->group.names, name, 0, 0), 0);
}

static void end(struct world *w)
{
	(void)close(w->group.dirfd);
	scratch_remove(w->dir);
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	struct world *w = userdata;

	ck_assert_ptr_nonnull(strstr(p->path, w->dir));
	w->problems++;
}

/* Deletes the roots with these options. */
static void delete (struct world *w, struct engine_options o)
{
	struct engine *e = NULL;

	o.problem = on_problem;
	o.userdata = w;
	ck_assert_int_eq(engine_new(&e, &o, w->group.dirfd), 0);
	ck_assert_int_eq(engine_add(e, &w->group), 0);
	ck_assert_int_eq(engine_run(e), 0);
	engine_result(e, &w->result);
	engine_free(e);
}

static bool ring_possible(void)
{
	struct engine_options o = { .fixed_backend = true, .backend = BACKEND_URING };
	struct engine *e = NULL;
	int fd = open("/tmp", O_PATH), r = engine_new(&e, &o, fd);

	(void)close(fd);
	engine_free(e);
	return r == 0;
}

static void each_backend(void (*test)(struct engine_options o))
{
	for (unsigned lanes = 0; lanes <= 4; lanes += 2) {
		test((struct engine_options){ .fixed_backend = true, .lanes = lanes });
		test((struct engine_options){
			.fixed_backend = true, .lanes = lanes, .weigh = true });
		if (ring_possible())
			test((struct engine_options){
				.fixed_backend = true, .lanes = lanes, .backend = BACKEND_URING });
	}
}

static void plain_tree(struct engine_options o)
{
	struct world w;

	begin(&w, "t/ t/a t/b/ t/b/c t/b/d/ t/l>a keep file");
	root(&w, "t");
	root(&w, "file");
	root(&w, "missing");
	delete (&w, o);
	ck_assert_uint_eq(tree_count(w.dir), 1);
	ck_assert_uint_eq(w.result.stats.entries, 7);
	ck_assert_uint_eq(w.result.stats.dirs, 3);
	ck_assert_uint_eq(w.result.stats.errors, 0);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_MISSING], 1);
	if (o.weigh)
		ck_assert_uint_gt(w.result.stats.bytes, 0);
	end(&w);
}

START_TEST(a_plain_tree_goes)
{
	each_backend(plain_tree);
}
END_TEST

static void wide_tree(struct engine_options o)
{
	struct world w;
	char name[64];

	begin(&w, "t/");
	for (int i = 0; i < 40; i++) {
		for (int k = -1; k < 60; k++) {
			(void)snprintf(name, sizeof(name), k < 0 ? "t/%d/" : "t/%d/%d", i, k);
			tree_make(w.dir, name);
		}
	}
	root(&w, "t");
	delete (&w, o);
	ck_assert_uint_eq(tree_count(w.dir), 0);
	ck_assert_uint_eq(w.result.stats.entries, 1 + 40 * 61);
	ck_assert_uint_eq(w.result.stats.relists, 0);
	/* No second call for an entry: what was unlinked is what was called for. */
	ck_assert_uint_eq(w.result.stats.unlink_calls, 1 + 40 * 61 + 1);
	end(&w);
}

START_TEST(a_wide_tree_goes_with_one_call_for_each_entry)
{
	each_backend(wide_tree);
}
END_TEST

static void dry_run(struct engine_options o)
{
	struct world w;

	o.dry = true;
	begin(&w, "t/ t/a t/b/ t/b/c");
	root(&w, "t");
	delete (&w, o);
	ck_assert_uint_eq(tree_count(w.dir), 4);
	ck_assert_uint_eq(w.result.stats.entries, 4);
	end(&w);
}

START_TEST(a_dry_run_changes_nothing)
{
	each_backend(dry_run);
}
END_TEST

static void empty_directories(struct engine_options o)
{
	struct world w;

	o.rmdir = true;
	begin(&w, "e/ filled/ filled/x outer/ outer/inner/ file z/");
	root(&w, "e");
	root(&w, "filled");
	root(&w, "outer");
	root(&w, "file");
	root(&w, "missing");
	root(&w, "z");
	delete (&w, o);
	ck_assert_uint_eq(tree_count(w.dir), 5);
	ck_assert_uint_eq(w.result.stats.entries, 2);
	ck_assert_uint_eq(w.result.stats.errors, 2);
	ck_assert_int_eq(w.result.stats.first_error, -ENOTEMPTY);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_CHANGED], 1);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_MISSING], 1);
	ck_assert_uint_eq(w.result.stats.getdents_calls, 0);
	ck_assert_uint_eq(w.problems, 3);
	end(&w);
}

START_TEST(of_directories_only_the_empty_ones_go)
{
	each_backend(empty_directories);
}
END_TEST

START_TEST(a_replaced_root_is_left_alone)
{
	struct identity pins[2];
	struct world w;

	begin(&w, "d/ d/x f other");
	root(&w, "d");
	root(&w, "f");
	ck_assert_int_eq(fd_identity(w.group.dirfd, "d", &pins[0]), 0);
	ck_assert_int_eq(fd_identity(w.group.dirfd, "f", &pins[1]), 0);
	w.group.pins = pins;
	w.group.names.v[0].type = 4; /* DT_DIR */
	w.group.names.v[1].type = 8; /* DT_REG */
	ck_assert_int_eq(renameat(w.group.dirfd, "d", w.group.dirfd, "elsewhere"), 0);
	tree_make(w.dir, "d/ d/precious");
	ck_assert_int_eq(renameat(w.group.dirfd, "other", w.group.dirfd, "f"), 0);
	delete (&w, (struct engine_options){ .fixed_backend = true });
	ck_assert_uint_eq(tree_count(w.dir), 5);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_CHANGED], 2);
	ck_assert_uint_eq(w.problems, 2);
	end(&w);
}
END_TEST

START_TEST(a_replaced_directory_of_a_list_is_left_alone)
{
	struct world w;

	begin(&w, "d/ d/x");
	(void)close(w.group.dirfd);
	w.group.dirfd = -1;
	(void)strcat(w.dir, "/d");
	ck_assert_int_eq(fd_identity(AT_FDCWD, w.dir, &w.group.id), 0);
	w.group.id.ino++;
	root(&w, "x");
	w.group.dirfd = -1;
	{
		struct engine_options o = { .fixed_backend = true,
					    .problem = on_problem,
					    .userdata = &w };
		struct engine *e = NULL;
		int fd = open(w.dir, O_PATH);

		ck_assert_int_eq(engine_new(&e, &o, fd), 0);
		ck_assert_int_eq(engine_add(e, &w.group), 0);
		ck_assert_int_eq(engine_run(e), 0);
		engine_result(e, &w.result);
		engine_free(e);
		(void)close(fd);
	}
	ck_assert_uint_eq(tree_count(w.dir), 1);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_CHANGED], 1);
	*strrchr(w.dir, '/') = '\0';
	scratch_remove(w.dir);
}
END_TEST

static void too_late(struct engine_options o)
{
	struct engine *e = NULL;
	struct world w;

	begin(&w, "t/ t/a t/b/ t/b/c");
	root(&w, "t");
	ck_assert_int_eq(engine_new(&e, &o, w.group.dirfd), 0);
	ck_assert_int_eq(engine_add(e, &w.group), 0);
	engine_until(e, boot_usec());
	ck_assert(!engine_cancelled(e));
	ck_assert_int_eq(engine_run(e), 0);
	ck_assert(engine_cancelled(e));
	engine_free(e);
	ck_assert_uint_eq(tree_count(w.dir), 4);
	/* And all, if it is in time. */
	root(&w, "t");
	ck_assert_int_eq(engine_new(&e, &o, w.group.dirfd), 0);
	ck_assert_int_eq(engine_add(e, &w.group), 0);
	engine_until(e, 1);
	engine_until(e, boot_usec() + 3600 * USEC_PER_SEC);
	ck_assert_int_eq(engine_run(e), 0);
	ck_assert(!engine_cancelled(e));
	engine_free(e);
	ck_assert_uint_eq(tree_count(w.dir), 0);
	end(&w);
}

START_TEST(an_engine_that_is_too_late_deletes_nothing_more)
{
	each_backend(too_late);
}
END_TEST

START_TEST(a_cancelled_engine_deletes_nothing_more)
{
	struct engine_options o = { .fixed_backend = true };
	struct engine *e = NULL;
	struct world w;

	begin(&w, "t/ t/a t/b/ t/b/c");
	root(&w, "t");
	ck_assert_int_eq(engine_new(&e, &o, w.group.dirfd), 0);
	ck_assert_int_eq(engine_add(e, &w.group), 0);
	engine_cancel(e);
	ck_assert_int_eq(engine_run(e), 0);
	engine_free(e);
	ck_assert_uint_eq(tree_count(w.dir), 4);
	end(&w);
}
END_TEST

START_TEST(an_engine_that_never_ran_frees_everything)
{
	struct engine_options o = { .fixed_backend = true };
	struct engine *e = NULL;
	struct world w;

	begin(&w, "t/ t/a");
	root(&w, "t");
	ck_assert_int_eq(engine_new(&e, &o, w.group.dirfd), 0);
	ck_assert_int_eq(engine_add(e, &w.group), 0);
	ck_assert_ptr_null(engine_free(e));
	ck_assert_uint_eq(tree_count(w.dir), 2);
	end(&w);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_plain_tree_goes,
				 a_wide_tree_goes_with_one_call_for_each_entry,
				 a_dry_run_changes_nothing,
				 of_directories_only_the_empty_ones_go,
				 a_replaced_root_is_left_alone,
				 a_replaced_directory_of_a_list_is_left_alone,
				 an_engine_that_is_too_late_deletes_nothing_more,
				 a_cancelled_engine_deletes_nothing_more,
				 an_engine_that_never_ran_frees_everything };

	return run_case("engine", tests, sizeof(tests) / sizeof(tests[0]));
}
