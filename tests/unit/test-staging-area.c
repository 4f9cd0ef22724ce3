/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a staging directory (src/daemon/submitters/staging-area.c): each that waits for it is
 * answered once, by what becomes of its own request, and it is open once. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/submitters/staging-area.h"
#include "job-world.h"

#define WAITERS 4

static struct job_world w;

struct waiter {
	unsigned answers;
	int r, fd;
};

static struct waiter waiters[WAITERS];
static struct staging_area *area;

static void on_opened(int r, int fd, void *userdata)
{
	struct waiter *waiter = userdata;

	waiter->answers++;
	waiter->r = r;
	waiter->fd = fd;
}

static bool all_answered(void)
{
	for (size_t i = 0; i < WAITERS; i++)
		if (waiters[i].answers == 0)
			return false;
	return true;
}

/* The first would not have it made. */
static void open_for_all(void)
{
	memset(waiters, 0, sizeof(waiters));
	for (size_t i = 0; i < WAITERS; i++)
		staging_area_open(area, /* make= */ i > 0, on_opened, &waiters[i]);
}

static void expect(size_t i, int r)
{
	ck_assert_uint_eq(waiters[i].answers, 1);
	ck_assert_int_eq(waiters[i].r, r);
	if (r == 0)
		ck_assert_int_eq(waiters[i].fd, area->staging_fd);
}

static void area_open(void)
{
	struct credentials who = { .uid = 65534, .gid = 65534 };
	struct submitter *submitter;

	ck_assert_int_eq(submitter_get(&submitter, &w.submitters, &who), 0);
	ck_assert_int_eq(staging_area_get(&area, &w.submitters, submitter, w.mount, "", 0), 0);
	submitter_unref(submitter);
}

/* How many descriptors of this process lead beneath the mount. */
static unsigned count_open(void)
{
	char path[64], to[PATH_MAX];
	unsigned found = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n < 0)
			continue;
		to[n] = '\0';
		found += strncmp(to, w.mount, strlen(w.mount)) == 0;
	}
	return found;
}

START_TEST(test_staging_area_is_open_once_for_all)
{
	area_open();
	open_for_all();
	ck_assert_uint_eq(area->users, WAITERS);
	job_world_until(&w, all_answered());
	expect(0, -ENOENT);
	for (size_t i = 1; i < WAITERS; i++)
		expect(i, 0);
	ck_assert_uint_eq(area->users, 0);
	ck_assert_uint_eq(count_open(), 1);
	open_for_all();
	job_world_until(&w, all_answered());
	for (size_t i = 0; i < WAITERS; i++)
		expect(i, 0);
	staging_area_unref(area);
}
END_TEST

/* After umount -l and another mount; what is in use by others is not closed beneath them. */
START_TEST(test_staging_area_opens_what_is_mounted_now)
{
	area_open();
	open_for_all();
	job_world_until(&w, all_answered());
	job_world_mount_again(&w);
	ck_assert(!context_is_mounted(&w.context, area->staging_fd));
	staging_area_use(area);
	staging_area_use(area);
	open_for_all();
	for (size_t i = 0; i < WAITERS; i++)
		expect(i, -EAGAIN);
	staging_area_release(area);
	memset(waiters, 0, sizeof(waiters));
	staging_area_open(area, /* make= */ true, on_opened, &waiters[0]);
	job_world_until(&w, waiters[0].answers > 0);
	expect(0, 0);
	ck_assert(context_is_mounted(&w.context, area->staging_fd));
	ck_assert_uint_eq(count_open(), 1);
	staging_area_release(area);
	staging_area_unref(area);
}
END_TEST

START_TEST(test_staging_area_answers_all_when_its_worker_dies)
{
	struct worker *root;

	area_open();
	ck_assert_int_eq(staging_area_intake(area, w.submitters.root, &root), 0);
	ck_assert_uint_gt(job_world_signal(&w, SIGSTOP), 0);
	open_for_all();
	ck_assert(!all_answered());
	(void)job_world_signal(&w, SIGKILL);
	job_world_until(&w, all_answered());
	for (size_t i = 0; i < WAITERS; i++)
		expect(i, -EPIPE);
	ck_assert_uint_eq(area->users, 0);
	ck_assert_uint_eq(count_open(), 0);
	open_for_all(); /* another worker */
	job_world_until(&w, all_answered());
	for (size_t i = 1; i < WAITERS; i++)
		expect(i, 0);
	ck_assert_uint_eq(count_open(), 1);
	staging_area_unref(area);
}
END_TEST

