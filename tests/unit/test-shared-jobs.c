/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs of this host that other hosts help with (src/daemon/fleet/shared-jobs.c), and whatever the
 * database says of them: it can have a job wait while it can be reached, and change what is told of
 * the job's progress. The job ends nevertheless, all of it is deleted, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "daemon/jobs/sharing.h"
#include "daemon/workers/worker-handle-state.h"
#include "fleet-world.h"

#define NOBODY 65534

/* Each directory has as many files as it takes to give slices of it away. */
#define DIRS 16
#define FILES 1200
#define ENTRIES (1 + DIRS * (1 + FILES))

static struct job_world w;
static int gate_fd = -1, waits_fd = -1;

static const char *at(const char *name)
{
	return job_world_path(&w, name);
}

static void tree_of_nobody(void)
{
	char name[64];

	ck_assert_int_eq(setegid(NOBODY), 0);
	ck_assert_int_eq(seteuid(NOBODY), 0);
	tree_make(w.mount, "data/t/");
	for (int d = 0; d < DIRS; d++) {
		(void)snprintf(name, sizeof(name), "data/t/d%02d", d);
		ck_assert_int_eq(mkdir(at(name), 0700), 0);
		for (int f = 0; f < FILES; f++) {
			(void)snprintf(name, sizeof(name), "data/t/d%02d/%d", d, f);
			ck_assert_int_eq(mknod(at(name), S_IFREG | 0600, 0), 0);
		}
	}
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(setegid(0), 0);
}

/* That has not ended yet. */
static const struct job *world_job(uint64_t id)
{
	const struct job *j = job_world_job(&w, id);

	ck_assert_msg(j, "the job has ended: %s", w.message);
	return j;
}

/* The kernel asks here before a directory is opened, and whatever opens it waits for the answer. */
static void gate_close(const char *name)
{
	gate_fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
	ck_assert_msg(gate_fd >= 0, "fanotify: %s", strerror(errno));
	ck_assert_int_eq(
		fanotify_mark(gate_fd, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_ONDIR, AT_FDCWD, at(name)),
		0);
}

static void gate_open(void)
{
	fd_closep(&waits_fd);
	/* All that waits goes on. */
	fd_closep(&gate_fd);
}

static bool stands_at_gate(void)
{
	struct fanotify_event_metadata e;

	if (read(gate_fd, &e, sizeof(e)) != sizeof(e))
		return false;
	waits_fd = e.fd;
	return true;
}

/* What happens elsewhere tells the loop nothing. */
static void turn(void)
{
	ck_assert_int_ge(sd_event_run(w.context.event, 10 * USEC_PER_MSEC), 0);
}

/* Its worker has been told, and has read that. */
static bool may_give(uint64_t id)
{
	const struct job *j = world_job(id);
	const struct request *run = STAILQ_FIRST(&j->deletes->requests);
	int unread = 0;

	ck_assert_int_eq(ioctl(j->deletes->sock, SIOCOUTQ, &unread), 0);
	return run && run->demanded > 0 && unread == 0;
}

static bool is_marked(uint64_t id)
{
	char name[64];

	(void)snprintf(name, sizeof(name), ".reclaim/@a/marks/%u", (unsigned)id);
	return job_world_has(&w, name);
}

/* A job whose worker is in its midst, with other hosts that would help. */
static uint64_t stopped_job(uint64_t demand)
{
	uint64_t id;

	fleet_world_begin(&w);
	tree_of_nobody();
	gate_close("data/t/d00");
	id = job_world_submit(&w, "data/t", 0);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	while (!stands_at_gate())
		turn();
	ck_assert_ptr_nonnull(world_job(id)->deletes);
	if (demand > 0)
		ck_assert_int_eq(
			fleet_says(FLEET_DEMAND, &(struct wanted_message){ "shared", demand }), 0);
	return id;
}

static void gives_and_waits(uint64_t id)
{
	while (!may_give(id))
		turn();
	ck_assert(is_marked(id));
	gate_open();
	while (!run_waits_for_hosts(world_job(id)))
		turn();
}

/* One that has given something away, and waits for the hosts that have it. All that it has given
 * was answered, and is told as open. */
