/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether what a host that is gone for good has left may be adopted, and when: root has asked for
 * it here, which is on record; and the database says that this host has adopted that one. Only to
 * look, neither is needed.
 *
 * Where an adoption stops in the midst, the next one goes on: when this host joins, when root asks
 * again, or when the last job that had adopted something has ended. What jobs have failed to move
 * is not tried by itself for ever. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adoption.h"
#include "base/array.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/gate.h"
#include "base/units.h"
#include "daemon/context/failure.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/workers/worker-handle.h"

/* So long after root has asked the database may take to say so. */
#define SAID_USEC (10 * USEC_PER_SEC)

/* So long after a job has failed, and so often, another one is begun by itself. */
#define AGAIN_USEC (10 * USEC_PER_SEC)
#define TRIES_MOST 3

/* A database may say that of any number of hosts: so many are remembered. */
#define HOSTS_MOST 256

#define WANTED "adopt:" /* before the host, in the store */

/* A host of which the database has said that this one has adopted it. */
struct adopted_host {
	LIST_ENTRY(adopted_host) link;
	struct fleet *fleet;
	char name[FLEET_NAME_SIZE];
	bool said;     /* since the database was reached last */
	bool settled;  /* nothing of what is left can be adopted */
	char **failed; /* directories that jobs were to end, once for each job */
	size_t n_failed;
	sd_event_source *later;
};

/* ---- hosts that are adopted ---------------------------------------------------------------- */

static struct adopted_host *host_find(const struct fleet *f, const char *name)
{
	struct adopted_host *h;

	LIST_FOREACH(h, &f->adopted_hosts, link)
		if (strcmp(h->name, name) == 0)
			return h;
	return NULL;
}

static size_t hosts_count(const struct fleet *f)
{
	const struct adopted_host *h;
	size_t n = 0;

	LIST_FOREACH(h, &f->adopted_hosts, link)
		n++;
	return n;
}

static struct adopted_host *host_get(struct fleet *f, const char *name)
{
	struct adopted_host *h = host_find(f, name);

	if (h || hosts_count(f) >= HOSTS_MOST || !(h = calloc(1, sizeof(*h))))
		return h;
	h->fleet = f;
	fleet_name_copy(h->name, name);
	LIST_INSERT_HEAD(&f->adopted_hosts, h, link);
	return h;
}

static void host_tries_again(struct adopted_host *h)
{
	for (size_t i = 0; i < h->n_failed; i++)
		free(h->failed[i]);
	free(h->failed);
	h->failed = NULL;
	h->n_failed = 0;
	h->settled = false;
}

static void host_free(struct adopted_host *h)
{
	LIST_REMOVE(h, link);
	host_tries_again(h);
	(void)sd_event_source_disable_unref(h->later);
	free(h);
}

static bool is_said(const struct fleet *f, const char *name)
{
	const struct adopted_host *h = host_find(f, name);

	return h && h->said;
}

bool adoption_is_given_up(const struct adoption *a, const char *dir_name)
{
	const struct adopted_host *h = a->fleet ? host_find(a->fleet, a->host) : NULL;
	unsigned n = 0;

	for (size_t i = 0; h && i < h->n_failed; i++)
		n += strcmp(h->failed[i], dir_name) == 0;
	return n >= TRIES_MOST;
}

/* ---- what jobs of this host have adopted --------------------------------------------------- */

/* Is that a job that has adopted something of that host? */
static bool is_of(const struct job_record *r, const char *host)
{
	const char *from = job_adopted_from(r);

	return from && strcmp(from, host) == 0;
}

bool adoption_some_go_on(const struct jobs *jobs, const char *host)
{
	const struct job *j;

	TAILQ_FOREACH(j, &jobs->table.awake, awake)
		if (is_of(&j->r, host) && !job_state_finished(j->r.state))
			return true;
	return false;
}

/* Returns 0 or -ENOMEM. */
static int record_add(struct left_records *records, const char *host, const struct job_record *r)
{
	const char *name = strrchr(r->path, '/');
	struct left_record *record;

	/* One that failed had not been able to move it: it is adopted anew. */
	if (!is_of(r, host) || !name || r->state == JOB_FAILED)
		return 0;
	record = array_add(&records->v, &records->n, sizeof(*record));
	if (!record)
		return -ENOMEM;
	*record = (struct left_record){ .name = strdup(name + 1),
					.goes_on = !job_state_finished(r->state) };
	if (!record->name)
		records->n--;
	return record->name ? 0 : -ENOMEM;
}

