/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an engine gives away to other hosts: it leaves that alone, and what it lies in; another
 * engine does it; and a last run of the same names takes what is left. Canaries beside it all. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "support.h"
#include "base/macros.h"

#define UNITS_MOST 64

struct unit {
	char path[PATH_MAX];
	struct identity id;
	struct name_slice slice;
	char names[ENGINE_UNIT_NAMES][32];
	struct identity ids[ENGINE_UNIT_NAMES];
	size_t n;
};

struct world {
	char dir[PATH_MAX];
	struct engine *engine;
	struct engine_progress result;
	unsigned problems, offered, taken_most;
	useconds_t away_usec;
	bool server;
	unsigned given_at;       /* the first, in slices of work */
	_Atomic unsigned slices; /* of work: so many were begun, on any lane */
	unsigned demand_from;    /* there is demand when so many were begun, */
	unsigned demand;         /* for so many units */
	struct unit units[UNITS_MOST];
	size_t n_units;
	pthread_mutex_t lock;
};

static struct world w;

static void begin(const char *tree)
{
	memset(&w, 0, sizeof(w));
	w.taken_most = UNITS_MOST;
	w.away_usec = 1000;
	w.demand = 1;
	pthread_mutex_init(&w.lock, NULL);
	scratch_make(w.dir, sizeof(w.dir));
	tree_make(w.dir, "canary/ canary/x canary/y/ canary/y/z l>canary");
	tree_make(w.dir, tree);
}

static void end(void)
{
	ck_assert_uint_eq(tree_count(w.dir), 5);
	scratch_remove(w.dir);
}

/* n of them in the directory, called by their numbers. */
static void files(const char *directory, unsigned n)
{
	char name[128];

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%s%u", directory, i);
		tree_make(w.dir, name);
	}
}

/* Each is called prefix and a number. */
static void directories(const char *prefix, unsigned n, unsigned files_each)
{
	char name[128];

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%s%u/", prefix, i);
		tree_make(w.dir, name);
		files(name, files_each);
	}
}

static size_t count(const char *name)
{
	char path[PATH_MAX + 128];

	(void)snprintf(path, sizeof(path), "%s/%s", w.dir, name);
	return access(path, F_OK) < 0 ? 0 : 1 + tree_count(path);
}

/* A filesystem behind a server, a millisecond away unless another time is said, as far as an engine
 * sees it. */
static bool pace_begin(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	(void)userdata;
	(void)usleep(w.away_usec);
	if (++w.slices == w.demand_from)
		engine_demand(w.engine, w.demand);
	*ret = (struct pace_budget){ .entries = 1, .bytes = UINT64_MAX };
	return !*cancelled;
}

static bool pace_spent(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	(void)userdata;
	(void)entries;
	(void)bytes;
	(void)cost_usec;
	return false;
}

static void pace_synced(void *userdata, uint64_t cost_usec)
{
	(void)userdata;
	(void)cost_usec;
}

static uint64_t pace_step(void *userdata)
{
	(void)userdata;
	return UINT64_MAX;
}

static const struct pace slow = { pace_begin, pace_spent, pace_synced, pace_step, NULL, NULL };

static void on_problem(const struct engine_problem *p, void *userdata)
{
	(void)p;
	(void)userdata;
	w.problems++;
}

static bool on_give(const struct engine_unit *u, void *userdata)
{
	struct unit *to;

	(void)userdata;
	pthread_mutex_lock(&w.lock);
	w.offered++;
	if (w.n_units == w.taken_most) {
		pthread_mutex_unlock(&w.lock);
		return false;
	}
	w.given_at = w.n_units == 0 ? w.slices : w.given_at;
	to = &w.units[w.n_units++];
	ck_assert(u->n_names <= ENGINE_UNIT_NAMES && (u->n_names > 0) == (u->slice.slices == 0));
	(void)snprintf(to->path, sizeof(to->path), "%s", u->path);
	to->id = u->id;
	to->slice = u->slice;
	to->n = u->n_names;
	for (size_t i = 0; i < to->n; i++) {
		ck_assert_uint_lt(strlen(u->names[i].name), sizeof(to->names[i]));
		memcpy(to->names[i], u->names[i].name, strlen(u->names[i].name) + 1);
		to->ids[i] = u->names[i].id;
	}
	pthread_mutex_unlock(&w.lock);
	return true;
}

