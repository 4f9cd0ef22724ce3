/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What comes into a spool, and when it is offered. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool-world.h"

START_TEST(what_is_there_and_what_comes_is_taken)
{
	struct world w;

	world_open(&w, 50 * USEC_PER_MSEC, NULL);
	make_dir("/mnt/spool");
	make("/mnt/spool/.reclaim");
	make("/mnt/spool/b");
	make("/mnt/spool/.a");
	make_dir("/mnt/spool/c");
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 3);
	ck_assert_str_eq(w.log, "0: .a b c;");
	make("/mnt/spool/.reclaim-1");
	make("/mnt/other");
	ck_assert_int_eq(rename("/mnt/other", "/mnt/spool/moved"), 0);
	run_until(&w, w.names == 4);
	ck_assert_str_eq(w.last, "0: moved");
	ck_assert_int_eq(link("/mnt/spool/.reclaim", "/mnt/spool/linked"), 0);
	run_until(&w, w.names == 5);
	ck_assert_str_eq(w.last, "0: linked");
	ck_assert_int_eq(symlink("/etc/passwd", "/mnt/spool/link"), 0);
	run_until(&w, w.names == 6);
	ck_assert_str_eq(w.last, "0: link");
	ck_assert(exists("/mnt/spool/.reclaim") && exists("/mnt/spool/.reclaim-1"));
	ck_assert_uint_eq(w.tells, 0);
	world_close(&w);
}
END_TEST

static int write_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	unsigned *left = userdata;
	int fd = open("/mnt/spool/growing", O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)usec;
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "x", 1), 1);
	ck_assert_int_eq(close(fd), 0);
	if (--*left > 0) {
		ck_assert_int_ge(sd_event_source_set_time_relative(source, 60000), 0);
		ck_assert_int_ge(sd_event_source_set_enabled(source, SD_EVENT_ONESHOT), 0);
	}
	return 0;
}

START_TEST(what_changes_is_waited_for)
{
	sd_event_source *source = NULL;
	unsigned left = 8;
	struct world w;

	world_open(&w, 200 * USEC_PER_MSEC, NULL);
	make_dir("/mnt/spool");
	serve(&w, "/mnt/spool");
	make("/mnt/spool/growing");
	ck_assert_int_ge(sd_event_add_time_relative(w.event, &source, CLOCK_MONOTONIC, 60000, 1,
						    write_again, &left),
			 0);
	run_until(&w, w.names == 1);
	/* check_entry has seen that it is old enough; it was written to all the same. */
	ck_assert_uint_eq(left, 0);
	sd_event_source_unref(source);
	world_close(&w);
}
END_TEST

static void make_many(unsigned n)
{
	char path[64];

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "/mnt/spool/%06u", i);
		ck_assert_int_eq(mknod(path, S_IFREG | 0644, 0), 0);
	}
}

/* What is known to be there is offered once it has settled, so all of it has to be seen before: on
 * a slow machine, too. */
START_TEST(what_comes_together_is_one_batch)
{
	struct world w;

	world_open(&w, 2 * USEC_PER_SEC, NULL);
	make_dir("/mnt/spool");
	serve(&w, "/mnt/spool");
	run_until(&w, state_of(&w) == SPOOL_SERVED);
	make_many(2000);
	run_until(&w, w.names == 2000);
	ck_assert_uint_eq(w.batches, 1);
	make("/mnt/spool/last");
	run_until(&w, w.names == 2001);
	ck_assert_uint_eq(w.batches, 2);
	world_close(&w);
}
END_TEST

/* A queue of inotify that overflows says nothing of what did not fit into it. */
START_TEST(more_than_the_queue_holds_are_found)
{
	struct world w;

	world_open(&w, 100 * USEC_PER_MSEC, NULL);
	make_dir("/mnt/spool");
	serve(&w, "/mnt/spool");
	run_until(&w, state_of(&w) == SPOOL_SERVED);
	make_many(20000);
	run_until(&w, w.names == 20000);
	make("/mnt/spool/last");
	run_until(&w, w.names == 20001);
	world_close(&w);
}
END_TEST

