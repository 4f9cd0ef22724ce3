/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The API on Varlink: conf/org.reclaimd.Reclaim.varlink, by sd-varlink of libsystemd 257 or later;
 * nothing where that is older.
 *
 *   varlink.c            opens and closes it; its connections
 *   varlink-interface.c  the description that clients are given
 *   varlink-call.c       one method call, from its parameters to its answer
 *   varlink-values.c     what is in parameters and answers
 *   varlink-submit.c, varlink-jobs.c, varlink-views.c   the methods
 *   varlink-monitor.c    who is told of what happens
 *
 * Belongs to a bus (bus.h), whose sockets, quotas and views it uses. Nothing in it blocks. */
#pragma once

#include "store/store.h"

struct bus;
struct varlink;

#ifdef RECLAIM_VARLINK

/* Returns 0, or a negative errno: that of listening at the path, -ENOMEM. */
int varlink_new(struct varlink **ret, struct bus *b, const char *path);
/* Ends all connections. NULL is accepted, here and below; returns NULL. */
struct varlink *varlink_free(struct varlink *v);

/* What happened (of the type Happening) to a job: to those who may see it. */
void varlink_tell_job(struct varlink *v, const char *happening, const struct job_record *r);
/* A property of the daemon has changed, named as in the D-Bus interface. */
void varlink_tell_daemon(struct varlink *v, const char *property);

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

static inline void varlink_tell_job(struct varlink *v, const char *happening,
				    const struct job_record *r)
{
	(void)v;
	(void)happening;
	(void)r;
}

static inline void varlink_tell_daemon(struct varlink *v, const char *property)
{
	(void)v;
	(void)property;
}

#endif