/* Runs an engine on the group: with this demand from the beginning, and at this pace. */
static void run(struct root_group *g, unsigned lanes, unsigned demand, const struct pace *pace)
{
	struct engine_options o = {
		.fixed_backend = true, .lanes = lanes, .problem = on_problem, .give = on_give
	};

	ck_assert_int_eq(engine_new(&w.engine, &o, g->dirfd), 0);
	/* What the filesystem is does not make it slow: the pace does. */
	if (w.server)
		((struct fs_profile *)engine_profile(w.engine))->server = true;
	engine_pace(w.engine, pace);
	engine_demand(w.engine, demand);
	ck_assert_int_eq(engine_add(w.engine, g), 0);
	ck_assert_int_eq(engine_run(w.engine), 0);
	engine_result(w.engine, &w.result);
	w.engine = engine_free(w.engine);
}

/* As the host whose job it is. */
static void run_job(unsigned lanes, unsigned demand, const struct pace *pace)
{
	struct root_group g = { .dir = w.dir, .dirfd = open(w.dir, O_PATH), .accepted = true };

	ck_assert_int_eq(dirlist_add(&g.names, "t", 0, DT_DIR), 0);
	run(&g, lanes, demand, pace);
	dirlist_done(&g.names);
	(void)close(g.dirfd);
}

/* As another host. */
static void run_unit(const struct unit *u, unsigned lanes, unsigned demand, const struct pace *pace)
{
	char path[2 * PATH_MAX];
	int within = open(w.dir, O_PATH);
	struct root_group g = { .dir = path,
				.accepted = true,
				.within = u->path,
				.within_fd = within,
				.slice = u->slice };
	struct identity id;

	(void)snprintf(path, sizeof(path), "%s/%s", w.dir, u->path);
	(void)snprintf(g.within_name, sizeof(g.within_name), "t");
	ck_assert_int_eq(strncmp(u->path, "t", 1), 0);
	g.dirfd = open(path, O_PATH | O_DIRECTORY);
	ck_assert_int_ge(g.dirfd, 0);
	ck_assert_int_eq(fd_identity(g.dirfd, "", &id), 0);
	ck_assert(identity_equal(&id, &u->id));
	g.pins = calloc(u->n + 1, sizeof(*g.pins));
	memcpy(g.pins, u->ids, u->n * sizeof(*g.pins));
	for (size_t i = 0; i < u->n; i++)
		ck_assert_int_eq(dirlist_add(&g.names, u->names[i], 0, DT_DIR), 0);
	run(&g, lanes, demand, pace);
	dirlist_done(&g.names);
	free(g.pins);
	(void)close(g.dirfd);
	(void)close(within);
}

/* All went well, as far as this host is concerned. */
static void nothing_wrong(void)
{
	ck_assert_uint_eq(w.problems, 0);
	ck_assert_uint_eq(w.result.stats.errors, 0);
	ck_assert_uint_eq(stats_skipped(&w.result.stats), 0);
	ck_assert_uint_eq(w.result.stats.skipped[SKIP_KEPT], 0);
}

/* All units, those which come of them included, and the last run. */
static void finish(unsigned demand)
{
	for (size_t i = 0; i < w.n_units; i++) {
		struct unit u = w.units[i];

		run_unit(&u, 2, i < 2 ? demand : 0, NULL);
		nothing_wrong();
	}
	run_job(2, 0, NULL);
	nothing_wrong();
	ck_assert_uint_eq(count("t"), 0);
	ck_assert_uint_eq(w.result.stats.given, 0);
}