START_TEST(test_staging_area_is_another_daemons)
{
	ck_assert_int_eq(mkdir(job_world_path(&w, ".reclaim"), 0711), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, ".reclaim/lock"), 0700), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, ".reclaim/lock/another"), 0700), 0);
	area_open();
	open_for_all();
	job_world_until(&w, all_answered());
	expect(0, -ENOENT);
	for (size_t i = 1; i < WAITERS; i++)
		expect(i, -EBUSY);
	ck_assert_uint_eq(w.submitters.n_busy_dirs, 1); /* logged once */
	ck_assert_uint_eq(area->users, 0);
	ck_assert_uint_eq(count_open(), 0);
	ck_assert(!job_world_has(&w, ".reclaim/65534"));
	staging_area_unref(area);
}
END_TEST

static void open_one(bool make, int r)
{
	memset(waiters, 0, sizeof(waiters));
	staging_area_open(area, make, on_opened, &waiters[0]);
	job_world_until(&w, waiters[0].answers > 0);
	expect(0, r);
}

/* Whichever way it is used, and whoever has removed it. */
START_TEST(test_attack_57_lock_is_taken_again)
{
	char lock[512];

	area_open();
	open_for_all();
	job_world_until(&w, all_answered());
	for (int make = 0; make < 2; make++) {
		(void)snprintf(lock, sizeof(lock), ".reclaim/lock/%s", w.context.holder);
		ck_assert(job_world_has(&w, lock));
		ck_assert_int_eq(rmdir(job_world_path(&w, lock)), 0);
		if (make)
			ck_assert_int_eq(rmdir(job_world_path(&w, ".reclaim/lock")), 0);
		open_one(make, 0);
		ck_assert(job_world_has(&w, lock));
	}
	/* Another daemon was quicker: what is there goes on, and nothing more is put there. */
	ck_assert_int_eq(rmdir(job_world_path(&w, lock)), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, ".reclaim/lock/another"), 0700), 0);
	open_one(/* make= */ true, -EBUSY);
	open_one(/* make= */ false, 0);
	ck_assert(job_world_has(&w, ".reclaim/lock/another"));
	staging_area_unref(area);
}
END_TEST

static void area_rename(const char *to)
{
	ck_assert_int_eq(rename(job_world_path(&w, ".reclaim"), job_world_path(&w, to)), 0);
	open_one(/* make= */ false, -ENOENT);
	ck_assert(!job_world_has(&w, ".reclaim"));
	open_one(/* make= */ true, 0);
	ck_assert(job_world_has(&w, ".reclaim/65534"));
}

START_TEST(test_attack_57_directory_is_what_has_its_name)
{
	struct worker *first, *now;

	area_open();
	open_for_all();
	job_world_until(&w, all_answered());
	area_rename("away");
	ck_assert_uint_eq(count_open(), 1);
	/* A worker is fenced to the directory that was there when it began. */
	ck_assert_int_eq(staging_area_deleter(area, area->submitter, &first), 0);
	area_rename("away-too");
	ck_assert(area->stale);
	ck_assert_int_eq(staging_area_deleter(area, area->submitter, &now), 0);
	ck_assert_ptr_eq(area->deleter, now);
	ck_assert(!area->stale);
	staging_area_unref(area);
}
END_TEST

static void on_flushed(int r, void *userdata)
{
	struct worker **another = userdata;

	ck_assert_int_eq(r, -ECANCELED);
	ck_assert_int_eq(staging_area_deleter(area, area->submitter, another), 0);
}

/* What waited for one that is replaced goes on in that call, and asks for one, too. */
START_TEST(test_staging_area_replaces_a_deleter_once)
{
	const char *name = "none";
	struct worker *first, *another = NULL, *now;

	area_open();
	open_for_all();
	job_world_until(&w, all_answered());
	ck_assert_int_eq(staging_area_deleter(area, area->submitter, &first), 0);
	ck_assert_int_eq(worker_flush(first, area->staging_fd, &name, 1, on_flushed, &another), 0);
	staging_areas_renew(&w.submitters);
	ck_assert_int_eq(staging_area_deleter(area, area->submitter, &now), 0);
	ck_assert_ptr_eq(now, another);
	ck_assert(!worker_ended(now));
	ck_assert_ptr_eq(area->deleter, now);
	staging_area_unref(area);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_staging_area_is_open_once_for_all,
		test_staging_area_opens_what_is_mounted_now,
		test_staging_area_answers_all_when_its_worker_dies,
		test_staging_area_is_another_daemons,
		test_attack_57_lock_is_taken_again,
		test_attack_57_directory_is_what_has_its_name,
		test_staging_area_replaces_a_deleter_once,
	};

	return job_world_run("staging-area", &w, tests, ELEMENTSOF(tests));
}
