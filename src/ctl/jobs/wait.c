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

static int on_finished(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct waiter *w = userdata;
	uint64_t id;

	(void)ret_error;
	if (sd_bus_message_read(m, "t", &id) < 0)
		return 0;
	w->ended = w->ended || w->n_ids == 0;
	for (size_t i = 0; i < w->n_ids; i++)
		w->ended = w->ended || w->ids[i] == id;
	return 0;
}

/* Waits until a job ends, or it is time to look again. Returns 0, or a negative errno if the
 * connection is lost. */
static int end_wait(struct waiter *w)
{
	uint64_t end = now_usec() + w->every_usec, now;
	sd_bus *bus = w->client->way.bus;
	int r = 0;

	w->ended = false;
	while (!w->ended && (r >= 0 || r == -EINTR)) {
		r = sd_bus_process(bus, NULL);
		if (r != 0)
			continue;
		now = now_usec();
		if (now >= end)
			return 0;
		r = sd_bus_wait(bus, end - now);
	}
	return r;
}

/* As long as the connection lasts. */
static int wait_connected(struct waiter *w)
{
	sd_bus_slot *slot = NULL;
	int r = sd_bus_match_signal(w->client->way.bus, &slot, NULL, MANAGER_PATH,
				    MANAGER_INTERFACE, "JobFinished", on_finished, w);

	if (r < 0)
		return r == -ENOTCONN || r == -ECONNRESET || r == -EPIPE ? CLIENT_LOST
									 : client_broken(r);
	w->begins = true;
	do {
		r = w->step(w);
		w->begins = false;
		if (r == WAIT_ON && end_wait(w) < 0)
			r = CLIENT_LOST;
	} while (r == WAIT_ON);
	sd_bus_slot_unref(slot);
	progress_pause(w->progress);
	if (w->drawn)
		(void)fputs("\r\033[K", stderr);
	w->drawn = false;
	return r;
}

int wait_until(struct waiter *w)
{
	int r;

	w->client->outlives = true;
	while ((r = wait_connected(w)) == CLIENT_LOST) {
		r = client_again(w->client, w->o);
		if (r)
			break;
	}
	return r;
}

struct job_wait {
	struct job_list jobs; /* as they were last seen */
	bool *told;           /* of each: that it does not go on by itself */
};

/* Each job that is asked for must be there. */
static int missing_tell(const struct waiter *w, const struct job_list *jobs)
{
	int status = 0;

	for (size_t i = 0, k = 0; i < w->n_ids; i++) {
		if (k < jobs->n && jobs->v[k].id == w->ids[i]) {
			k++;
			continue;
		}
		(void)fprintf(stderr, "reclaimctl: job %" PRIu64 ": no such job\n", w->ids[i]);
		status = EXIT_FAILED;
	}
	return status;
}

/* Says of a job that does not run why it does not. Returns whether it does. */
static bool standing_tell(const struct waiter *w, const struct job_line *j)
{
	bool held = strcmp(j->state, "held") == 0, paused = strcmp(j->state, "paused") == 0;
	char moment[TIMESTAMP_SIZE];

	if (w->o->quiet || !isatty(STDERR_FILENO) || (!held && !paused))
		return false;
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
	return true;
}

static bool is_over(const struct waiter *w, struct job_line *j)
{
	if (w->o->no_settle && strcmp(j->state, "running") == 0)
		job_line_settling(w->client, j);
	return j->settling || job_is_finished(j->state);
}

static int jobs_step(struct waiter *w)
{
	const struct job_wish wish = { .ids = w->ids, .n_ids = w->n_ids };
	struct job_wait *jw = w->userdata;
	bool finished = true, complete = true;
	struct engine_progress p = { 0 };
	uint64_t entries = 0, bytes = 0;
	int r = job_list_get(w->client, &wish, &jw->jobs);

	if (r == 0)
		r = missing_tell(w, &jw->jobs);
	if (r)
		return r;
	for (size_t i = 0; i < jw->jobs.n; i++) {
		struct job_line *j = &jw->jobs.v[i];

		finished = is_over(w, j) && finished;
		if (i < w->n_ids)
			jw->told[i] = jw->told[i] || standing_tell(w, j);
		p.stats.entries += j->entries_done;
		p.stats.bytes += j->bytes_freed;
		entries += j->entries;
		bytes += j->bytes;
		complete = complete && j->entries > 0;
	}
	if (finished)
		return EXIT_DONE;
	progress_total(w->progress, entries, bytes, complete);
	progress_update(w->progress, &p);
	return WAIT_ON;
}

static int outcome(const struct job_list *l)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].settling || strcmp(l->v[i].state, "done") == 0)
			continue;
		if (strcmp(l->v[i].state, "partial") != 0)
			return EXIT_FAILED;
		status = EXIT_PARTLY;
	}
	return status;
}

int wait_jobs(struct client *c, const struct options *o, const uint64_t *ids, size_t n)
{
	struct job_wait jw = { .told = calloc(n + 1, sizeof(bool)) };
	struct waiter w = { .client = c,
			    .o = o,
			    .ids = ids,
			    .n_ids = n,
			    .every_usec = ASK_EVERY,
			    .step = jobs_step,
			    .userdata = &jw };
	int r;

	if (!jw.told)
		return client_broken(-ENOMEM);
	if (isatty(STDERR_FILENO))
		w.progress = progress_new(SWITCH_AUTO, o->quiet);
	/* No signal tells of what settles. */
	if (w.progress || o->no_settle)
		w.every_usec = ASK_EVERY_BAR;
	interrupt_says_jobs(ids, n, /* answered= */ true);
	r = wait_until(&w);
	progress_free(w.progress);
	if (r == 0 && o->json != JSON_OFF)
		jobs_json_print(stdout, jw.jobs.v, jw.jobs.n, o->json == JSON_PRETTY);
	for (size_t i = 0; r == 0 && o->json == JSON_OFF && !o->quiet && i < jw.jobs.n; i++)
		job_end_print(&jw.jobs.v[i]);
	r = r ? r : outcome(&jw.jobs);
	job_list_done(&jw.jobs);
	free(jw.told);
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