START_TEST(more_than_are_remembered_are_found)
{
	struct world w;

	world_open(&w, 0, NULL);
	make_dir("/mnt/spool");
	make_many(140000);
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 140000);
	ck_assert_uint_le(w.batches, 3);
	world_close(&w);
}
END_TEST

START_TEST(a_spool_is_found_when_it_appears)
{
	struct world w;

	world_open(&w, 0, NULL);
	serve(&w, "/mnt/a/b/spool");
	run_until(&w, state_of(&w) == SPOOL_ABSENT);
	make_dir("/mnt/a");
	make_dir("/mnt/a/b");
	make_dir("/mnt/a/b/spool");
	make("/mnt/a/b/spool/1");
	run_until(&w, w.names == 1);
	/* Replaced by rename, with something in it. */
	make_dir("/mnt/a/b/new");
	make("/mnt/a/b/new/2");
	run_out(&w);
	ck_assert_int_eq(rename("/mnt/a/b/spool", "/mnt/a/b/old"), 0);
	ck_assert_int_eq(rename("/mnt/a/b/new", "/mnt/a/b/spool"), 0);
	run_until(&w, w.names == 2);
	/* What was the spool is none any more. */
	make("/mnt/a/b/old/not");
	/* A directory above it. */
	run_out(&w);
	ck_assert_int_eq(rename("/mnt/a", "/mnt/away"), 0);
	run_until(&w, state_of(&w) == SPOOL_ABSENT);
	make("/mnt/away/b/spool/not");
	make_dir("/mnt/a");
	make_dir("/mnt/a/b");
	make_dir("/mnt/a/b/spool");
	make("/mnt/a/b/spool/3");
	run_until(&w, w.names == 3);
	/* Removed and made again. */
	run_out(&w);
	ck_assert_int_eq(rmdir("/mnt/a/b/spool"), 0);
	run_until(&w, state_of(&w) == SPOOL_ABSENT);
	make_dir("/mnt/a/b/spool");
	make("/mnt/a/b/spool/4");
	run_until(&w, w.names == 4);
	ck_assert(exists("/mnt/a/b/spool") && exists("/mnt/away/b/old/not"));
	ck_assert(exists("/mnt/away/b/spool/not"));
	ck_assert_str_eq(w.log, "0: 1;0: 2;0: 3;0: 4;");
	ck_assert_uint_eq(w.tells, 0);
	world_close(&w);
}
END_TEST

START_TEST(a_spool_is_mounted_and_unmounted)
{
	struct world w;

	world_open(&w, 0, NULL);
	make_dir("/mnt/disk");
	serve(&w, "/mnt/disk/spool");
	run_until(&w, state_of(&w) == SPOOL_ABSENT);
	for (unsigned i = 1; i < 4; i++) {
		ck_assert_int_eq(mount("disk", "/mnt/disk", "tmpfs", 0, "mode=0755"), 0);
		make_dir("/mnt/disk/spool");
		make("/mnt/disk/spool/x");
		run_until(&w, w.names == i);
		/* Nothing here keeps it from being unmounted, but a round that is under way. */
		run_until(&w, state_of(&w) == SPOOL_SERVED);
		ck_assert_int_ge(sd_event_run(w.event, 0), 0);
		unmount(&w, "/mnt/disk");
		run_until(&w, state_of(&w) == SPOOL_ABSENT);
	}
	/* Mounted over one that is served. */
	make_dir("/mnt/disk/spool");
	run_until(&w, state_of(&w) == SPOOL_SERVED);
	ck_assert_int_eq(mount("disk", "/mnt/disk", "tmpfs", 0, "mode=0755"), 0);
	make_dir("/mnt/disk/spool");
	make("/mnt/disk/spool/y");
	run_until(&w, w.names == 4);
	ck_assert_int_ge(sd_event_run(w.event, 0), 0);
	unmount(&w, "/mnt/disk");
	world_close(&w);
}
END_TEST

