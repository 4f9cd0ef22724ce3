/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "top-model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/estimate.h"
#include "ctl/output/messages.h"
#include "base/macros.h"

/* The share of the newest rate in the one shown. */
#define SMOOTH 0.3
/* So many bytes take about as long as an entry. */
#define BYTES_PER_ENTRY ((double)MiB(4))

const char *const top_state_names[TOP_STATES] = { "running", "queued", "paused", "held",
						  "accepted" };

void top_model_done(struct top_model *m)
{
	metrics_done(&m->metrics);
	for (size_t s = 0; s < TOP_STATES; s++)
		job_list_done(&m->lists[s]);
	free(m->devices);
	free(m->jobs);
	*m = (struct top_model){ 0 };
}

static double rate(double before, uint64_t done, uint64_t done_before, double seconds)
{
	double now = done > done_before ? (double)(done - done_before) / seconds : 0;

	return before < 0 ? now : before * (1 - SMOOTH) + now * SMOOTH;
}

/* How fast a running job goes, from what was known of it before. */
static void rates_find(struct top_job *j, const struct top_model *before, uint64_t now)
{
	const struct job_line *l = j->line;
	double seconds = ((double)now - (double)before->usec) / (double)USEC_PER_SEC;

	for (size_t i = 0; i < before->n_jobs && seconds > 0; i++) {
		const struct top_job *b = &before->jobs[i];

		if (b->line->id != l->id || strcmp(b->line->state, "running") != 0)
			continue;
		j->entries_rate =
			rate(b->entries_rate, l->entries_done, b->line->entries_done, seconds);
		j->bytes_rate = rate(b->bytes_rate, l->bytes_freed, b->line->bytes_freed, seconds);
		j->since_usec = b->since_usec > 0 ? b->since_usec : before->usec;
		return;
	}
}

static struct top_job job_make(const struct job_line *l, const struct top_model *before,
			       uint64_t now)
{
	double done = (double)l->entries_done + (double)l->bytes_freed / BYTES_PER_ENTRY;
	double total = (double)l->entries + (double)l->bytes / BYTES_PER_ENTRY;
	struct top_job j = { .line = l, .share = -1, .entries_rate = -1, .bytes_rate = -1 };
	double speed;

	if (l->entries > 0 && total > 0)
		j.share = MIN(done / total, 1.0);
	if (strcmp(l->state, "running") == 0)
		rates_find(&j, before, now);
	speed = j.entries_rate + j.bytes_rate / BYTES_PER_ENTRY;
	if (j.since_usec > 0 && now - j.since_usec >= ESTIMATE_BASIS_USEC && j.share >= 0 &&
	    speed > 0 && total > done)
		j.left_usec = (uint64_t)((total - done) / speed * (double)USEC_PER_SEC);
	return j;
}

static struct top_device device_make(const json_t *now, const struct top_model *before)
{
	struct top_device d = { .now = now };
	double target = (double)json_number(now, "target_usec");

	for (size_t i = 0; i < before->n_devices; i++)
		if (strcmp(json_text(before->devices[i].now, "key"), json_text(now, "key")) == 0)
			memcpy(d.history, before->devices[i].history + 1,
			       sizeof(d.history) - sizeof(double));
	/* At full speed there is no foreign I/O that a quantum could delay. */
	if (target > 0 && strcmp(json_text(now, "mode"), "paced") == 0)
		d.history[TOP_HISTORY - 1] = (double)json_number(now, "piece_usec") / target;
	return d;
}

int top_model_update(struct top_model *m, struct metrics *metrics,
		     struct job_list lists[TOP_STATES], uint64_t now_usec)
{
	size_t n_devices = json_array_size(metrics->devices), n_jobs = 0;
	struct top_model next = { .usec = now_usec };

	for (size_t s = 0; s < TOP_STATES; s++)
		n_jobs += lists[s].n;
	next.jobs = calloc(n_jobs + 1, sizeof(*next.jobs));
	next.devices = calloc(n_devices + 1, sizeof(*next.devices));
	if (!next.jobs || !next.devices) {
		top_model_done(&next);
		return -ENOMEM;
	}
	for (size_t s = 0; s < TOP_STATES; s++) {
		for (size_t i = 0; i < lists[s].n; i++)
			next.jobs[next.n_jobs++] = job_make(&lists[s].v[i], m, now_usec);
		next.lists[s] = lists[s];
		lists[s] = (struct job_list){ 0 };
	}
	for (; next.n_devices < n_devices; next.n_devices++)
		next.devices[next.n_devices] =
			device_make(json_array_get(metrics->devices, next.n_devices), m);
	next.metrics = *metrics;
	*metrics = (struct metrics){ 0 };
	top_model_done(m);
	*m = next;
	return 0;
}

size_t top_model_place(const struct top_model *m, uint64_t id, size_t was)
{
	for (size_t i = 0; i < m->n_jobs; i++)
		if (m->jobs[i].line->id == id)
			return i;
	return m->n_jobs > 0 ? MIN(was, m->n_jobs - 1) : 0;
}
