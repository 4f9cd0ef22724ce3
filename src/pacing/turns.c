/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "turns.h"

#include <stddef.h>

void turns_enter(struct turns *t, struct turn *me)
{
	struct turn **p = &t->first;

	while (*p)
		p = &(*p)->next;
	me->next = NULL;
	*p = me;
}

bool turns_leave(struct turns *t, struct turn *me)
{
	bool first = t->first == me;

	for (struct turn **p = &t->first; *p; p = &(*p)->next)
		if (*p == me) {
			*p = me->next;
			break;
		}
	return first && t->first;
}
