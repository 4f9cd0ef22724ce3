/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which job goes next, and when those that are held are due. */
#include <check.h>
#include <fcntl.h>

#include "daemon/jobs/due-heap.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/schedule-order.h"

START_TEST(priority_goes_before_turn)
{
	struct candidate high = { .priority = 2, .served = 9 },
			 low = { .priority = 0, .served = 1 };

	ck_assert(scheduler_before(&high, &low));
	ck_assert(!scheduler_before(&low, &high));
}
END_TEST

START_TEST(who_waited_longest_goes_first)
{
	struct candidate a = { .priority = 1, .served = 4 }, b = { .priority = 1, .served = 5 };

	ck_assert(scheduler_before(&a, &b));
	ck_assert(!scheduler_before(&b, &a));
}
END_TEST

/* Whether that user may begin one on dev. */
static bool has_room(dev_t dev, uid_t user, const struct scheduler_slot *v, size_t n)
{
	const struct scheduler_slot one = { dev, user, false };

	return scheduler_has_room(&one, v, n);
}

/* So many of one user that are running, each on a device of its own from `dev` on. */
static size_t running(struct scheduler_slot *v, size_t n, size_t more, dev_t dev, uid_t user,
		      bool silent)
{
	for (size_t i = 0; i < more; i++)
		v[n + i] = (struct scheduler_slot){ dev + i, user, silent };
	return n + more;
}

START_TEST(room_is_by_device_and_in_all)
{
	struct scheduler_slot v[SCHEDULER_BOTH_MAX];
	size_t n = running(v, 0, 2, 1, 7, false);

	v[n++] = v[0];
	ck_assert(!has_room(1, 7, v, 3));
	ck_assert(has_room(2, 7, v, 3));
	ck_assert(has_room(1, 7, v, 2));
	n = running(v, 0, 7, 1, 7, false);
	ck_assert(has_room(9, 8, v, n));
	n = running(v, n, 1, 8, 8, false);
	ck_assert(!has_room(9, 9, v, n));
}
END_TEST

START_TEST(test_attack_07_what_hangs_takes_no_turn)
{
	struct scheduler_slot v[SCHEDULER_BOTH_MAX];
	size_t n = running(v, 0, 8, 1, 7, true);

	/* Other users go on, there too; but not who has eight of them. */
	ck_assert(has_room(100, 8, v, n));
	ck_assert(has_room(1, 8, v, n));
	ck_assert(!has_room(100, 7, v, n));
	/* Of many users: who has none of them goes on, until there are too many; root then still.
	 */
	for (uid_t user = 8; user < 13; user++)
		n = running(v, n, 8, 100 * user, user, true);
	n = running(v, n, 1, 5000, 20, true);
	ck_assert(has_room(9999, 21, v, n));
	ck_assert(!has_room(9999, 20, v, n));
	n = running(v, n, SCHEDULER_ALL_MAX - n, 6000, 22, true);
	ck_assert(!has_room(9999, 21, v, n));
	ck_assert(has_room(9999, 0, v, n));
}
END_TEST

START_TEST(test_attack_07_what_hangs_leaves_the_device)
{
	struct scheduler_slot v[SCHEDULER_BOTH_MAX];
	size_t n = 0;

	/* Of a user, two; others go on there, until many have one that hangs; root then still. */
	v[n++] = (struct scheduler_slot){ 1, 7, true };
	ck_assert(has_room(1, 7, v, n));
	v[n++] = (struct scheduler_slot){ 1, 7, true };
	ck_assert(!has_room(1, 7, v, n));
	ck_assert(has_room(2, 7, v, n));
	ck_assert(has_room(1, 8, v, n));
	ck_assert(has_room(1, 0, v, n));
	/* Those that get on count as ever. */
	v[n++] = (struct scheduler_slot){ 1, 8, false };
	v[n++] = (struct scheduler_slot){ 1, 9, false };
	ck_assert(!has_room(1, 10, v, n));
	for (n = 0; n < SCHEDULER_SILENT_DEVICE_MAX; n++)
		v[n] = (struct scheduler_slot){ 1, 7 + (uid_t)n, true };
	ck_assert(!has_room(1, 60, v, n));
	ck_assert(has_room(2, 60, v, n));
	ck_assert(has_room(1, 0, v, n));
	/* Nor are there any number of root's. */
	v[n++] = (struct scheduler_slot){ 1, 0, true };
	v[n++] = (struct scheduler_slot){ 1, 0, true };
	ck_assert(!has_room(1, 0, v, n));
}
END_TEST

