/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "failing.h"

#include <errno.h>
#include <stdatomic.h>

/* Which call fails, 0: none; and how many after it. */
static atomic_uint countdown, more;
static atomic_bool met;

void failing_arm(unsigned nth, unsigned n_more)
{
	atomic_store(&met, false);
	atomic_store(&more, n_more);
	atomic_store(&countdown, nth);
}

bool failing_met(void)
{
	return atomic_load(&met);
}

bool failing_disarm(void)
{
	bool was = failing_met();

	failing_arm(0, 0);
	return was;
}

/* Counts down, as long as there is something to count. Returns what there was. */
static unsigned take(atomic_uint *n)
{
	unsigned was = atomic_load(n);

	while (was > 0 && !atomic_compare_exchange_weak(n, &was, was - 1))
		;
	return was;
}

bool fails(int error)
{
	unsigned n = take(&countdown);

	if (n == 1)
		atomic_store(&met, true);
	if (n != 1 && (n > 0 || !failing_met() || take(&more) == 0))
		return false;
	errno = error;
	return true;
}