static uint64_t waiting_job(void)
{
	const struct heard *h;
	uint64_t id = stopped_job(3);
	uint64_t n = 0;

	gives_and_waits(id);
	while ((h = fleet_heard(FLEET_PUBLISH))) {
		ck_assert_uint_eq(h->is.publish_message.job, id);
		ck_assert_uint_eq(h->is.publish_message.uid, NOBODY);
		ck_assert_ptr_null(h->is.publish_message.owner);
		ck_assert_int_eq(fleet_says(FLEET_PUBLISHED,
					    &(struct published_message){
						    h->is.publish_message.serial, true }),
				 0);
		n++;
	}
	ck_assert_uint_ge(n, 1);
	ck_assert_uint_le(n, 3);
	ck_assert_int_eq(fleet_says(FLEET_JOB, &(struct job_message){ .job = id, .open = n }), 0);
	ck_assert(run_waits_for_hosts(world_job(id)));
	ck_assert(!job_world_has(&w, "data/t"));
	return id;
}

/* Its mark goes, too, as long as there is a fleet. */
static void job_is_done(uint64_t id, bool marked)
{
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_str_eq(w.message, "");
	while (!marked && is_marked(id))
		turn();
}

static void end(void)
{
	fleet_world_end();
}

static int say_job(uint64_t id, uint64_t open, uint64_t had, uint64_t entries, uint64_t bytes)
{
	return fleet_says(FLEET_JOB, &(struct job_message){ .job = id,
							    .open = open,
							    .claimed = had,
							    .entries = entries,
							    .bytes = bytes,
							    .others_claimed = had,
							    .others_units = entries,
							    .others_entries = entries,
							    .others_bytes = bytes });
}

/* ---- tests --------------------------------------------------------------------------------- */

START_TEST(test_shared_job_waits_and_ends)
{
	uint64_t id;

	id = waiting_job();
	ck_assert_int_eq(say_job(id, 0, 1, 100, 0), 0);
	ck_assert(run_waits_for_hosts(world_job(id)));
	ck_assert_int_eq(say_job(id, 0, 0, 200, 0), 0);
	job_is_done(id, /* marked= */ false);
	ck_assert_uint_eq(fleet_wait_heard(FLEET_FORGET)->is.job_ended.job, id);
	end();
}
END_TEST

/* Nothing of it has been done, whatever the database says. */
START_TEST(test_shared_job_believes_no_end)
{
	struct job_record r;
	uint64_t id;

	id = waiting_job();
	job_snapshot(world_job(id), &r);
	ck_assert_uint_lt(r.entries_done, ENTRIES);
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	job_is_done(id, /* marked= */ false);
	/* All of it was deleted here, counted by this host's own worker. */
	ck_assert_uint_ge(w.jobs.entries_freed, ENTRIES);
	end();
}
END_TEST

START_TEST(test_shared_job_bounds_counts)
{
	static const uint64_t counts[] = { 1, UINT64_MAX, 0, UINT64_MAX - 1, 5 };
	const struct job *j;
	uint64_t id, before;

	id = waiting_job();
	j = world_job(id);
	before = j->r.entries_done;
	for (size_t i = 0; i < ELEMENTSOF(counts); i++) {
		ck_assert_int_eq(say_job(id, counts[i], 1, counts[i], counts[i]), 0);
		/* Up, never down, and not over the end. */
		ck_assert_uint_ge(j->r.entries_done, before);
		ck_assert_uint_le(j->r.entries_done, UINT64_C(1) << 54);
		ck_assert_uint_le(j->r.bytes_freed, UINT64_C(1) << 54);
		ck_assert_uint_le(j->r.others_units, UINT64_C(1) << 54);
		before = j->r.entries_done;
	}
	/* What is told of errors there changes nothing: the last run finds them. */
	ck_assert_int_eq(
		fleet_says(FLEET_JOB,
			   &(struct job_message){ .job = id, .claimed = 1, .errors = UINT64_MAX }),
		0);
	ck_assert_int_eq(
		fleet_says(FLEET_PROBLEM, &(struct job_problem){ id, "../../etc", "x", -5 }), 0);
	ck_assert(run_waits_for_hosts(j));
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	job_is_done(id, /* marked= */ false);
	end();
}
END_TEST

START_TEST(test_shared_job_goes_on_without_the_database)
{
	uint64_t id;

	id = waiting_job();
	ck_assert_int_eq(fleet_says(FLEET_LOST, &(struct lost_message){ "gone" }), 0);
	job_is_done(id, /* marked= */ false);
	/* It is told when the database is there again. */
	ck_assert_ptr_null(fleet_heard(FLEET_FORGET));
	ck_assert_int_eq(fleet_says(FLEET_JOINED, NULL), 0);
	ck_assert_uint_eq(fleet_wait_heard(FLEET_FORGET)->is.job_ended.job, id);
	ck_assert_ptr_null(fleet_heard(FLEET_FORGET));
	end();
}
END_TEST

