/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/filesystem/profile.h"
#include "engine/remove/last-reference.h"
#include "engine/remove/shrink.h"
#include "support.h"
#include "base/fd.h"

static _Atomic bool never = false;
static const struct fs_profile tail = { .lease_truthful = true, .shrink = SHRINK_TAIL };
static const struct fs_profile head = { .lease_truthful = true, .shrink = SHRINK_HEAD };

static int take_same(void *userdata, int fd, int dirfd)
{
	(void)dirfd;
	*(unsigned *)userdata += 1;
	return fd;
}

static int take_not(void *userdata, int fd, int dirfd)
{
	(void)dirfd;
	*(unsigned *)userdata += 1;
	(void)close(fd);
	return -EBUSY;
}

static int shrink(int dirfd, const char *name, const struct fs_profile *profile,
		  const struct pace *pace, _Atomic bool *cancelled, struct shrink_count *count,
		  struct shrink_remainder *ret)
{
	unsigned asked = 0;
	const struct last_reference last_reference = { .take = take_same, .userdata = &asked };
	const struct shrinker by = { .profile = profile,
				     .pace = pace,
				     .last_reference = &last_reference };
	int r = shrink_file(dirfd, name, &by, NULL, cancelled, count, ret);

	ck_assert_uint_eq(asked, r > 0);
	return r == SHRINK_DONE;
}

struct fixture {
	char dir[PATH_MAX];
	int fd;
};

static void begin(struct fixture *f, const char *tree)
{
	scratch_make(f->dir, sizeof(f->dir));
	tree_make(f->dir, tree);
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY);
}

static int truncate_at(int dirfd, const char *name, uint64_t size)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	return ftruncate(fd, (off_t)size);
}

static void end(struct fixture *f)
{
	(void)close(f->fd);
	scratch_remove(f->dir);
}

START_TEST(steps_follow_their_cost)
{
	ck_assert_uint_eq(shrink_next_step(MiB(64), 1000), MiB(128));
	ck_assert_uint_eq(shrink_next_step(MiB(64), 10000), MiB(64));
	ck_assert_uint_eq(shrink_next_step(MiB(64), 50000), MiB(32));
	ck_assert_uint_eq(shrink_next_step(MiB(2), 1000000), MiB(2));
	ck_assert_uint_eq(shrink_next_step(MiB(1024), 0), MiB(1024));
}
END_TEST

START_TEST(a_lonely_file_is_freed)
{
	struct fixture f;

	begin(&f, "a b");
	ck_assert_int_eq(shrink(f.fd, "a", &tail, NULL, &never, NULL, NULL), 1);
	ck_assert_int_eq(shrink(f.fd, "b", &head, NULL, &never, NULL, NULL), 1);
	ck_assert_uint_eq(tree_count(f.dir), 0);
	end(&f);
}
END_TEST

START_TEST(a_file_with_another_reference_is_left_to_unlink)
{
	_cleanup_close_ int holder = -1;
	struct fixture f;
	struct stat st;

	begin(&f, "open twin1 l>open d/");
	holder = openat(f.fd, "open", O_RDONLY);
	ck_assert_int_eq(linkat(f.fd, "twin1", f.fd, "twin2", 0), 0);
	ck_assert_int_eq(shrink(f.fd, "open", &tail, NULL, &never, NULL, NULL), 0);
	ck_assert_int_eq(shrink(f.fd, "twin1", &tail, NULL, &never, NULL, NULL), 0);
	ck_assert_int_eq(shrink(f.fd, "l", &tail, NULL, &never, NULL, NULL), 0);
	ck_assert_int_eq(shrink(f.fd, "d", &tail, NULL, &never, NULL, NULL), 0);
	ck_assert_int_eq(fstat(holder, &st), 0);
	ck_assert_int_eq(st.st_size, 4);
	ck_assert_uint_eq(tree_count(f.dir), 5);
	end(&f);
}
END_TEST

