/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl wait: until jobs have finished, or enough is free.
 *
 * The daemon is asked about the jobs again and again, but rarely: it says by itself when one ends.
 *
 * With --json, an array with one object for each job, as list has it; nothing with --free.
 */
#include "wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/interrupt.h"
#include "job-list.h"
#include "job-print.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/messages.h"
#include "ctl/output/progress.h"
#include "base/fd.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

/* How often to ask: for a bar, and where only the end matters and the daemon will tell it. */
#define ASK_EVERY_BAR (USEC_PER_SEC / 4)
#define ASK_EVERY (5 * USEC_PER_SEC)

static bool is_among(uint64_t id, const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return n == 0;
}

static int on_finished(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct end_signals *e = userdata;
	uint64_t id;

	(void)ret_error;
	if (sd_bus_message_read(m, "t", &id) >= 0 && is_among(id, e->ids, e->n_ids))
		e->received = true;
	return 0;
}

int end_signals_open(struct end_signals *e, struct client *c, const uint64_t *ids, size_t n_ids)
{
	*e = (struct end_signals){ .bus = client_bus(c), .ids = ids, .n_ids = n_ids };
	return sd_bus_match_signal(e->bus, &e->slot, NULL, MANAGER_PATH, MANAGER_INTERFACE,
				   "JobFinished", on_finished, e);
}

int end_signals_failed(int r)
{
	return r == -ENOTCONN || r == -ECONNRESET || r == -EPIPE ? CLIENT_LOST : client_broken(r);
}

void end_signals_close(struct end_signals *e)
{
	e->slot = sd_bus_slot_unref(e->slot);
}

int end_signals_wait(struct end_signals *e, uint64_t usec)
{
	uint64_t end = now_usec() + usec, now;

	e->received = false;
	while (!e->received) {
		int r = sd_bus_process(e->bus, NULL);

		if (r < 0)
			return r;
		if (r > 0)
			continue;
		now = now_usec();
		if (now >= end)
			return 0;
		r = sd_bus_wait(e->bus, end - now);
		if (r < 0 && r != -EINTR)
			return r;
	}
	return 0;
}

struct job_wait {
	struct client *client;
	const struct options *o;
	const uint64_t *ids;
	size_t n;
	struct job_list jobs; /* as they were last seen */
	struct progress *progress;
	bool *told; /* for each id: that it does not go on by itself */
};

static size_t unfinished(const struct job_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += !job_is_finished(l->v[i].state);
	return n;
}

/* Each job that is asked for must be there. */
static int missing_tell(const struct job_wait *w)
{
	int status = 0;

	for (size_t i = 0; i < w->n; i++) {
		bool there = false;

		for (size_t k = 0; k < w->jobs.n && !there; k++)
			there = w->jobs.v[k].id == w->ids[i];
		if (!there) {
			(void)fprintf(stderr, "reclaimctl: job %" PRIu64 ": no such job\n",
				      w->ids[i]);
			status = EXIT_FAILED;
		}
	}
	return status;
}

/* Says of each job that does not run why it does not. */
static void standing_tell(struct job_wait *w)
{
	char moment[TIMESTAMP_SIZE];

	for (size_t i = 0; i < w->jobs.n; i++) {
		const struct job_line *j = &w->jobs.v[i];
		bool held = strcmp(j->state, "held") == 0, paused = strcmp(j->state, "paused") == 0;

		if (w->o->quiet || !isatty(STDERR_FILENO) || w->told[i] || (!held && !paused))
			continue;
		w->told[i] = true;
		progress_pause(w->progress);
		if (paused)
			(void)fprintf(stderr,
				      "Job %" PRIu64 " is paused; reclaimctl resume %" PRIu64
				      " lets it go on\n",
				      j->id, j->id);
		else
			(void)fprintf(stderr, "Job %" PRIu64 " is held until %s\n", j->id,
				      timestamp_format(moment, sizeof(moment), j->held_until_usec,
						       realtime_usec()));
	}
}

