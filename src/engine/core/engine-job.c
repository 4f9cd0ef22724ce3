/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "engine-job.h"

#include <string.h>

#define PROGRESS_EVERY (100 * USEC_PER_MSEC)

static void report(struct engine_job *j, const char *path, const char *what, int error,
		   bool is_error)
{
	struct engine_problem p = {
		.path = path, .what = what, .error = error, .is_error = is_error
	};

	if (!j->o.problem)
		return;
	pthread_mutex_lock(&j->report_lock);
	j->o.problem(&p, j->o.userdata);
	pthread_mutex_unlock(&j->report_lock);
}

void job_stats(const struct engine_job *j, struct stats *ret)
{
	const uint64_t *from = (const uint64_t *)&j->stats;
	uint64_t *to = (uint64_t *)ret;

	/* Every field before first_error is a 64-bit counter. */
	for (size_t i = 0; i < offsetof(struct stats, first_error) / sizeof(uint64_t); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	ret->first_error = __atomic_load_n(&j->stats.first_error, __ATOMIC_RELAXED);
}

void job_progress(struct engine_job *j, bool last)
{
	uint64_t now = now_usec();
	struct engine_progress p = { .elapsed_usec = now - j->began_usec };

	if (!j->o.progress || (!last && now - j->reported_usec < PROGRESS_EVERY))
		return;
	j->reported_usec = now;
	job_stats(j, &p.stats);
	j->o.progress(&p, j->o.userdata);
}

void job_error(struct engine_job *j, const char *path, const char *what, int error)
{
	int none = 0;

	stat_add(&j->stats.errors, 1);
	__atomic_compare_exchange_n(&j->stats.first_error, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	report(j, path, what, error, true);
}

void job_skip(struct engine_job *j, enum skip_reason why, const char *path)
{
	static const char *const words[SKIP_REASONS] = {
		[SKIP_MOUNT] = "is a mount point: not crossed, kept with all that is in it",
		[SKIP_CHANGED] = "is no longer what it was when it was looked at: kept",
		[SKIP_MOVED] = "was moved out of the tree while it was deleted: the rest is kept",
	};

	job_skip_as(j, why, path, words[why]);
}

void job_skip_as(struct engine_job *j, enum skip_reason why, const char *path, const char *words)
{
	stat_add(&j->stats.skipped[why], 1);
	if (words)
		report(j, path, words, 0, false);
}

const char *skip_reason_name(enum skip_reason why)
{
	static const char *const names[SKIP_REASONS] = {
		[SKIP_MISSING] = "missing",     [SKIP_MOUNT] = "mount", [SKIP_CHANGED] = "changed",
		[SKIP_PINNED] = "pinned",       [SKIP_MOVED] = "moved", [SKIP_KEPT] = "kept",
		[SKIP_CANCELLED] = "cancelled",
	};

	return names[why];
}
