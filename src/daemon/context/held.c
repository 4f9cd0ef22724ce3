/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "held.h"

#include <errno.h>

#include "base/macros.h"

static bool is_over(const struct held *h, uint64_t most)
{
	return h->names > most || h->bytes > most * HELD_NAME_BYTES;
}

/* Half of what others leave. */
static uint64_t half(uint64_t all, uint64_t others)
{
	return all > others ? (all - others) / 2 : 0;
}

uint64_t held_part(uint64_t user, uint64_t all, uint64_t most)
{
	return MIN(most, MAX(half(2 * most, all - user), (uint64_t)HELD_LEAST));
}

uint64_t held_share(const struct held *user, const struct held *all, uint64_t most)
{
	uint64_t names = half(2 * most, all->names - user->names);
	uint64_t bytes = half(2 * most * HELD_NAME_BYTES, all->bytes - user->bytes);

	return MIN(most, MAX(MIN(names, bytes / HELD_NAME_BYTES), (uint64_t)HELD_LEAST));
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
	if (is_over(user, most))
		return -EDQUOT;
	return is_over(user, held_share(user, all, most)) ? -ENFILE : 0;
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