static void given_and_done(unsigned lanes)
{
	char name[2 * PATH_MAX];

	begin("t/ t/deep/ t/deep/er/");
	directories("t/deep/er/", 40, 10);
	run_job(lanes, 4, &slow);
	nothing_wrong();
	ck_assert_uint_gt(w.n_units, 0);
	ck_assert_uint_le(w.n_units, 4);
	ck_assert_uint_eq(w.result.stats.given, w.n_units);
	/* What was given is as it was, and in it nothing else is left. */
	for (size_t i = 0; i < w.n_units; i++) {
		ck_assert_str_eq(w.units[i].path, "t/deep/er");
		for (size_t k = 0; k < w.units[i].n; k++) {
			(void)snprintf(name, sizeof(name), "t/deep/er/%s", w.units[i].names[k]);
			ck_assert_uint_eq(count(name), 11);
		}
	}
	ck_assert_uint_eq(count("t"), 443 - w.result.stats.entries);
	finish(0);
	end();
}

START_TEST(what_is_given_stays)
{
	given_and_done(1);
	given_and_done(3);
}
END_TEST

START_TEST(without_demand_nothing_is_given)
{
	begin("t/ t/deep/ t/deep/er/");
	directories("t/deep/er/", 20, 10);
	run_job(1, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.offered, 0);
	ck_assert_uint_eq(count("t"), 0);
	end();
}
END_TEST

/* Each takes a lane so long that one alone would leave the others of its host without work. */
START_TEST(of_slow_directories_each_lane_has_several)
{
	begin("t/");
	directories("t/", 24, 30);
	w.away_usec = 10000;
	w.demand_from = 45; /* one has ended by then */
	run_job(1, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 1);
	ck_assert_uint_eq(w.units[0].n, 4);
	finish(0);
	end();
}
END_TEST

/* However long each of them takes: what a host has too much of it gives away again. */
START_TEST(behind_a_server_a_host_gets_its_whole_share)
{
	begin("t/");
	directories("t/", 90, 20);
	w.server = true;
	w.away_usec = 3000;  /* at least: each takes longer than 50 ms then */
	w.demand_from = 100; /* each lane has ended one by then */
	run_job(3, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 1);
	/* More than three lanes do in 250 ms, and not more than half of what there is. */
	ck_assert_uint_gt(w.units[0].n, 32);
	ck_assert_uint_le(w.units[0].n, 45);
	finish(0);
	end();
}
END_TEST

/* Lanes have what they want first: the walker looks for idle ones only between its pieces,
 * and finds some each time. */
START_TEST(what_idle_lanes_leave_is_given)
{
	begin("t/");
	directories("t/d", 200, 0);
	files("t/x", 160);
	w.server = true;
	w.demand_from = 50;
	run_job(4, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 1);
	ck_assert_uint_ge(w.units[0].n, 50);
	ck_assert_uint_le(w.units[0].n, 100);
	/* At the first look after there was demand: 16 names, and what the others do meanwhile. */
	ck_assert_uint_le(w.given_at, 150);
	finish(0);
	end();
}
END_TEST

/* A directory beneath t is one of the unit's. */
static void unit_add(struct unit *u, const char *name, unsigned number)
{
	char path[PATH_MAX + 64];

	(void)snprintf(u->names[u->n], sizeof(u->names[u->n]), "%s%u", name, number);
	(void)snprintf(path, sizeof(path), "%s/t/%s", w.dir, u->names[u->n]);
	ck_assert_int_eq(fd_identity(AT_FDCWD, path, &u->ids[u->n]), 0);
	u->n++;
}

/* One with a large directory, in which a walker finds idle lanes between its pieces, and small
 * ones. */
static void unit_of_small_directories_run(void)
{
	static struct unit u;
	char path[PATH_MAX + 8];

	begin("t/");
	directories("t/large", 1, 160);
	directories("t/d", 200, 0);
	u = (struct unit){ .path = "t" };
	(void)snprintf(path, sizeof(path), "%s/t", w.dir);
	ck_assert_int_eq(fd_identity(AT_FDCWD, path, &u.id), 0);
	unit_add(&u, "large", 0);
	for (unsigned i = 0; i < 200; i++)
		unit_add(&u, "d", i);
	w.server = true;
	w.demand_from = 50;
	run_unit(&u, 4, 0, &slow);
	nothing_wrong();
}

/* Its giver may be about to give more. Without that it would be divided some 10 slices after there
 * is demand. A lane that the machine lets wait has work for longer: then it is divided sooner, too.
 */