START_TEST(test_attack_07_slow_jobs_leave_room)
{
	struct scheduler_slot v[SCHEDULER_BOTH_MAX];
	size_t n = running(v, 0, 7, 1, 7, false);

	/* They get further, be it ever so slowly: one user does not have all turns. */
	ck_assert(!has_room(100, 7, v, n));
	ck_assert(has_room(100, 8, v, n));
	n = running(v, n, 1, 1, 8, false);
	ck_assert(!has_room(100, 9, v, n));
	ck_assert(!has_room(1, 9, v, n));
	/* All of them together have none of root's, on no device; and the other way round. */
	ck_assert(has_room(100, 0, v, n));
	ck_assert(has_room(1, 0, v, n));
	n = running(v, 0, 8, 1, 0, false);
	ck_assert(!has_room(100, 0, v, n));
	ck_assert(has_room(100, 7, v, n));
	ck_assert(has_room(1, 7, v, n));
}
END_TEST

#define JOBS 500

/* Takes jobs out of the middle and the rest from the front, which must come in order. */
START_TEST(due_ones_come_in_order)
{
	static struct due jobs[JOBS];
	struct due_heap h = { 0 };
	uint64_t last = 0;
	unsigned left = 0, seed = 1;

	ck_assert_int_eq(due_heap_reserve(&h, JOBS), 0);
	for (size_t i = 0; i < JOBS; i++) {
		seed = seed * 1103515245 + 12345;
		due_heap_add(&h, &jobs[i], (seed >> 8) % 1000);
	}
	for (size_t i = 0; i < JOBS; i += 3)
		due_heap_remove(&h, &jobs[i]);
	due_heap_remove(&h, &jobs[0]); /* again: nothing happens */
	for (struct due *d; (d = due_heap_first(&h)); left++) {
		ck_assert(d->usec >= last);
		last = d->usec;
		due_heap_remove(&h, d);
		ck_assert_uint_eq(d->index, 0);
	}
	ck_assert_uint_eq(left, JOBS - (JOBS + 2) / 3);
	due_heap_done(&h);
}
END_TEST

/* The directory of the job that was staged last: of no other job, and of one at a time. */
START_TEST(directory_at_hand_is_one_jobs)
{
	struct jobs jobs = { .at_hand = { .dirfd = -1 } };
	struct job a = { .jobs = &jobs }, b = { .jobs = &jobs };
	int of_a = open("/", O_PATH | O_CLOEXEC), of_b = open("/", O_PATH | O_CLOEXEC);

	ck_assert_int_eq(at_hand_take(&a), -1);
	at_hand_put(&a, of_a);
	ck_assert_int_eq(at_hand_take(&b), -1);
	ck_assert_int_eq(at_hand_take(&a), of_a);
	ck_assert_int_eq(at_hand_take(&a), -1);
	at_hand_put(&a, of_a);
	at_hand_put(&b, of_b);
	ck_assert_int_eq(fcntl(of_a, F_GETFD), -1); /* closed */
	ck_assert_int_eq(at_hand_take(&a), -1);
	at_hand_clear(&jobs);
	ck_assert_int_eq(fcntl(of_b, F_GETFD), -1);
	ck_assert_int_eq(at_hand_take(&b), -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("scheduler");
	TCase *c = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(c, priority_goes_before_turn);
	tcase_add_test(c, who_waited_longest_goes_first);
	tcase_add_test(c, room_is_by_device_and_in_all);
	tcase_add_test(c, test_attack_07_what_hangs_takes_no_turn);
	tcase_add_test(c, test_attack_07_what_hangs_leaves_the_device);
	tcase_add_test(c, test_attack_07_slow_jobs_leave_room);
	tcase_add_test(c, due_ones_come_in_order);
	tcase_add_test(c, directory_at_hand_is_one_jobs);
	suite_add_tcase(s, c);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
