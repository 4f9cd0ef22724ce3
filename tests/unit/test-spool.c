/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spools with the real kernel: a tmpfs of our own at /mnt, in a mount namespace of our own, real
 * events. Needs root. The accounts are those that every system has: root, daemon (1) and bin (2).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/spool-authority.h"
#include "daemon/spool.h"
#include "support.h"
#include "util/macros.h"

#define NOBODY_AT_ALL 64998 /* an id that no account has */

enum answer { REMOVE, LEAVE, DENY_BAD, NONE };

struct world {
	sd_event *event;
	struct spools *spools;
	enum answer answer;
	unsigned batches, tells;
	size_t names;   /* of all batches */
	char last[256]; /* the batch with few names: "1: a b" */
	char log[8192]; /* all of them */
	char told[2048];
	uint64_t last_id;
	uint64_t settle_usec, undo_usec;
	unsigned answered_bad;
};

static int64_t real_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void tell(const char *path, const char *name, const char *text, void *userdata)
{
	struct world *w = userdata;
	size_t len = strlen(w->told);

	w->tells++;
	(void)snprintf(w->told + len, sizeof(w->told) - len, "%s%s%s %s\n", path, name ? "/" : "",
		       name ? name : "", text);
}

/* Each name is what it was said to be, and has not changed for as long as it has to. */
static void check_entry(const struct world *w, const struct spool_batch *b, const char *name,
			const struct identity *id)
{
	struct identity now;
	struct stat st;

	ck_assert_int_eq(fd_identity(b->dirfd, name, &now), 0);
	ck_assert(identity_equal(&now, id));
	ck_assert_int_eq(fstatat(b->dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	ck_assert_int_ge(real_usec() -
				 ((int64_t)st.st_ctim.tv_sec * 1000000 + st.st_ctim.tv_nsec / 1000),
			 (int64_t)w->settle_usec);
}

static void take(const struct spool_batch *b, void *userdata)
{
	struct world *w = userdata;
	const char *name = b->names;
	bool bad = false;
	size_t i;

	ck_assert_ptr_nonnull(strstr(b->origin, "spool:/mnt/"));
	ck_assert_str_eq(b->origin + strlen("spool:"), b->dir_path);
	ck_assert_uint_eq(b->undo_usec, w->undo_usec);
	w->batches++;
	w->names += b->n;
	w->last_id = b->id;
	(void)snprintf(w->last, sizeof(w->last), "%u:", b->submitter->uid);
	for (i = 0; i < b->n; i++, name += strlen(name) + 1) {
		size_t len = strlen(w->last);

		ck_assert(name < b->names + b->names_len);
		check_entry(w, b, name, &b->ids[i]);
		(void)snprintf(w->last + len, sizeof(w->last) - len, " %s", name);
		bad = bad || strcmp(name, "bad") == 0;
		if (w->answer == REMOVE && unlinkat(b->dirfd, name, 0) < 0)
			ck_assert_int_eq(unlinkat(b->dirfd, name, AT_REMOVEDIR), 0);
	}
	ck_assert_ptr_eq(name, b->names + b->names_len);
	(void)snprintf(w->log + strlen(w->log), sizeof(w->log) - strlen(w->log), "%s;", w->last);
	w->answered_bad += w->answer == DENY_BAD && bad && b->n == 1;
	if (w->answer != NONE)
		spools_taken(w->spools, b->id,
			     w->answer == DENY_BAD && bad ? SPOOL_DENIED : SPOOL_ACCEPTED);
}

static void world_open(struct world *w, uint64_t settle_usec, const char *state_dir)
{
	struct spools_options o = {
		.take = take, .tell = tell, .userdata = w, .state_dir = state_dir
	};

	*w = (struct world){ .settle_usec = settle_usec, .undo_usec = 77 };
	ck_assert_int_eq(mount("scratch", "/mnt", "tmpfs", 0, "mode=0755"), 0);
	ck_assert_int_ge(sd_event_new(&w->event), 0);
	ck_assert_int_ge(spools_new(&w->spools, w->event, &o), 0);
}

static void serve(struct world *w, const char *path)
{
	struct config_spool v = { .path = (char *)(uintptr_t)path,
				  .settle_usec = w->settle_usec,
				  .undo_usec = w->undo_usec };

	ck_assert_int_eq(spools_configure(w->spools, &v, 1, NULL), 0);
}

/* Whatever is under way holds what is mounted for a moment, and nobody is told when it lets go. */
static void unmount(const struct world *w, const char *path)
{
	unsigned tries = 0;

	while (umount(path) < 0) {
		ck_assert_int_eq(errno, EBUSY);
		ck_assert_uint_lt(tries++, 6000);
		ck_assert_int_ge(sd_event_run(w->event, 10 * USEC_PER_MSEC), 0);
	}
}

static void world_close(struct world *w)
{
	w->spools = spools_free(w->spools);
	unmount(w, "/mnt");
	w->event = sd_event_unref(w->event);
}

static enum spool_state state_of(const struct world *w)
{
	struct spool_view view;

	spools_look(w->spools, 0, &view);
	return view.state;
}

/* Runs the loop until a condition holds; fails if nothing happens for a minute. */
#define run_until(w, condition)                                                                    \
	while (!(condition)) {                                                                     \
		int run_ = sd_event_run((w)->event, 60 * USEC_PER_SEC);                            \
		ck_assert_msg(run_ > 0, "%s: nothing happens; log %s, told %s", #condition,        \
			      (w)->log, (w)->told);                                                \
	}

/* Until nothing is under way: what comes next is noticed by its own event, or not at all. */
static void run_out(const struct world *w)
{
	while (sd_event_run(w->event, USEC_PER_SEC / 10) > 0)
		;
}

static void make_as(uid_t uid, const char *path, mode_t mode)
{
	int fd;

	if (S_ISDIR(mode)) {
		ck_assert_int_eq(mkdir(path, 0700), 0);
	} else {
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(close(fd), 0);
	}
	ck_assert_int_eq(chown(path, uid, uid), 0);
	ck_assert_int_eq(chmod(path, mode & 07777), 0);
}

static void make(const char *path)
{
	make_as(0, path, S_IFREG | 0644);
}

static void make_dir(const char *path)
{
	make_as(0, path, S_IFDIR | 0755);
}

static bool exists(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

START_TEST(authority_is_never_more_than_what_put_it_there)
{
	static const struct {
		struct spool_step_rights steps[3];
		enum spool_rule rule;
		uid_t uid;
	} cases[] = {
		{ { { 0, 0755 }, { 0, 0755 }, { 0, 0700 } }, RULE_ROOT, 0 },
		{ { { 0, 0755 }, { 0, 0755 }, { 5, 0700 } }, RULE_ONE, 5 },
		{ { { 0, 0755 }, { 5, 0755 }, { 5, 0755 } }, RULE_ONE, 5 },
		/* root's, but its owner's parent may exchange it. */
		{ { { 0, 0755 }, { 5, 0755 }, { 0, 0755 } }, RULE_ONE, 5 },
		{ { { 0, 0755 }, { 0, 0755 }, { 0, 01777 } }, RULE_OWNERS, 0 },
		{ { { 0, 0755 }, { 0, 0755 }, { 0, 0770 } }, RULE_OWNERS, 0 },
		{ { { 0, 0755 }, { 0, 0755 }, { 5, 0770 } }, RULE_OWNERS, 0 },
		{ { { 0, 0755 }, { 5, 0755 }, { 6, 0755 } }, RULE_NOBODY, 0 },
		{ { { 0, 0755 }, { 5, 0755 }, { 5, 0777 } }, RULE_NOBODY, 0 },
		{ { { 0, 0755 }, { 0, 01777 }, { 0, 0755 } }, RULE_NOBODY, 0 },
		{ { { 0, 0755 }, { 0, 0775 }, { 5, 0755 } }, RULE_NOBODY, 0 },
		{ { { 0, 0757 }, { 0, 0755 }, { 0, 0755 } }, RULE_NOBODY, 0 },
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
	make_as(NOBODY_AT_ALL, "/mnt/spool/stranger", S_IFREG | 0600);
	serve(&w, "/mnt/spool");
	run_until(&w, w.names == 3 && w.tells == 4);
	ck_assert(strcmp(w.log, "1: a c;2: b;") == 0 || strcmp(w.log, "2: b;1: a c;") == 0);
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/roots is root's"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/roots-dir is root's"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/shared is a directory that others"));
	ck_assert_ptr_nonnull(strstr(w.told, "/mnt/spool/stranger belongs to somebody without"));
	/* Said once; and another look changes nothing. */
	make_as(1, "/mnt/spool/d", S_IFREG | 0600);
	run_until(&w, w.names == 4);
	ck_assert_uint_eq(w.tells, 4);
	/* What is put right is taken. */
	ck_assert_int_eq(chmod("/mnt/spool/shared", 0755), 0);
	ck_assert_int_eq(chown("/mnt/spool/stranger", 2, 2), 0);
	run_until(&w, w.names == 6);
	/* And all of it, when nobody else may write the spool. */
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
	spools_look(w.spools, 0, &view);
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
		w.event = sd_event_unref(w.event);
		/* A thread that is left may still be looking. */
		ck_assert_int_eq(umount2("/mnt", MNT_DETACH), 0);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { authority_is_never_more_than_what_put_it_there,
				 what_is_there_and_what_comes_is_taken,
				 what_changes_is_waited_for,
				 what_comes_together_is_one_batch,
				 more_than_the_queue_holds_are_found,
				 more_than_are_remembered_are_found,
				 a_spool_is_found_when_it_appears,
				 a_spool_is_mounted_and_unmounted,
				 others_spools_are_emptied_with_others_authority,
				 a_users_own_spool_is_emptied_as_that_user,
				 what_several_may_exchange_is_not_served,
				 what_is_protected_is_no_spool,
				 one_bad_entry_does_not_keep_the_others,
				 nothing_is_offered_twice,
				 what_is_quiet_costs_nothing,
				 it_can_end_at_any_time };

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		(void)fputs("skipped: needs root and a mount namespace\n", stderr);
		return 77;
	}
	return run_case("spool", tests, ELEMENTSOF(tests));
}
