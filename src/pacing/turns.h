/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who waits, in the order they came: lanes of several jobs share a device evenly, as whoever had a
 * turn waits behind all others for the next. Its user has the lock. */
#pragma once

#include <stdbool.h>

/* On the waiting thread's stack. */
struct turn {
	struct turn *next;
};

/* All zero is nobody. */
struct turns {
	struct turn *first;
};

/* Lines up behind all others. */
void turns_enter(struct turns *t, struct turn *me);

static inline bool turns_is_first(const struct turns *t, const struct turn *me)
{
	return t->first == me;
}

/* Leaves from wherever in the line. Returns whether somebody else is first now, and has to know. */
bool turns_leave(struct turns *t, struct turn *me);