START_TEST(one_bad_entry_does_not_keep_the_others)
{
	struct world w;

	world_open(&w, 0, NULL);
	w.answer = DENY_BAD;
	make_dir("/mnt/spool");
	make_many(1000);
	make("/mnt/spool/bad");
	serve(&w, "/mnt/spool");
	/* One of 1,001, then halves. */
	run_until(&w, w.answered_bad == 1);
	ck_assert_uint_le(w.batches, 2 * 10 + 1);
	make("/mnt/spool/more");
	run_until(&w, strcmp(w.last, "0: more") == 0);
	ck_assert_uint_eq(w.answered_bad, 1);
	/* It is offered again when it has changed, and only it: the others are taken. */
	ck_assert_int_eq(chmod("/mnt/spool/bad", 0600), 0);
	run_until(&w, w.answered_bad == 2);
	ck_assert_str_eq(w.last, "0: bad");
	world_close(&w);
}
END_TEST

START_TEST(nothing_is_offered_twice)
{
	struct spool_view view;
	struct world w;

	world_open(&w, 0, NULL);
	w.answer = NONE;
	make_dir("/mnt/spool");
	make("/mnt/spool/a");
	serve(&w, "/mnt/spool");
	run_until(&w, w.batches == 1);
	/* Not answered yet: changes are nothing new. */
	ck_assert_int_eq(chmod("/mnt/spool/a", 0600), 0);
	make("/mnt/spool/b");
	run_until(&w, w.batches == 2);
	ck_assert_str_eq(w.log, "0: a;0: b;");
	spools_taken(w.spools, w.last_id - 1, SPOOL_ACCEPTED);
	spools_taken(w.spools, w.last_id, SPOOL_LATER);
	spools_taken(w.spools, 4711, SPOOL_ACCEPTED);
	ck_assert_uint_eq(spools_list(w.spools, &view, 1), 1);
	ck_assert_uint_eq(view.waiting, 1);
	ck_assert_uint_eq(view.taken, 1);
	/* Being deleted in place. A reload forgets nothing, either. */
	ck_assert_int_eq(chmod("/mnt/spool/a", 0644), 0);
	serve(&w, "/mnt/spool");
	make("/mnt/spool/c");
	run_until(&w, w.batches == 3);
	ck_assert_str_eq(w.last, "0: c");
	/* Another one of the same name is another one. */
	ck_assert_int_eq(unlink("/mnt/spool/a"), 0);
	make("/mnt/spool/a");
	run_until(&w, w.batches == 4);
	ck_assert_str_eq(w.last, "0: a");
	world_close(&w);
}
END_TEST

static struct lasting_identity identity_of_path(const char *path)
{
	struct identity id;

	ck_assert_int_eq(fd_identity(AT_FDCWD, path, &id), 0);
	return (struct lasting_identity){ .ino = id.ino,
					  .btime_nsec = id.btime_nsec,
					  .type = id.mode & S_IFMT };
}

/* As a job does it: it tells, then moves the name back. */
static void put_back(struct world *w, const char *from, const char *to, bool kept)
{
	struct lasting_identity id = identity_of_path(from);

	ck_assert_int_eq(spools_returned(w->spools, &id, kept, INT64_MAX), 0);
	ck_assert_int_eq(rename(from, to), 0);
}

