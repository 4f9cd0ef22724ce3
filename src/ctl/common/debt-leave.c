/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "debt-leave.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/fd.h"
#include "client.h"

/* Longer than reclaimd takes at most. */
#define ANSWER_USEC (70 * USEC_PER_SEC)
/* How often it is looked whether it is cancelled. */
#define LOOK_USEC (100 * USEC_PER_MSEC)

struct answer {
	bool here;
	int error;
};

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct answer *a = userdata;

	(void)error;
	*a = (struct answer){ true, -sd_bus_message_get_errno(m) };
	return 0;
}

static int wait_for(struct client *c, const struct answer *a, const _Atomic bool *cancelled)
{
	int r = 0;

	while (r >= 0 && !a->here && !atomic_load(cancelled)) {
		r = sd_bus_process(c->way.bus, NULL);
		if (r == 0)
			r = sd_bus_wait(c->way.bus, LOOK_USEC);
		if (r == -EINTR)
			r = 0;
	}
	return a->here ? a->error : r < 0 ? r : -ECANCELED;
}

int debt_leave(const struct options *o, int dirfd, uint64_t entries, uint64_t bytes,
	       const _Atomic bool *cancelled)
{
	_cleanup_client_ struct client *c = client_try(o, /* socket_first= */ true);
	_cleanup_message_ sd_bus_message *m =
		c ? client_message(c, MANAGER_PATH, MANAGER_INTERFACE, "Settle") : NULL;
	_cleanup_(sd_bus_slot_unrefp) sd_bus_slot *slot = NULL;
	struct answer a = { 0 };
	int r;

	if (!c)
		return -ENOTCONN;
	/* What is not committed yet could not be written back yet. */
	(void)fd_sync_dir(dirfd);
	r = m ? sd_bus_message_append(m, "htt", dirfd, entries, bytes) : -ENOMEM;
	if (r >= 0)
		r = sd_bus_call_async(c->way.bus, &slot, m, on_answer, &a, ANSWER_USEC);
	return r < 0 ? r : wait_for(c, &a, cancelled);
}