static void records_clear(struct left_records *records)
{
	for (size_t i = 0; i < records->n; i++)
		free(records->v[i].name);
	free(records->v);
	*records = (struct left_records){ 0 };
}

/* What is added to jobs from here on, this adoption adds. */
static void records_complete(struct adoption *a)
{
	struct left_record *record;
	const struct job *j;

	TAILQ_FOREACH(j, &a->jobs->table.awake, awake)
		a->unsure = record_add(&a->records, a->host, &j->r) < 0 || a->unsure;
	while (a->late.n > 0 && (record = array_add(&a->records.v, &a->records.n, sizeof(*record))))
		*record = a->late.v[--a->late.n];
	a->unsure = a->late.n > 0 || a->unsure;
	left_records_sort(&a->records);
	a->records_end = true;
}

/* ---- its life ----------------------------------------------------------------------------- */

static void log_end_of(const struct adoption *a, const struct failure *f)
{
	char adopted[COUNTED_SIZE], kept[COUNTED_SIZE];

	if (f->cause)
		log_line(LOG_WARNING, "What %s has left is not adopted, or not all of it: %s",
			 a->host, f->text.line);
	else if (a->findings.adopted > 0 || (a->findings.kept > 0 && a->request.done))
		log_line(a->findings.kept > 0 ? LOG_WARNING : LOG_NOTICE,
			 "Of what %s has left, %s adopted, and %s: see reclaimctl fleet adopt "
			 "--dry-run %s",
			 a->host,
			 counted_format(adopted, sizeof(adopted), a->findings.adopted,
					"directory was", "directories were"),
			 counted_format(kept, sizeof(kept), a->findings.kept, "thing stays",
					"things stay"),
			 a->host);
}

static void go_on(struct fleet *f, const char *host);

/* By itself it is not gone through again, if that could not find anything else. */
static void settle(const struct adoption *a, const struct failure *f)
{
	struct adopted_host *h = a->fleet ? host_find(a->fleet, a->host) : NULL;

	if (h && !f->cause && !a->request.look && a->asked)
		h->settled = !a->may_succeed && !a->unsure && a->findings.adopted == 0 && !a->again;
}

void adoption_finish(struct adoption *a, const struct failure *f)
{
	static const struct failure none;
	struct context *c = a->jobs->context;
	struct adoption_request next = a->next;
	struct fleet *fleet = a->fleet;
	bool again = a->again && fleet;
	char host[FLEET_NAME_SIZE];

	f = f ? f : &none;
	fleet_name_copy(host, a->host);
	settle(a, f);
	if (a->fleet)
		LIST_REMOVE(a, link);
	(void)sd_event_source_disable_unref(a->waits);
	if (!a->request.look && a->asked)
		log_end_of(a, f);
	findings_end(&a->findings, a->host);
	if (a->request.done)
		a->request.done(f, a->findings.items, a->findings.n, a->request.userdata);
	adoption_walk_clear(a);
	records_clear(&a->records);
	records_clear(&a->late);
	findings_clear(&a->findings);
	free(a);
	if (next.done)
		fleet_adopt(fleet, host, next.look, next.done, next.userdata);
	else if (again)
		go_on(fleet, host);
	context_flow_ends(c);
}

static void finish_errno(struct adoption *a, int error, const char *what)
{
	struct failure f = { 0 };

	failure_errno(&f, error, "%s", what);
	adoption_finish(a, &f);
}

bool adoption_is_over(struct adoption *a)
{
	struct failure f = { 0 };

	if (a->fleet && !a->fleet->ends && !a->jobs->context->stopping)
		return false;
	failure_set(&f, ERROR_BUSY,
		    "reclaimd stops, or its fleet is another one now: ask again when it runs");
	adoption_finish(a, &f);
	return true;
}

/* ---- whether it may begin ----------------------------------------------------------------- */

static char *wanted_key(const struct adoption *a)
{
	char *key;

	return asprintf(&key, WANTED "%s", a->host) < 0 ? NULL : key;
}

/* What the adoption has for it is the store's thread's meanwhile. */
static int keep_ended(const struct job_record *r, void *userdata)
{
	struct adoption *a = userdata;

	return record_add(&a->records, a->host, r);
}