/* What an answer makes of a file that a descriptor tells the length of. */
static void expect(const struct last_reference *last_reference, int result, size_t left)
{
	const struct shrinker by = { .profile = &tail, .last_reference = last_reference };
	_cleanup_close_ int pin = -1;
	struct fixture f;
	struct stat st;

	begin(&f, "a");
	pin = openat(f.fd, "a", O_PATH | O_CLOEXEC);
	ck_assert_int_eq(shrink_file(f.fd, "a", &by, NULL, &never, NULL, NULL), result);
	ck_assert_uint_eq(tree_count(f.dir), left);
	ck_assert_int_eq(fstat(pin, &st), 0);
	ck_assert_int_eq(st.st_size, 1);
	end(&f);
}

START_TEST(test_attack_02_nothing_is_shrunk_that_is_referred_to)
{
	unsigned asked = 0;
	const struct last_reference busy = { .take = take_not, .userdata = &asked };

	expect(&busy, SHRINK_UNLINKED, 0);
	ck_assert_uint_eq(asked, 1);
	expect(NULL, SHRINK_NOT, 1);
}
END_TEST

START_TEST(nothing_where_leases_lie)
{
	struct fs_profile overlay = tail;
	struct fixture f;

	overlay.lease_truthful = false;
	begin(&f, "a");
	ck_assert_int_eq(shrink(f.fd, "a", &overlay, NULL, &never, NULL, NULL), 0);
	overlay = tail;
	overlay.shrink = SHRINK_NEVER;
	ck_assert_int_eq(shrink(f.fd, "a", &overlay, NULL, &never, NULL, NULL), 0);
	ck_assert_uint_eq(tree_count(f.dir), 1);
	end(&f);
}
END_TEST

START_TEST(a_fifo_is_never_opened)
{
	struct fixture f;

	begin(&f, "a");
	ck_assert_int_eq(mkfifoat(f.fd, "fifo", 0600), 0);
	ck_assert_int_eq(shrink(f.fd, "fifo", &tail, NULL, &never, NULL, NULL), 0);
	end(&f);
}
END_TEST

/* Another process opens the file while its map is being read. */
struct intruder {
	struct pace pace;
	unsigned begun;
	uint64_t freed; /* before */
	bool came, refused;
	int pin;
};

static bool begin_opening(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct intruder *in = userdata;
	char link[64];

	(void)cancelled;
	*ret = (struct pace_budget){ PACE_FEW, MiB(1) };
	if (++in->begun != 2)
		return true;
	in->came = true;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", in->pin);
	in->refused = open(link, O_RDONLY | O_NONBLOCK) < 0; /* the lease is being broken */
	return true;
}

static bool spent_never_due(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	struct intruder *in = userdata;

	(void)entries;
	(void)cost_usec;
	in->freed += in->came ? 0 : bytes;
	return false;
}

static void synced_unheard(void *userdata, uint64_t cost_usec)
{
	(void)userdata;
	(void)cost_usec;
}

START_TEST(a_lease_broken_while_the_map_is_read)
{
	const struct fs_profile map_first = { .lease_truthful = true,
					      .shrink = SHRINK_TAIL,
					      .map_first = true };
	struct intruder in = { .pace = { .begin = begin_opening,
					 .spent = spent_never_due,
					 .synced = synced_unheard } };
	char dir[] = "/var/tmp/reclaim-unit.XXXXXX";
	struct stat st;
	int dirfd, cut, shrunk;

	/* On a disk, as memory has no maps. */
	ck_assert_ptr_nonnull(mkdtemp(dir));
	tree_make(dir, "a");
	dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	in.pace.userdata = &in;
	in.pin = openat(dirfd, "a", O_PATH | O_CLOEXEC);
	cut = truncate_at(dirfd, "a", MiB(16));
	shrunk = shrink(dirfd, "a", &map_first, &in.pace, &never, NULL, NULL);
	/* Whatever comes of it, it stays behind nowhere. */
	scratch_remove(dir);
	ck_assert_int_ge(in.pin, 0);
	ck_assert_int_eq(cut, 0);
	ck_assert_int_eq(shrunk, 1);
	ck_assert_int_eq(fstat(in.pin, &st), 0);
	ck_assert_uint_eq(st.st_nlink, 0);
	ck_assert(in.came && in.refused);
	ck_assert_uint_eq((uint64_t)st.st_size, MiB(16) - in.freed);
	(void)close(in.pin);
	(void)close(dirfd);
}
END_TEST