START_TEST(test_shared_job_goes_on_without_a_fleet)
{
	uint64_t id;

	id = waiting_job();
	fleet_world_leave();
	job_is_done(id, /* marked= */ true);
	end();
}
END_TEST

/* A word too early, too late, too often, or of another job. */
START_TEST(test_shared_job_hears_of_others)
{
	static const uint64_t numbers[] = { 0, 1, 2, 1000, UINT64_MAX };
	uint64_t id;

	id = stopped_job(0);
	for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
		ck_assert_int_eq(say_job(numbers[i], 0, 0, 1, 1), 0);
		ck_assert_int_eq(fleet_says(FLEET_PUBLISHED,
					    &(struct published_message){ numbers[i], true }),
				 0);
		ck_assert_int_eq(fleet_says(FLEET_PROBLEM,
					    &(struct job_problem){ numbers[i], "p", "w", -1 }),
				 0);
		ck_assert_int_eq(
			fleet_says(FLEET_REVOKED, &(struct revoked_message){ numbers[i], 1, true }),
			0);
	}
	/* It was not shared: what was said is of no job here. */
	ck_assert_uint_eq(world_job(id)->r.entries_done, 0);
	gate_open();
	job_is_done(id, /* marked= */ false);
	ck_assert_ptr_null(fleet_heard(FLEET_PUBLISH));
	/* When it has ended. */
	ck_assert_int_eq(say_job(id, 5, 5, 5, 5), 0);
	ck_assert_int_eq(fleet_says(FLEET_PUBLISHED, &(struct published_message){ id, true }), 0);
	end();
}
END_TEST

/* What the database has of a job that has ended, and could not be told of, goes. What has not ended
 * stays there, shared or not. */
START_TEST(test_job_that_was_left_there)
{
	static const uint64_t others[] = { 0, UINT64_MAX, UINT64_C(1) << 63 };
	unsigned n = 0;
	uint64_t id;

	id = stopped_job(0);
	ck_assert_int_eq(say_job(id, 1, 0, 0, 0), 0);
	for (size_t i = 0; i < ELEMENTSOF(others); i++)
		ck_assert_int_eq(say_job(others[i], 1, 0, 0, 0), 0);
	ck_assert_ptr_null(fleet_heard(FLEET_FORGET));
	ck_assert_int_eq(say_job(id + 1, 0, 0, 0, 0), 0);
	ck_assert_uint_eq(fleet_wait_heard(FLEET_FORGET)->is.job_ended.job, id + 1);
	gate_open();
	job_is_done(id, /* marked= */ false);
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	ck_assert_uint_eq(fleet_wait_heard(FLEET_FORGET)->is.job_ended.job, id);
	/* Any number of them has not as many answers. */
	for (uint64_t i = 0; i < 10000; i++)
		ck_assert_int_eq(say_job(1000 + i, 0, 0, 0, 0), 0);
	while (fleet_heard(FLEET_FORGET))
		n++;
	ck_assert_uint_lt(n, 1000);
	end();
}
END_TEST

START_TEST(test_shared_job_is_answered_too_often)
{
	uint64_t id;

	id = waiting_job();
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(
			fleet_says(FLEET_PUBLISHED, &(struct published_message){ id, i % 2 }), 0);
		ck_assert(run_waits_for_hosts(world_job(id)));
	}
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	ck_assert_int_eq(say_job(id, 7, 7, 0, 0), 0);
	job_is_done(id, /* marked= */ false);
	end();
}
END_TEST

/* What is left comes back when no host has any of it; what the database says then is of no job. */
START_TEST(test_shared_job_is_cancelled)
{
	size_t left;
	uint64_t id;

	id = waiting_job();
	job_world_control_begin(&w, CONTROL_CANCEL, id, NULL);
	ck_assert_uint_eq(fleet_wait_heard(FLEET_RECALL)->is.recall_message.job, id);
	ck_assert(!job_world_has(&w, "data/t"));
	ck_assert_int_eq(say_job(id, 0, 1, 0, 0), 0);
	ck_assert(!job_world_has(&w, "data/t"));
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	job_world_until(&w, w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_NONE);
	ck_assert(job_world_has(&w, "data/t"));
	left = tree_count(at("data/t"));
	ck_assert_uint_gt(left, 0);
	while (is_marked(id))
		turn();
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	ck_assert_int_eq(fleet_says(FLEET_PUBLISHED, &(struct published_message){ id, false }), 0);
	fleet_world_leave();
	ck_assert_uint_eq(tree_count(at("data/t")), left);
	end();
}
END_TEST