static int read_work(struct store *s, void *userdata)
{
	const struct job_filter all = { 0 };
	_cleanup_free_ char *key = wanted_key(userdata), *wanted = NULL;
	struct adoption *a = userdata;
	int r = key ? store_meta_get(s, key, &wanted) : -ENOMEM;

	if (r < 0 && r != -ENOENT)
		return r;
	a->asked = a->asked || (r >= 0 && strcmp(wanted, "yes") == 0);
	/* A read may be done once more. */
	records_clear(&a->records);
	return a->asked ? store_history_each(s, &all, keep_ended, a) : 0;
}

static void on_read(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0) {
		finish_errno(a, r, "the job store cannot be read");
	} else if (!a->asked) {
		adoption_finish(a, NULL);
	} else {
		records_complete(a);
		debug_log("fleet: what %s has left is looked through", a->host);
		adoption_walk(a);
	}
}

static void read_record(struct adoption *a)
{
	int r;

	if (adoption_is_over(a))
		return;
	r = store_queue_read(a->jobs->context->store, STORE_DAEMON, read_work, on_read, a);
	if (r < 0)
		on_read(r, a);
}

static int want_work(struct store *s, void *userdata)
{
	_cleanup_free_ char *key = wanted_key(userdata);

	return key ? store_meta_set(s, key, "yes") : -ENOMEM;
}

static void on_want_recorded(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		finish_errno(a, r, "that it is wanted cannot be recorded");
	else
		read_record(a);
}

static int forget_work(struct store *s, void *userdata)
{
	return store_meta_set(s, userdata, "");
}

static void on_forgotten(int r, void *userdata)
{
	(void)r; /* then there is nothing to be found the next time */
	free(userdata);
}

/* Another host may be called so one day, in another database. */
void adoption_forget(const struct adoption *a)
{
	char *key = wanted_key(a);

	if (key && store_queue_post(a->jobs->context->store, forget_work, on_forgotten, key) < 0)
		free(key);
}

/* What root has asked for goes on after a restart. */
static void begin(struct adoption *a)
{
	int r;

	a->waits = sd_event_source_disable_unref(a->waits);
	if (a->request.look || !a->asked) {
		read_record(a);
		return;
	}
	r = store_queue_post(a->jobs->context->store, want_work, on_want_recorded, a);
	if (r < 0)
		on_want_recorded(r, a);
}

static int on_unsaid(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct adoption *a = userdata;
	struct failure f = { 0 };

	(void)source;
	(void)usec;
	failure_set(&f, ERROR_WRONG_STATE,
		    "the database of the fleet does not say that this host has adopted %s",
		    a->host);
	adoption_finish(a, &f);
	return 0;
}

static struct adoption *find(const struct fleet *f, const char *host)
{
	struct adoption *a;

	LIST_FOREACH(a, &f->adoptions, link)
		if (strcmp(a->host, host) == 0)
			return a;
	return NULL;
}

static struct adoption *adoption_new(struct fleet *f, const char *host)
{
	struct adoption *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct adoption){ .fleet = f, .jobs = f->jobs, .user_fd = -1 };
	fleet_name_copy(a->host, host);
	fleet_name_copy(a->by, f->host);
	LIST_INSERT_HEAD(&f->adoptions, a, link);
	context_flow_begins(f->jobs->context);
	return a;
}

/* By itself, if root has asked for it before. */
static void go_on(struct fleet *f, const char *host)
{
	struct adoption *a = f->ends ? NULL : adoption_new(f, host);

	if (a)
		begin(a);
}

void fleet_host_adopted(struct fleet *f, const char *host)
{
	struct adopted_host *h;
	struct adoption *a;

	if (!fleet_name_is_valid(host) || strcmp(host, f->host) == 0 || f->ends)
		return;
	a = find(f, host);
	h = host_get(f, host);
	if (a && a->waits)
		begin(a);
	else if (a && a->request.look)
		a->again = true;
	/* If it is said once more, it is because root asks here once more, or somewhere else. */
	else if (!a && h && !h->said && !h->settled)
		go_on(f, host);
	else if (!a && h && !h->said)
		debug_log("fleet: what %s has left is not looked through again: nothing of it can "
			  "be adopted",
			  host);
	if (h)
		h->said = true;
}

