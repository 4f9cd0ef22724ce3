/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-totals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon/context/log.h"
#include "trim-accept.h"

/* So many filesystems are told apart: users may mount as many as they like. */
#define TOTALS_MOST 256

/* Made if there is none; NULL: out of memory, or of room. */
static struct trim_total *total_of(struct jobs *jobs, const char *mount)
{
	struct trim_total *t;
	size_t n = 0;

	LIST_FOREACH(t, &jobs->trim_totals, link) {
		if (strcmp(t->mount, mount) == 0)
			return t;
		n++;
	}
	t = n < TOTALS_MOST ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	t->mount = strdup(mount);
	if (!t->mount) {
		free(t);
		return NULL;
	}
	LIST_INSERT_HEAD(&jobs->trim_totals, t, link);
	return t;
}

static int load_one(const char *mount, uint64_t finished_usec, void *userdata)
{
	struct trim_total *t = total_of(userdata, mount);

	if (t)
		t->last_done_usec = finished_usec;
	return 0;
}

int trim_totals_load(struct jobs *jobs, struct store *s)
{
	return store_trims_each(s, load_one, jobs);
}

void trim_totals_done(struct jobs *jobs)
{
	struct trim_total *t = LIST_FIRST(&jobs->trim_totals), *next;

	for (; t; t = next) {
		next = LIST_NEXT(t, link);
		free(t->mount);
		free(t);
	}
	LIST_INIT(&jobs->trim_totals);
}

void trim_totals_measured(const struct job *j, uint64_t mib_usec)
{
	struct trim_total *t = mib_usec > 0 ? total_of(j->jobs, j->r.mount) : NULL;

	if (t)
		t->mib_usec = mib_usec;
}

void trim_totals_finished(const struct job *j)
{
	struct trim_total *t = total_of(j->jobs, j->r.mount);

	if (!t)
		return;
	t->finished[j->r.state]++;
	t->trimmed_bytes += j->r.bytes_freed;
	t->longest_step_usec = MAX(t->longest_step_usec, j->r.longest_step_usec);
	if (j->r.state == JOB_DONE) {
		t->last_done_usec = j->r.finished_usec;
		t->freed_bytes = 0;
	}
}

/* ---- after so much ------------------------------------------------------------------------- */

/* Of no client: what fails is told by the job, or here. */
static void on_submitted(const struct failure *f, uint64_t id, void *userdata)
{
	(void)id;
	(void)userdata;
	if (f->cause)
		log_line(LOG_NOTICE, "What jobs have freed is not trimmed: %s", f->text.line);
}

/* What is discarded as it is freed needs no trim, nor has what is on no local device one. */
static bool is_worth_it(struct jobs *jobs, const char *mount)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	const struct mount *m = mounts ? mounts_by_path(mounts, mount) : NULL;

	return m && strcmp(m->target, mount) == 0 && strncmp(m->source, "/dev/", 5) == 0 &&
	       !mount_may_hang(m) && !mount_filesystem_read_only(m) &&
	       !mount_has_option(m, "discard") && !mount_has_option(m, "discard=async");
}

void trim_totals_freed(const struct job *j, uint64_t bytes)
{
	struct jobs *jobs = j->jobs;
	const struct config_trim_limits *limits =
		*j->r.mount ? config_trims(jobs->context->config, j->r.mount) : NULL;
	struct trim_total *t;

	if (bytes == 0 || !limits || limits->after_bytes == 0 || jobs->context->stopping)
		return;
	t = total_of(jobs, j->r.mount);
	if (!t)
		return;
	t->freed_bytes += bytes;
	if (t->freed_bytes < limits->after_bytes || !is_worth_it(jobs, t->mount))
		return;
	t->freed_bytes = 0;
	trim_submit(jobs, t->mount, limits->min_bytes, "trim:after", on_submitted, NULL);
}
