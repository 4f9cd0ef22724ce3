/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "top-model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* The share of the newest rate in the one shown. */
#define SMOOTH 0.3
/* So many bytes take about as long as an entry. */
#define BYTES_PER_ENTRY ((double)MiB(4))

const char *const top_state_names[TOP_STATES] = { "running", "queued", "paused", "held",
						  "accepted" };

static void devices_free(struct top_device *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].key);
		free(v[i].name);
	}
	free(v);
}

void top_model_done(struct top_model *m)
{
	metrics_done(&m->metrics);
	for (size_t s = 0; s < TOP_STATES; s++)
		job_list_done(&m->lists[s]);
	devices_free(m->devices, m->n_devices);
	free(m->jobs);
	free(m->tracks);
	*m = (struct top_model){ 0 };
}

static const struct top_track *track_find(const struct top_model *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_tracks; i++)
		if (m->tracks[i].id == id)
			return &m->tracks[i];
	return NULL;
}

static double rate(double before, uint64_t done, uint64_t done_before, double seconds)
{
	double now = done > done_before ? (double)(done - done_before) / seconds : 0;

	return before < 0 ? now : before * (1 - SMOOTH) + now * SMOOTH;
}

static struct top_track track_next(const struct top_track *old, const struct job_line *j,
				   uint64_t now)
{
	struct top_track t = { j->id, now, j->entries_done, j->bytes_freed, -1, -1 };
	double seconds;

	if (!old || now <= old->usec)
		return t;
	seconds = (double)(now - old->usec) / (double)USEC_PER_SEC;
	t.entries_rate = rate(old->entries_rate, t.entries, old->entries, seconds);
	t.bytes_rate = rate(old->bytes_rate, t.bytes, old->bytes, seconds);
	return t;
}

static int tracks_update(struct top_model *m, const struct job_list *running, uint64_t now)
{
	struct top_track *v = calloc(MAX(running->n, (size_t)1), sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < running->n; i++)
		v[i] = track_next(track_find(m, running->v[i].id), &running->v[i], now);
	free(m->tracks);
	m->tracks = v;
	m->n_tracks = running->n;
	return 0;
}

static struct top_job job_make(const struct job_line *j, const struct top_track *t)
{
	double done = (double)j->entries_done + (double)j->bytes_freed / BYTES_PER_ENTRY;
	double total = (double)j->entries + (double)j->bytes / BYTES_PER_ENTRY;
	struct top_job r = { .line = j, .share = -1 };
	double speed;

	if (j->entries > 0 && total > 0)
		r.share = MIN(done / total, 1.0);
	if (!t || t->entries_rate < 0)
		return r;
	r.entries_per_sec = (uint64_t)t->entries_rate;
	r.bytes_per_sec = (uint64_t)t->bytes_rate;
	speed = t->entries_rate + t->bytes_rate / BYTES_PER_ENTRY;
	if (r.share >= 0 && speed > 0 && total > done)
		r.left_usec = (uint64_t)((total - done) / speed * (double)USEC_PER_SEC);
	return r;
}

static int jobs_update(struct top_model *m)
{
	size_t n = 0;

	free(m->jobs);
	m->jobs = NULL;
	m->n_jobs = 0;
	for (size_t s = 0; s < TOP_STATES; s++)
		n += m->lists[s].n;
	m->jobs = calloc(MAX(n, (size_t)1), sizeof(*m->jobs));
	if (!m->jobs)
		return -ENOMEM;
	for (size_t s = 0; s < TOP_STATES; s++)
		for (size_t i = 0; i < m->lists[s].n; i++) {
			const struct job_line *j = &m->lists[s].v[i];

			m->jobs[m->n_jobs++] = job_make(j, track_find(m, j->id));
		}
	return 0;
}

static const struct top_device *device_find(const struct top_model *m, const char *key)
{
	for (size_t i = 0; i < m->n_devices; i++)
		if (strcmp(m->devices[i].key, key) == 0)
			return &m->devices[i];
	return NULL;
}

static int device_make(const struct top_model *m, const struct daemon_device *d,
		       struct top_device *ret)
{
	const struct top_device *old = device_find(m, d->key);

	*ret = (struct top_device){ .key = strdup(d->key),
				    .name = metrics_device_name(d->key),
				    .now = d };
	if (old)
		memcpy(ret->history, old->history + 1, sizeof(ret->history) - sizeof(double));
	/* At full speed there is no foreign I/O that a quantum could delay. */
	if (d->target_usec > 0 && strcmp(d->mode, "paced") == 0)
		ret->history[TOP_HISTORY - 1] = (double)d->quantum_usec / (double)d->target_usec;
	return ret->key && ret->name ? 0 : -ENOMEM;
}

static int devices_update(struct top_model *m)
{
	const struct daemon_devices *live = &m->metrics.live;
	struct top_device *v = calloc(MAX(live->n, (size_t)1), sizeof(*v));
	int r = v ? 0 : -ENOMEM;
	size_t n = 0;

	for (; r >= 0 && n < live->n; n++)
		r = device_make(m, &live->v[n], &v[n]);
	devices_free(m->devices, m->n_devices);
	m->devices = v;
	m->n_devices = v ? n : 0;
	return r;
}

int top_model_update(struct top_model *m, struct metrics *metrics,
		     struct job_list lists[TOP_STATES], uint64_t now_usec)
{
	int r = tracks_update(m, &lists[TOP_RUNNING], now_usec);

	metrics_done(&m->metrics);
	m->metrics = *metrics;
	*metrics = (struct metrics){ 0 };
	for (size_t s = 0; s < TOP_STATES; s++) {
		job_list_done(&m->lists[s]);
		m->lists[s] = lists[s];
		lists[s] = (struct job_list){ 0 };
	}
	if (jobs_update(m) < 0)
		r = -ENOMEM;
	return devices_update(m) < 0 ? -ENOMEM : r;
}

size_t top_model_place(const struct top_model *m, uint64_t id, size_t was)
{
	for (size_t i = 0; i < m->n_jobs; i++)
		if (m->jobs[i].line->id == id)
			return i;
	return m->n_jobs > 0 ? MIN(was, m->n_jobs - 1) : 0;
}
