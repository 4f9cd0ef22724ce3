/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "held.h"

#include <errno.h>

static bool is_over(const struct held *h, uint64_t most)
{
	return h->names > most || h->bytes > most * HELD_NAME_BYTES;
}

static void add(struct held *h, uint64_t names, uint64_t bytes)
{
	h->names += names;
	h->bytes += bytes;
}

int held_add(struct held *submit, struct held *user, struct held *all, uid_t uid, uint64_t names,
	     uint64_t bytes, uint64_t most)
{
	add(submit, names, bytes);
	add(user, names, bytes);
	if (uid != 0)
		add(all, names, bytes);
	if (is_over(submit, most))
		return -E2BIG;
	if (uid == 0)
		return 0;
	return is_over(user, most) ? -EDQUOT : is_over(all, 2 * most) ? -ENFILE : 0;
}

void held_give(struct held *submit, struct held *user, struct held *all, uid_t uid)
{
	user->names -= submit->names;
	user->bytes -= submit->bytes;
	if (uid != 0) {
		all->names -= submit->names;
		all->bytes -= submit->bytes;
	}
	*submit = (struct held){ 0 };
}