/* The counter is read before each step. */
struct watcher {
	struct pace pace;
	uint64_t bytes, seen[4];
	unsigned begun;
	uint64_t grants; /* of bytes */
};

static bool begin_watching(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct watcher *w = userdata;

	(void)cancelled;
	*ret = (struct pace_budget){ PACE_FEW, w->grants };
	if (w->begun < ELEMENTSOF(w->seen))
		w->seen[w->begun++] = w->bytes;
	return true;
}

static bool spent_due(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	(void)userdata;
	(void)entries;
	(void)bytes;
	(void)cost_usec;
	return true;
}

START_TEST(each_step_is_counted)
{
	const struct fs_profile *const both[] = { &tail, &head };

	for (size_t i = 0; i < ELEMENTSOF(both); i++) {
		struct watcher w = { .pace = { .begin = begin_watching,
					       .spent = spent_due,
					       .synced = synced_unheard },
				     .bytes = 7,
				     .grants = MiB(4) };
		struct shrink_count count = { .bytes = &w.bytes, .weight = 1000 };
		struct fixture f;

		begin(&f, "a");
		w.pace.userdata = &w;
		/* With holes: it weighs less than it is long. */
		ck_assert_int_eq(truncate_at(f.fd, "a", MiB(16)), 0);
		ck_assert_int_eq(shrink(f.fd, "a", both[i], &w.pace, &never, &count, NULL), 1);
		ck_assert_uint_eq(w.begun, 4);
		ck_assert_uint_eq(w.seen[0], 7);
		ck_assert_uint_eq(w.seen[1], 257);
		ck_assert_uint_eq(w.seen[2], 507);
		ck_assert_uint_eq(count.counted, 1000);
		ck_assert_uint_eq(w.bytes, 1007);
		end(&f);
	}
}
END_TEST

/* What a pipe holds of a folio that a step ends within would be zeroed. */
START_TEST(test_attack_02_steps_are_whole_folios_however_little_is_granted)
{
	const struct fs_profile *const both[] = { &tail, &head };
	const uint64_t unit = shrink_unit();

	for (size_t i = 0; i < ELEMENTSOF(both); i++) {
		struct watcher w = { .pace = { .begin = begin_watching,
					       .spent = spent_due,
					       .synced = synced_unheard },
				     .grants = KiB(100) };
		struct shrink_count count = { .bytes = &w.bytes, .weight = 4 * unit };
		struct fixture f;

		begin(&f, "a");
		w.pace.userdata = &w;
		ck_assert_int_eq(truncate_at(f.fd, "a", 4 * unit), 0);
		ck_assert_int_eq(shrink(f.fd, "a", both[i], &w.pace, &never, &count, NULL), 1);
		ck_assert_uint_eq(w.begun, 4);
		for (unsigned n = 0; n < w.begun; n++)
			ck_assert_uint_eq(w.seen[n], n * unit);
		end(&f);
	}
}
END_TEST

/* Is told to stop before the third step. */
struct stopper {
	struct pace pace;
	_Atomic bool cancelled;
	unsigned begun;
};

static bool begin_stopping(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct stopper *s = userdata;

	*ret = (struct pace_budget){ PACE_FEW, MiB(4) };
	if (++s->begun == 3)
		atomic_store(&s->cancelled, true);
	return !atomic_load(cancelled);
}

START_TEST(what_is_left_is_gone_on_with)
{
	const struct fs_profile *const both[] = { &tail, &head };

	for (size_t i = 0; i < ELEMENTSOF(both); i++) {
		struct stopper s = { .pace = { .begin = begin_stopping,
					       .spent = spent_due,
					       .synced = synced_unheard } };
		uint64_t bytes = 0;
		struct shrink_count count = { .bytes = &bytes, .weight = 1000 };
		struct shrink_remainder remainder;
		struct fixture f;
		struct stat st;

		begin(&f, "a");
		s.pace.userdata = &s;
		ck_assert_int_eq(truncate_at(f.fd, "a", MiB(16)), 0);
		ck_assert_int_eq(
			shrink(f.fd, "a", both[i], &s.pace, &s.cancelled, &count, &remainder), 1);
		ck_assert_uint_eq(tree_count(f.dir), 0);
		ck_assert_uint_eq(bytes, 500);
		ck_assert_int_ge(remainder.fd, 0);
		ck_assert(shrink_may_continue(&remainder));
		/* As long as it is to wait, nothing is freed. */
		ck_assert(shrink_continue(&remainder, both[i], &s.pace, &s.cancelled, NULL));
		ck_assert_int_eq(fstat(remainder.fd, &st), 0);
		ck_assert_uint_eq((uint64_t)st.st_size - remainder.done, MiB(8));
		atomic_store(&s.cancelled, false);
		count = (struct shrink_count){ .bytes = &bytes, .weight = 500 };
		ck_assert(!shrink_continue(&remainder, both[i], &s.pace, &s.cancelled, &count));
		ck_assert_uint_eq(bytes, 1000);
		(void)close(remainder.fd);
		end(&f);
	}
}
END_TEST