static int on_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct adopted_host *h = userdata;

	(void)source;
	(void)usec;
	h->later = sd_event_source_disable_unref(h->later);
	if (h->said && !find(h->fleet, h->name))
		go_on(h->fleet, h->name);
	return 0;
}

/* Of a job that has not moved its directory, that is there still. */
static void note_failure(struct adopted_host *h, const struct job_record *r)
{
	const char *name = strrchr(r->path, '/');

	if (name)
		(void)strings_add(&h->failed, &h->n_failed, strdup(name + 1));
}

void fleet_adopted_ended(struct fleet *f, const struct job_record *r)
{
	const char *host = job_adopted_from(r);
	struct adopted_host *h = host ? host_find(f, host) : NULL;
	struct adoption *a = host ? find(f, host) : NULL;
	uint64_t again = gate_again_msec() * USEC_PER_MSEC;

	if (a && !a->records_end && record_add(&a->late, host, r) < 0)
		a->unsure = true;
	if (!h)
		return;
	h->settled = false;
	if (r->state == JOB_FAILED)
		note_failure(h, r);
	if (!h->said || adoption_some_go_on(f->jobs, host))
		return;
	if (a)
		a->again = true;
	else if (r->state != JOB_FAILED)
		go_on(f, host);
	else
		(void)timer_after(f->jobs->context->event, &h->later, again ? again : AGAIN_USEC, 0,
				  on_later, h, "fleet-adoption-again");
}

static void refuse(struct failure *f, const struct fleet *fleet, const char *host, bool look)
{
	const struct adoption *a;

	if (!fleet)
		failure_set(f, ERROR_WRONG_STATE, "this host is in no fleet");
	else if (!fleet_name_is_valid(host))
		failure_set(f, ERROR_INVALID_ARGUMENT, "no host can be called so");
	else if (strcmp(host, fleet->host) == 0)
		failure_set(f, ERROR_INVALID_ARGUMENT, "%s is this host itself", host);
	else if (fleet->ends || fleet->jobs->context->stopping)
		failure_set(f, ERROR_BUSY, "reclaimd is stopping: try again when it runs");
	else if ((a = find(fleet, host)) && (a->request.done || a->next.done))
		failure_set(f, ERROR_BUSY, "what %s has left is being looked through", host);
	else if (!look && !fleet->joined)
		failure_set(f, ERROR_BUSY, "the database of the fleet cannot be reached");
}

void fleet_adopt(struct fleet *f, const char *host, bool look, adoption_done_t done, void *userdata)
{
	const struct adoption_request request = { look, done, userdata };
	struct failure failure = { 0 };
	struct adopted_host *h;
	struct adoption *a = NULL;

	refuse(&failure, f, host, look);
	if (!failure.cause && (a = find(f, host))) {
		a->next = request;
		return;
	}
	if (!failure.cause && !(a = adoption_new(f, host)))
		failure_errno(&failure, -ENOMEM, "nothing was done");
	if (!a) {
		done(&failure, NULL, 0, userdata);
		return;
	}
	a->request = request;
	a->asked = true;
	if (!look && (h = host_find(f, host)))
		host_tries_again(h);
	if (look || is_said(f, host))
		begin(a);
	else if (timer_after(f->jobs->context->event, &a->waits, SAID_USEC, 0, on_unsaid, a,
			     "fleet-adoption") < 0)
		finish_errno(a, -ENOMEM, "nothing was done");
}

void adoptions_drop(struct fleet *f)
{
	struct adopted_host *h, *next_host;
	struct adoption *a, *next;

	for (a = LIST_FIRST(&f->adoptions); a; a = next) {
		next = LIST_NEXT(a, link);
		LIST_REMOVE(a, link);
		a->fleet = NULL;
		/* All others have an answer to come. */
		if (a->waits)
			(void)adoption_is_over(a);
	}
	for (h = LIST_FIRST(&f->adopted_hosts); h; h = next_host) {
		next_host = LIST_NEXT(h, link);
		host_free(h);
	}
}

void adoptions_unsaid(struct fleet *f)
{
	struct adopted_host *h;

	LIST_FOREACH(h, &f->adopted_hosts, link)
		h->said = false;
}

void adoptions_stop(struct fleet *f)
{
	struct adoption *a, *next;

	for (a = LIST_FIRST(&f->adoptions); a; a = next) {
		next = LIST_NEXT(a, link);
		if (a->waits)
			(void)adoption_is_over(a);
	}
}