/* Its mark goes when that can be removed. */
START_TEST(test_shared_job_is_cancelled_while_it_is_not_mounted)
{
	uint64_t id;

	id = waiting_job();
	job_world_control_begin(&w, CONTROL_CANCEL, id, NULL);
	(void)fleet_wait_heard(FLEET_RECALL);
	ck_assert_int_eq(say_job(id, 0, 0, 0, 0), 0);
	/* Then its mark has been withdrawn. */
	job_world_until(&w, strstr(world_job(id)->r.message, "waits before its names go back"));
	job_world_unmount(&w);
	job_world_until(&w, w.answered);
	ck_assert_int_ne(w.failure.cause, ERROR_NONE);
	job_world_mount(&w);
	jobs_mounts_changed(&w.jobs);
	while (is_marked(id))
		turn();
	ck_assert_int_eq(job_world_control(&w, CONTROL_CANCEL, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/t"));
	end();
}
END_TEST

START_TEST(test_demand_of_every_size)
{
	static const uint64_t units[] = { UINT64_MAX, 0, 1, UINT32_MAX, UINT16_MAX + 1 };
	const struct heard *h;
	unsigned n = 0;
	uint64_t id;

	id = stopped_job(0);
	for (size_t i = 0; i < ELEMENTSOF(units); i++) {
		ck_assert_int_eq(
			fleet_says(FLEET_DEMAND, &(struct wanted_message){ "other", units[i] }), 0);
		ck_assert_int_eq(fleet_says(FLEET_DEMAND, &(struct wanted_message){ "", units[i] }),
				 0);
	}
	ck_assert(!is_marked(id));
	for (size_t i = 0; i < ELEMENTSOF(units); i++)
		ck_assert_int_eq(
			fleet_says(FLEET_DEMAND, &(struct wanted_message){ "shared", units[i] }),
			0);
	gives_and_waits(id);
	/* None of it is taken. */
	while ((h = fleet_heard(FLEET_PUBLISH))) {
		ck_assert_int_eq(fleet_says(FLEET_PUBLISHED,
					    &(struct published_message){
						    h->is.publish_message.serial, false }),
				 0);
		n++;
	}
	ck_assert_uint_ge(n, 1);
	job_is_done(id, /* marked= */ false);
	/* Nothing of it was ever in the database. */
	ck_assert_ptr_null(fleet_heard(FLEET_FORGET));
	end();
}
END_TEST

/* Only reclaimd says these, or none does. */
START_TEST(test_messages_that_are_none)
{
	static const uint8_t zeros[256];
	struct claimed_message claim = { .owner = "b", .filesystem = "shared", .directory = "" };

	fleet_world_begin(&w);
	for (uint32_t type = 0; type < 64; type++)
		for (size_t len = 0; len < 64; len++)
			if (type < FLEET_JOINED || type > FLEET_LEASE)
				ck_assert_int_eq(fleet_says_bytes(type, zeros, len), -EBADMSG);
	/* Fields that are too short, and too long. */
	for (uint32_t type = FLEET_JOINED; type <= FLEET_LEASE; type++)
		ck_assert_int_eq(fleet_says_bytes(type, zeros, sizeof(zeros)), -EBADMSG);
	for (uint32_t type = FLEET_REFUSED; type <= FLEET_LEASE; type++)
		ck_assert_int_eq(fleet_says_bytes(type, zeros, 7), -EBADMSG);
	ck_assert_int_eq(fleet_says_claimed(&claim, NULL, 0), -EBADMSG);
	ck_assert_ptr_null(fleet_heard(FLEET_FINISH));
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_shared_job_waits_and_ends,
		test_shared_job_believes_no_end,
		test_shared_job_bounds_counts,
		test_shared_job_goes_on_without_the_database,
		test_shared_job_goes_on_without_a_fleet,
		test_shared_job_hears_of_others,
		test_job_that_was_left_there,
		test_shared_job_is_answered_too_often,
		test_shared_job_is_cancelled,
		test_shared_job_is_cancelled_while_it_is_not_mounted,
		test_demand_of_every_size,
		test_messages_that_are_none,
	};

	return job_world_run("shared-jobs", &w, tests, ELEMENTSOF(tests));
}
