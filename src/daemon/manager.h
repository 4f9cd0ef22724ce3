/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The daemon as a whole: its parts, put together, started, reloaded and ended. The parts do not
 * know it; what all of them work with is the context (context/context.h). */
#pragma once

#include "daemon/context/context.h"

struct manager;

/* Reads the configuration and the job store. o and its strings live as long as the manager. Returns
 * 0 or a negative errno: -EBADMSG if the configuration is wrong, -ECANCELED if it was told to end
 * while it waited for room. What is wrong has been logged, but for other errors. */
int manager_new(struct manager **ret, const struct daemon_options *o);
/* NULL is accepted; returns NULL. */
struct manager *manager_free(struct manager *m);
static inline void manager_freep(struct manager **m)
{
	(void)manager_free(*m);
}
/* Recovery begins, the sockets listen, and the loop runs until the daemon is to end. Returns 0 or a
 * negative errno. */
int manager_run(struct manager *m);