static void on_begun(int fd, uint64_t weight, void *userdata)
{
	ck_assert_uint_eq(weight, 1000);
	*(int *)userdata = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Another process has the descriptor: as long as there is something left, it has the lease. */
START_TEST(what_another_process_has_left_is_taken_up)
{
	const struct fs_profile *const both[] = { &tail, &head };

	for (size_t i = 0; i < ELEMENTSOF(both); i++) {
		struct stopper s = { .pace = { .begin = begin_stopping,
					       .spent = spent_due,
					       .synced = synced_unheard } };
		uint64_t bytes = 0;
		struct shrink_count count = { .bytes = &bytes, .weight = 1000 };
		struct shrink_remainder remainder;
		unsigned asked = 0;
		const struct last_reference last = { .take = take_same, .userdata = &asked };
		int other = -1, third;
		const struct shrinker by = { .profile = both[i],
					     .pace = &s.pace,
					     .last_reference = &last,
					     .begun = on_begun,
					     .userdata = &other };
		struct fixture f;
		struct stat st;

		begin(&f, "a");
		s.pace.userdata = &s;
		third = openat(f.fd, "a", O_WRONLY);
		ck_assert_int_eq(posix_fallocate(third, 0, (off_t)MiB(16)), 0);
		/* It has a name, and no lease. */
		ck_assert_int_eq(shrink_take_up(third, both[i], &remainder), -ESTALE);
		(void)close(third);
		ck_assert_int_eq(shrink_file(f.fd, "a", &by, NULL, &s.cancelled, &count, NULL),
				 SHRINK_DONE);
		ck_assert_int_ge(other, 0);
		ck_assert_int_eq(fcntl(other, F_GETLEASE), F_WRLCK);
		third = fcntl(other, F_DUPFD_CLOEXEC, 3);
		ck_assert_int_eq(shrink_take_up(other, both[i], &remainder), 0);
		ck_assert_int_eq(fstat(other, &st), 0);
		ck_assert_uint_eq(remainder.weight, (uint64_t)st.st_blocks * 512);
		ck_assert_uint_gt(remainder.weight, 0);
		ck_assert_uint_le(remainder.done, (uint64_t)MiB(8));
		atomic_store(&s.cancelled, false);
		count = (struct shrink_count){ .bytes = &bytes, .weight = remainder.weight };
		bytes = 0;
		ck_assert(!shrink_continue(&remainder, both[i], &s.pace, &s.cancelled, &count));
		ck_assert_uint_eq(bytes, remainder.weight);
		shrink_give_up(&remainder.fd);
		ck_assert_int_eq(fcntl(third, F_GETLEASE), F_UNLCK);
		ck_assert_int_eq(shrink_take_up(third, both[i], &remainder), -ESTALE);
		(void)close(third);
		end(&f);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { steps_follow_their_cost,
				 a_lonely_file_is_freed,
				 a_file_with_another_reference_is_left_to_unlink,
				 test_attack_02_nothing_is_shrunk_that_is_referred_to,
				 nothing_where_leases_lie,
				 a_fifo_is_never_opened,
				 each_step_is_counted,
				 test_attack_02_steps_are_whole_folios_however_little_is_granted,
				 what_is_left_is_gone_on_with,
				 what_another_process_has_left_is_taken_up,
				 a_lease_broken_while_the_map_is_read };

	return run_case("shrink", tests, sizeof(tests) / sizeof(tests[0]));
}
