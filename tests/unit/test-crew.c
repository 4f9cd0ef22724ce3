/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What lanes give away and take back. */
#include <stdlib.h>

#include "engine/tune/lanes.h"
#include "engine/core/engine-job.h"
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

static void task_free(struct job *j, struct task *t)
{
	node_put(j, t->node);
	free(t);
}

/* The count of how often a directory was listed again is with its task, and must not get lost: it
 * is what ends a job whose tree is being filled. */
START_TEST(directories_that_are_listed_again_are_not_exchanged)
{
	struct job j = { .ways = { .lanes_max = 2 } };
	struct node *n = node_new(NULL, -1, "", 0);
	struct task *again = task_new(n, 1), *fresh = task_new(n, 0), *mine = task_new(n, 0);
	struct crew *c;

	ck_assert_int_eq(crew_new(&c, &j), 0);
	crew_add(c, again);
	ck_assert_ptr_null(crew_exchange(c, mine));
	ck_assert_uint_eq(crew_queued(c), 1);
	crew_add(c, fresh);
	ck_assert_ptr_eq(crew_exchange(c, mine), fresh);
	ck_assert_uint_eq(crew_queued(c), 2);
	task_free(&j, fresh);
	crew_free(c);
	node_put(&j, n);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { directories_that_are_listed_again_are_not_exchanged };

	return run_case("crew", tests, ELEMENTSOF(tests));
}
