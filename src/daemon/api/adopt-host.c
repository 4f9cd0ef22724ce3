/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a host of the fleet has left, as callers have it adopted. */
#include <errno.h>
#include <stdlib.h>

#include "caller.h"
#include "daemon/fleet/fleet.h"
#include "fields.h"
#include "operations-state.h"
#include "operations.h"

struct adopting {
	piece_seen_t seen;
	operation_done_t done;
	void *userdata;
};

static void on_adopted(const struct failure *f, const struct adoption_item *items, size_t n,
		       void *userdata)
{
	struct adopting *a = userdata;

	for (size_t i = 0; i < n; i++)
		a->seen(adoption_fields, &items[i], a->userdata);
	a->done(f, a->userdata);
	free(a);
}

void operation_adopt(struct operations *o, const struct caller *c, const char *host, bool dry_run,
		     piece_seen_t seen, operation_done_t done, void *userdata)
{
	struct failure f = { 0 };
	struct adopting *a = NULL;

	if (c->id.uid != 0) {
		failure_set(&f, ERROR_NOT_AUTHORIZED, "only root may adopt what a host has left");
	} else if (!operations_stopping(o, &f)) {
		a = malloc(sizeof(*a));
		if (!a)
			failure_errno(&f, -ENOMEM, "nothing was done");
	}
	if (!a) {
		done(&f, userdata);
		return;
	}
	*a = (struct adopting){ seen, done, userdata };
	fleet_adopt(o->fleet ? *o->fleet : NULL, host, dry_run, on_adopted, a);
}