START_TEST(a_unit_is_divided_when_all_lanes_have_work)
{
	bool late = false;

	for (int round = 0; round < 5 && !late; round++) {
		unit_of_small_directories_run();
		late = w.n_units == 0 || w.given_at > 150;
		finish(0);
		end();
	}
	ck_assert(late);
}
END_TEST

/* Behind a server, where that takes long. */
START_TEST(in_the_midst_of_many_files_directories_are_given)
{
	begin("t/");
	directories("t/d", 20, 10);
	files("t/x", 400);
	w.server = true;
	w.demand_from = 50;
	run_job(1, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 1);
	ck_assert_uint_ge(w.given_at, 50);
	ck_assert_uint_le(w.given_at, 100);
	finish(0);
	end();
}
END_TEST

START_TEST(what_is_not_taken_is_done_here)
{
	begin("t/");
	directories("t/", 40, 10);
	w.taken_most = 0;
	run_job(1, 4, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.offered, 1);
	ck_assert_uint_eq(w.result.stats.given, 0);
	ck_assert_uint_eq(count("t"), 0);
	end();
}
END_TEST

START_TEST(a_dry_run_gives_nothing)
{
	struct engine_options o = { .fixed_backend = true, .dry = true, .give = on_give };
	struct root_group g = { .accepted = true };

	begin("t/");
	directories("t/", 3, 1200);
	g.dir = w.dir;
	g.dirfd = open(w.dir, O_PATH);
	ck_assert_int_eq(dirlist_add(&g.names, "t", 0, DT_DIR), 0);
	ck_assert_int_eq(engine_new(&w.engine, &o, g.dirfd), 0);
	engine_demand(w.engine, 9);
	ck_assert_int_eq(engine_add(w.engine, &g), 0);
	ck_assert_int_eq(engine_run(w.engine), 0);
	w.engine = engine_free(w.engine);
	ck_assert_uint_eq(w.offered, 0);
	ck_assert_uint_eq(count("t"), 1 + 3 * 1201);
	(void)close(g.dirfd);
	run_job(1, 0, NULL);
	end();
}
END_TEST

START_TEST(a_flat_directory_is_given_in_slices)
{
	begin("t/ t/a/");
	directories("t/a/flat", 1, 3000);
	tree_make(w.dir, "t/a/flat0/sub/ t/a/flat0/sub/x");
	run_job(1, 2, NULL);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 2);
	ck_assert_uint_eq(w.result.stats.given, 2);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_str_eq(w.units[i].path, "t/a/flat0");
		ck_assert_uint_eq(w.units[i].slice.slice, i + 1);
		ck_assert_uint_eq(w.units[i].slice.slices, 3);
	}
	ck_assert_uint_gt(w.result.stats.entries, 500);
	ck_assert_uint_lt(w.result.stats.entries, 1500);
	ck_assert_uint_eq(count("t"), 3005 - w.result.stats.entries);
	finish(0);
	end();
}
END_TEST

/* Subdirectories stay, whichever host comes first. */
START_TEST(what_is_left_of_a_flat_directory_is_given)
{
	uint64_t own;

	begin("t/ t/a/");
	w.server = true;
	w.away_usec = 1;
	w.demand_from = 300;
	directories("t/a/flat", 1, 1500);
	tree_make(w.dir, "t/a/flat0/sub/ t/a/flat0/sub/x t/a/flat0/more/");
	run_job(1, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 1);
	ck_assert_str_eq(w.units[0].path, "t/a/flat0");
	ck_assert_uint_eq(w.units[0].slice.slices, 2);
	own = w.result.stats.entries;
	ck_assert_uint_gt(own, 700);
	ck_assert_uint_lt(own, 1100);
	/* They were the giver's. */
	ck_assert_uint_eq(count("t/a/flat0/sub") + count("t/a/flat0/more"), 0);
	finish(0);
	end();
}
END_TEST

/* Also where a walker has been given the directory by another lane. */
START_TEST(each_lane_gives_slices)
{
	char at[32];

	begin("t/ t/a/");
	w.server = true;
	w.away_usec = 1;
	w.demand_from = 60;
	w.demand = 4;
	/* Some of their subdirectories are read when slices have been given. */
	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(at, sizeof(at), "t/a/%u/", i);
		tree_make(w.dir, at);
		directories(strcat(at, "first"), 20, 0);
		at[6] = '\0';
		files(at, 3000);
		directories(strcat(at, "last"), 20, 0);
	}
	run_job(4, 0, &slow);
	nothing_wrong();
	ck_assert_uint_eq(w.n_units, 4);
	for (size_t i = 0; i < w.n_units; i++)
		ck_assert_uint_gt(w.units[i].slice.slices, 0);
	finish(0);
	end();
}
END_TEST

