/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What lanes give away and take back. */
#include <stdlib.h>

#include "engine/tune/lanes.h"
#include "engine/walk/node.h"
#include "support.h"
#include "base/macros.h"

static struct task *task_new(struct node *n, unsigned relists)
{
	struct task *t = calloc(1, sizeof(*t) + TASK_RECORD);

	t->node = node_ref(n);
	t->n_names = 1;
	t->relists = relists;
	return t;
}

static void task_free(struct engine_job *j, struct task *t)
{
	node_put(j, t->node);
	free(t);
}

/* The count of how often a directory was listed again is with its task, and must not get lost: it
 * is what ends a job whose tree is being filled. */
START_TEST(directories_that_are_listed_again_are_not_exchanged)
{
	struct engine_job j = { .profile = { .lanes_max = 2 } };
	struct node *n = node_new(NULL, -1, "", 0);
	struct task *again = task_new(n, 1), *fresh = task_new(n, 0), *mine = task_new(n, 0);
	struct lanes *l;

	ck_assert_int_eq(lanes_new(&l, &j), 0);
	tasks_add(j.tasks, again);
	ck_assert_ptr_null(tasks_exchange(j.tasks, mine));
	ck_assert_uint_eq(tasks_queued(j.tasks), 1);
	tasks_add(j.tasks, fresh);
	ck_assert_ptr_eq(tasks_exchange(j.tasks, mine), fresh);
	ck_assert_uint_eq(tasks_queued(j.tasks), 2);
	task_free(&j, fresh);
	lanes_free(l);
	node_put(&j, n);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { directories_that_are_listed_again_are_not_exchanged };

	return run_case("tasks", tests, ELEMENTSOF(tests));
}