START_TEST(what_is_put_back_stays_until_it_changes)
{
	struct lasting_identity id;
	struct world w;
	struct stat st;

	world_open(&w, 0, NULL);
	make_dir("/mnt/spool");
	make("/mnt/restored");
	make_dir("/mnt/kept");
	make("/mnt/before");
	make("/mnt/moved");
	/* By the record: one as it was then, and one that has changed since. */
	ck_assert_int_eq(rename("/mnt/before", "/mnt/spool/before"), 0);
	ck_assert_int_eq(rename("/mnt/moved", "/mnt/spool/moved"), 0);
	ck_assert_int_eq(stat("/mnt/spool/before", &st), 0);
	id = identity_of_path("/mnt/spool/before");
	ck_assert_int_eq(spools_returned(w.spools, &id, false,
					 st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec),
			 0);
	id = identity_of_path("/mnt/spool/moved");
	ck_assert_int_eq(spools_returned(w.spools, &id, false, 1000000000), 0);
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 1);
	put_back(&w, "/mnt/restored", "/mnt/spool/restored", false);
	put_back(&w, "/mnt/kept", "/mnt/spool/kept", true);
	run_out(&w);
	make("/mnt/spool/another");
	run_until(&w, w.names == 2);
	ck_assert_str_eq(w.log, "0: moved;0: another;");
	/* What could not be deleted is tried once more. */
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 3);
	ck_assert_str_eq(w.last, "0: kept");
	/* A change, and a way out and in again. */
	ck_assert_int_eq(chmod("/mnt/spool/restored", 0600), 0);
	run_until(&w, w.names == 4);
	ck_assert_str_eq(w.last, "0: restored");
	ck_assert_int_eq(rename("/mnt/spool/before", "/mnt/out"), 0);
	run_out(&w);
	ck_assert_int_eq(rename("/mnt/out", "/mnt/spool/in"), 0);
	run_until(&w, w.names == 5);
	ck_assert_str_eq(w.last, "0: in");
	ck_assert_uint_eq(w.tells, 0);
	world_close(&w);
}
END_TEST

START_TEST(what_is_quiet_costs_nothing)
{
	unsigned wakes = 0;
	struct world w;

	world_open(&w, 0, NULL);
	w.answer = DENY_BAD;
	make_as(0, "/mnt/spool", S_IFDIR | 01777);
	make("/mnt/spool/refused");
	make_as(1, "/mnt/spool/taken", S_IFREG | 0600);
	make_as(1, "/mnt/spool/bad", S_IFREG | 0600);
	serve(&w, "/mnt/spool");
	run_until(&w, w.answered_bad == 1 && w.tells == 1);
	/* What is still under way ends, and then there is nothing for half a second. */
	while (sd_event_run(w.event, USEC_PER_SEC / 2) > 0)
		ck_assert_uint_lt(++wakes, 10);
	ck_assert_uint_eq(w.answered_bad, 1);
	ck_assert_uint_eq(w.tells, 1);
	world_close(&w);
}
END_TEST

START_TEST(it_can_end_at_any_time)
{
	struct config_spool v[3] = { { .path = (char *)(uintptr_t) "/mnt/a" },
				     { .path = (char *)(uintptr_t) "/mnt/b" },
				     { .path = (char *)(uintptr_t) "/mnt/c" } };
	struct world w;

	for (unsigned i = 0; i < 40; i++) {
		world_open(&w, 0, NULL);
		w.undo_usec = 0;
		make_dir("/mnt/a");
		make("/mnt/a/x");
		make_dir("/mnt/b");
		ck_assert_int_eq(spools_configure(w.spools, v, 3, NULL), 0);
		for (unsigned j = 0; j < i % 8; j++)
			ck_assert_int_ge(sd_event_run(w.event, 1000), 0);
		/* One stays, one goes, one comes. */
		ck_assert_int_eq(spools_configure(w.spools, v + 1, 2, NULL), 0);
		for (unsigned j = 0; j < i / 8; j++)
			ck_assert_int_ge(sd_event_run(w.event, 1000), 0);
		w.spools = spools_free(w.spools);
		world_ignore_mounts(&w);
		w.event = sd_event_unref(w.event);
		/* A thread that is left may still be looking. */
		ck_assert_int_eq(umount2("/mnt", MNT_DETACH), 0);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_is_there_and_what_comes_is_taken,
				 what_changes_is_waited_for,
				 what_comes_together_is_one_batch,
				 more_than_the_queue_holds_are_found,
				 more_than_are_remembered_are_found,
				 a_spool_is_found_when_it_appears,
				 a_spool_is_mounted_and_unmounted,
				 one_bad_entry_does_not_keep_the_others,
				 nothing_is_offered_twice,
				 what_is_put_back_stays_until_it_changes,
				 what_is_quiet_costs_nothing,
				 it_can_end_at_any_time };

	return run_spool_case("spool", tests, ELEMENTSOF(tests));
}