START_TEST(a_slice_has_no_subdirectories)
{
	struct unit u;

	begin("t/ t/a/");
	directories("t/a/flat", 1, 3000);
	run_job(1, 2, NULL);
	ck_assert_uint_eq(w.n_units, 2);
	tree_make(w.dir, "t/a/flat0/b0/ t/a/flat0/b1/ t/a/flat0/b2/ t/a/flat0/b3/ t/a/flat0/b3/x");
	for (size_t i = 0; i < 2; i++) {
		u = w.units[i];
		run_unit(&u, 2, 0, NULL);
		nothing_wrong();
		ck_assert_uint_eq(count("t/a/flat0/b0") + count("t/a/flat0/b1") +
					  count("t/a/flat0/b2") + count("t/a/flat0/b3"),
				  5);
	}
	ck_assert_uint_eq(count("t/a/flat0"), 1 + 5);
	run_job(2, 0, NULL);
	ck_assert_uint_eq(count("t"), 0);
	end();
}
END_TEST

START_TEST(a_slice_is_cut_again_by_who_has_it)
{
	begin("t/ t/a/");
	directories("t/a/flat", 1, 6000);
	run_job(1, 1, NULL);
	ck_assert_uint_eq(w.n_units, 1);
	finish(3);
	ck_assert_uint_gt(w.n_units, 1);
	for (size_t i = 1; i < w.n_units; i++) {
		ck_assert_str_eq(w.units[i].path, "t/a/flat0");
		ck_assert_uint_eq(w.units[i].slice.slice % 2, 1);
	}
	end();
}
END_TEST

START_TEST(a_unit_that_was_moved_out_is_left_alone)
{
	struct unit u = { .path = "t/a" };
	char from[PATH_MAX + 8], to[PATH_MAX + 8];

	for (unsigned slices = 0; slices <= 2; slices += 2) {
		struct root_group g = { .accepted = true, .dir = from, .within = u.path };

		begin("t/ t/a/ t/a/b/ t/a/b/x t/a/file t/a/other");
		g.within_fd = open(w.dir, O_PATH);
		(void)snprintf(from, sizeof(from), "%s/t/a", w.dir);
		(void)snprintf(to, sizeof(to), "%s/kept", w.dir);
		(void)snprintf(g.within_name, sizeof(g.within_name), "t");
		g.slice.slices = (uint16_t)slices;
		g.dirfd = open(from, O_PATH);
		if (slices == 0)
			ck_assert_int_eq(dirlist_add(&g.names, "b", 0, DT_DIR), 0);
		ck_assert_int_eq(rename(from, to), 0);
		run(&g, 1, 0, NULL);
		ck_assert_uint_eq(w.result.stats.entries, 0);
		ck_assert_uint_gt(w.result.stats.skipped[SKIP_MOVED], 0);
		ck_assert_uint_eq(count("kept"), 5);
		(void)close(g.dirfd);
		(void)close(g.within_fd);
		scratch_remove(w.dir);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_is_given_stays,
				 without_demand_nothing_is_given,
				 of_slow_directories_each_lane_has_several,
				 behind_a_server_a_host_gets_its_whole_share,
				 what_idle_lanes_leave_is_given,
				 a_unit_is_divided_when_all_lanes_have_work,
				 in_the_midst_of_many_files_directories_are_given,
				 what_is_not_taken_is_done_here,
				 a_dry_run_gives_nothing,
				 a_flat_directory_is_given_in_slices,
				 what_is_left_of_a_flat_directory_is_given,
				 each_lane_gives_slices,
				 a_slice_has_no_subdirectories,
				 a_slice_is_cut_again_by_who_has_it,
				 a_unit_that_was_moved_out_is_left_alone };

	return run_case("give", tests, ELEMENTSOF(tests));
}