static void bar_update(const struct job_wait *w)
{
	struct engine_progress p = { 0 };
	uint64_t entries = 0, bytes = 0;
	bool complete = true;

	for (size_t i = 0; i < w->jobs.n; i++) {
		const struct job_line *j = &w->jobs.v[i];

		p.stats.entries += j->entries_done;
		p.stats.bytes += j->bytes_freed;
		entries += j->entries;
		bytes += j->bytes;
		complete = complete && j->entries > 0;
	}
	progress_total(w->progress, entries, bytes, complete);
	progress_update(w->progress, &p);
}

/* Asks until all have finished. */
static int wait_loop(struct job_wait *w, struct end_signals *signals)
{
	const struct job_wish wish = { .ids = w->ids, .n_ids = w->n };
	int r;

	for (;;) {
		r = job_list_get(w->client, &wish, &w->jobs);
		if (r == 0)
			r = missing_tell(w);
		if (r || unfinished(&w->jobs) == 0)
			return r;
		standing_tell(w);
		bar_update(w);
		r = end_signals_wait(signals, w->progress ? ASK_EVERY_BAR : ASK_EVERY);
		if (r < 0)
			return CLIENT_LOST;
	}
}

/* The same, as long as the connection lasts. */
static int wait_connected(struct job_wait *w)
{
	struct end_signals signals = { 0 };
	int r = end_signals_open(&signals, w->client, w->ids, w->n);

	r = r < 0 ? end_signals_failed(r) : wait_loop(w, &signals);
	end_signals_close(&signals);
	return r;
}

static int outcome(const struct job_list *l)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].state, "done") == 0)
			continue;
		if (strcmp(l->v[i].state, "partial") != 0)
			return EXIT_FAILED;
		status = EXIT_PARTLY;
	}
	return status;
}

static void ends_print(const struct job_wait *w)
{
	json_t *array = w->o->json != JSON_OFF ? json_array() : NULL;

	for (size_t i = 0; i < w->jobs.n; i++)
		if (array)
			(void)json_array_append_new(array, job_line_json(&w->jobs.v[i]));
		else if (!w->o->quiet)
			job_end_print(&w->jobs.v[i]);
	if (array)
		json_print(array, w->o->json);
}

int wait_jobs(struct client *c, const struct options *o, const uint64_t *ids, size_t n)
{
	struct job_wait w = { .client = c, .o = o, .ids = ids, .n = n };
	int r;

	w.told = calloc(MAX(n, (size_t)1), sizeof(w.told[0]));
	if (!w.told)
		return client_broken(-ENOMEM);
	if (isatty(STDERR_FILENO))
		w.progress = progress_new(SWITCH_AUTO, o->quiet);
	client_outlive(c);
	interrupt_says_jobs(ids, n);
	while ((r = wait_connected(&w)) == CLIENT_LOST) {
		progress_pause(w.progress);
		r = client_again(c, o);
		if (r)
			break;
	}
	progress_free(w.progress);
	if (r == 0) {
		ends_print(&w);
		r = outcome(&w.jobs);
	}
	job_list_done(&w.jobs);
	free(w.told);
	return r;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The jobs of the command line, in order and each once. */
static int ids_parse(const struct options *o, uint64_t *ids, size_t *ret_n)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_paths; i++) {
		int r = job_id_parse(o->paths[i], &ids[i]);

		if (r)
			return r;
	}
	qsort(ids, o->n_paths, sizeof(ids[0]), by_number);
	for (size_t i = 0; i < o->n_paths; i++)
		if (n == 0 || ids[n - 1] != ids[i])
			ids[n++] = ids[i];
	*ret_n = n;
	return 0;
}

int verb_wait(const struct options *o, struct client *c)
{
	_cleanup_free_ uint64_t *ids = NULL;
	size_t n = 0;
	int r;

	if (o->wait == WAIT_FREE)
		return wait_free(c, o, o->paths[0]);
	ids = calloc(o->n_paths, sizeof(ids[0]));
	if (!ids)
		return client_broken(-ENOMEM);
	r = ids_parse(o, ids, &n);
	return r ? r : wait_jobs(c, o, ids, n);
}
