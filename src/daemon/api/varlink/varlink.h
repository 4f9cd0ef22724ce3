/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The API on Varlink: conf/org.reclaimd.Reclaim.varlink, by sd-varlink of libsystemd 257 or later;
 * nothing where that is older.
 *
 *   varlink-server.c       opens and closes it; its connections
 *   varlink-interface.awk  makes, of that text, the description that clients are given
 *   varlink-call.c         one method call, from its parameters to its answer
 *   varlink-values.c       what is in parameters and answers
 *   varlink-submit.c, varlink-jobs.c, varlink-views.c   the methods
 *   varlink-monitor.c      clients that are told of what happens
 *
 * Uses the sockets, quotas and views of the bus (bus.h). Nothing in it blocks. */
#pragma once

struct bus;
struct varlink;

#ifdef RECLAIM_VARLINK

/* Listens at the path; b must outlive it. Returns 0, or a negative errno: that of listening, or
 * -ENOMEM. Where this build has no Varlink: 0, and *ret is as it was. */
int varlink_new(struct varlink **ret, struct bus *b, const char *path);
/* Ends all connections. NULL is accepted, here and below; returns NULL. */
struct varlink *varlink_free(struct varlink *v);

#else

static inline int varlink_new(struct varlink **ret, struct bus *b, const char *path)
{
	(void)ret;
	(void)b;
	(void)path;
	return 0;
}

static inline struct varlink *varlink_free(struct varlink *v)
{
	(void)v;
	return NULL;
}

#endif
