/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <time.h>
#include <unistd.h>

#include "daemon/api/dbus/bus.h"
#include "config/config.h"
#include "configuration.h"
#include "log.h"
#include "daemon/workers/pacers.h"
#include "daemon/jobs/job-recover.h"
#include "daemon/jobs/remainder.h"
#include "daemon/jobs/job-run.h"
#include "daemon/jobs/schedule.h"
#include "daemon/spools/spool.h"
#include "spool-jobs.h"
#include "base/fd.h"
#include "base/gate.h"
#include "watermarks.h"

#define STOP_USEC (3 * USEC_PER_SEC)
#define RETRY_USEC (1 * USEC_PER_SEC)
#define PURGE_USEC (24 * 3600 * USEC_PER_SEC)
#define PURGE_AT_ONCE 1000

uint64_t manager_clock(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000 +
	       (uint64_t)gate_clock_usec();
}

int64_t manager_clock_offset(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)manager_clock() -
	       (int64_t)((uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000);
}

void manager_tell(struct manager *m, const char *property)
{
	if (m->events.manager_changed)
		m->events.manager_changed(property, m->events.userdata);
}

void manager_status(struct manager *m)
{
	if (m->stopping)
		return;
	(void)sd_notifyf(/* unset_environment= */ 0,
			 "STATUS=%s%u running, %" PRIu64 " queued, %" PRIu64 " held, %" PRIu64
			 " paused%s",
			 m->paused ? "Paused; " : "", m->running, m->counts[JOB_QUEUED],
			 m->counts[JOB_HELD], m->counts[JOB_PAUSED],
			 m->orphans > 0 ? "; staging has what is of no job (see the journal)" : "");
}

/* ---- ending -----------------------------------------------------------------------------------
 */

void manager_flow_begins(struct manager *m)
{
	m->flows++;
}

void manager_flow_ends(struct manager *m)
{
	if (--m->flows == 0 && m->stopping && !m->ended)
		(void)sd_event_exit(m->event, 0);
}

static void back_in_queue(struct job *j, void *userdata)
{
	(void)userdata;
	if (job_state_finished(j->r.state))
		return;
	schedule_job(j);
	job_save(j, NULL, NULL);
}

static int on_stop_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)usec;
	log_line(LOG_NOTICE,
		 "%u things did not come to an end in time; they go on at the next start",
		 m->flows);
	return sd_event_exit(m->event, 0);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	struct manager *m = userdata;
	struct job *j, *next;

	(void)source;
	(void)si;
	if (m->stopping)
		return 0;
	m->stopping = true;
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Stops; jobs go on at the next start");
	if (m->flows == 0)
		return sd_event_exit(m->event, 0);
	for (j = TAILQ_FIRST(&m->jobs.in_order); j; j = next) {
		next = TAILQ_NEXT(j, in_order);
		if (j->doing == DOING_RUN)
			(void)run_stop(j, /* keep= */ false, back_in_queue, NULL);
	}
	return sd_event_add_time_relative(m->event, &m->stop_timer, CLOCK_MONOTONIC, STOP_USEC, 0,
					  on_stop_timer, m);
}

/* ---- the store's troubles ---------------------------------------------------------------------
 */

static int probe_work(struct store *s, void *userdata)
{
	(void)userdata;
	return store_meta_set(s, "probe", "");
}

static void probe_done(int r, void *userdata)
{
	manager_store_says(userdata, r);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *m = userdata;
	struct job *j, *next;

	(void)source;
	(void)usec;
	for (j = TAILQ_FIRST(&m->jobs.in_order); j; j = next) {
		next = TAILQ_NEXT(j, in_order);
		job_save_again(j);
	}
	if (m->store_error)
		(void)store_queue_accept(m->store, probe_work, probe_done, m);
	return 0;
}

static void retry_later(struct manager *m)
{
	if (m->retry_timer) {
		(void)sd_event_source_set_time_relative(m->retry_timer, RETRY_USEC);
		(void)sd_event_source_set_enabled(m->retry_timer, SD_EVENT_ONESHOT);
	} else if (sd_event_add_time_relative(m->event, &m->retry_timer, CLOCK_MONOTONIC,
					      RETRY_USEC, 0, on_retry, m) >= 0) {
		(void)sd_event_source_set_description(m->retry_timer, "store-retry");
	}
}

/* What waits for a time because the store was in trouble need not wait any longer. */
static void go_on(struct manager *m)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&m->jobs.in_order); j; j = next) {
		next = TAILQ_NEXT(j, in_order);
		if (j->again_usec == 0 || j->doing != DOING_NOTHING || j->r.state != JOB_QUEUED)
			continue;
		j->again_usec = 0;
		schedule_job(j);
	}
	if (m->spools)
		spools_look_again(m->spools);
}

void manager_store_says(struct manager *m, int r)
{
	if (r == -ENOENT || r == -ESTALE || m->ended)
		return; /* about what it was asked, not about itself */
	if (r < 0) {
		retry_later(m);
		if (m->store_error)
			return;
		if (asprintf(&m->store_error,
			     "the job store in %s cannot be written (%s): nothing new is accepted; "
			     "what "
			     "runs goes on",
			     m->o.state_dir, strerror(-r)) < 0)
			m->store_error = NULL;
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
			  "The job store in %s cannot be written (%s)", m->o.state_dir,
			  strerror(-r));
	} else if (m->store_error) {
		free(m->store_error);
		m->store_error = NULL;
		log_event(LOG_NOTICE, MESSAGE_STORE_TROUBLE, "The job store can be written again");
		retry_later(m); /* once more, for jobs that were not saved */
		go_on(m);
	} else {
		return;
	}
	manager_tell(m, "StoreError");
}

static int on_store(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)fd;
	(void)events;
	store_queue_dispatch(m->store);
	return 0;
}

/* ---- history ----------------------------------------------------------------------------------
 */

static int purge_work(struct store *s, void *userdata)
{
	uint64_t *before = userdata;

	return store_history_purge(s, *before, PURGE_AT_ONCE);
}

static void purge(struct manager *m);

struct purging {
	uint64_t before; /* first: what the work is given */
	struct manager *m;
};

static void purge_done(int r, void *userdata)
{
	struct purging *p = userdata;
	struct manager *m = p->m;

	free(p);
	if (r == PURGE_AT_ONCE && !m->stopping)
		purge(m);
}

static void purge(struct manager *m)
{
	struct purging *p = malloc(sizeof(*p));
	uint64_t now = manager_clock();

	if (!p)
		return;
	p->m = m;
	p->before = now > m->config->history_usec ? now - m->config->history_usec : 0;
	if (store_queue_post(m->store, purge_work, purge_done, p) < 0)
		free(p);
}

static int on_purge(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *m = userdata;

	(void)usec;
	purge(m);
	(void)sd_event_source_set_time_relative(source, PURGE_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- mounts -----------------------------------------------------------------------------------
 */

const struct mounts *manager_mounts(struct manager *m)
{
	if (m->mounts.n == 0) {
		struct mounts mounts;

		if (mounts_read(&mounts, "/proc/self/mountinfo") < 0)
			return NULL;
		for (size_t i = 0; i < mounts.n; i++)
			(void)mounts_unescape((char *)mounts.v[i].target);
		m->mounts = mounts;
	}
	return &m->mounts;
}

static int on_mounts(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)fd;
	(void)events;
	mounts_done(&m->mounts);
	m->mounts = (struct mounts){ 0 };
	recover_look_again(m);
	rests_look_again(m);
	schedule_look_again(m);
	return 0;
}

/* ---- configuration ----------------------------------------------------------------------------
 */

int manager_reload(struct manager *m)
{
	struct config *c;
	struct config *before = m->config;
	struct place *p;
	struct owner *o;
	int r;

	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_usec());
	r = configuration_load(m, &c);
	if (r >= 0) {
		m->config = c;
		pacers_configure(m->pacers, c);
		r = spooling_configure(m);
		if (r < 0)
			log_line(LOG_ERR, "Not all spools can be watched: %s", strerror(-r));
		watermarks_configure(m);
		r = 0;
		config_free(before);
		/* They have the old list of what is protected. */
		LIST_FOREACH(o, &m->owners, link)
		owner_renew(o);
		LIST_FOREACH(p, &m->places, link)
		place_renew(p);
		log_event(LOG_INFO, MESSAGE_CONFIGURATION, "The configuration was read again");
	} else {
		log_event(LOG_ERR, MESSAGE_CONFIGURATION, "The configuration stays as it was");
	}
	manager_tell(m, "ConfigurationError");
	(void)sd_notify(0, "READY=1");
	manager_status(m);
	return r;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)source;
	(void)si;
	(void)manager_reload(userdata);
	return 0;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

/* Who this is where several daemons meet. */
static int name_holder(struct manager *m, struct store *s)
{
	_cleanup_free_ char *known = NULL;
	char made[SD_ID128_STRING_MAX];
	sd_id128_t id;
	int r = store_meta_get(s, "id", &known);

	if (r >= 0 && known && strlen(known) == SD_ID128_STRING_MAX - 1)
		return holder_format(m->holder, known);
	r = sd_id128_randomize(&id);
	if (r < 0)
		return r;
	/* If it cannot be kept, the next life of this daemon sees by the process that this one has
	 * ended. */
	(void)store_meta_set(s, "id", sd_id128_to_string(id, made));
	return holder_format(m->holder, made);
}

static int try_store(struct manager *m, struct store **ret, const char **ret_why)
{
	_cleanup_free_ char *set_aside = NULL;
	int r = store_open(ret, m->o.state_dir, &set_aside, ret_why);

	if (set_aside)
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
			  "The job store was set aside: %s. Nothing was deleted; what lies in "
			  "staging "
			  "without a job is told of below",
			  set_aside);
	return r;
}

/* Returns 0 after a while, or -ECANCELED if it is to end instead. */
static int wait_for_room(void)
{
	const struct timespec pause = { .tv_sec = RETRY_USEC / USEC_PER_SEC };
	sigset_t ends;
	int sig;

	(void)sd_notifyf(
		/* unset_environment= */ 0,
		"STATUS=Waits for room in the state directory\nEXTEND_TIMEOUT_USEC=%" PRIu64,
		(uint64_t)(60 * USEC_PER_SEC));
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGINT);
	sig = sigtimedwait(&ends, NULL, &pause);
	return sig > 0 ? -ECANCELED : 0;
}

static int open_store(struct manager *m)
{
	const char *why = NULL;
	bool said = false;
	struct store *s;
	int r;

	while ((r = try_store(m, &s, &why)) == -ENOSPC) {
		if (!said)
			log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
				  "%s in %s: reclaimd waits until there is some", why,
				  m->o.state_dir);
		said = true;
		r = wait_for_room();
		if (r < 0)
			return r;
	}
	if (r < 0) {
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
			  "The state directory %s cannot be used: %s", m->o.state_dir,
			  why ? why : strerror(-r));
		return r;
	}
	if (store_unreserved(s) < 0)
		log_event(LOG_WARNING, MESSAGE_STORE_TROUBLE,
			  "No room is kept in %s for the ends of jobs: its reserve cannot be made: "
			  "%s. While the directory is full, none is recorded",
			  m->o.state_dir, strerror(-store_unreserved(s)));
	r = name_holder(m, s);
	if (r >= 0)
		r = recover_load(m, s);
	if (r >= 0)
		r = store_queue_new(&m->store, s);
	if (r < 0) {
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE, "The jobs in %s cannot be read: %s",
			  m->o.state_dir, strerror(-r));
		store_close(s);
	}
	return r;
}

static int pin_worker(struct manager *m)
{
	int r = worker_program_pin(m->o.worker_program, &m->worker_fd, &m->worker_program);

	if (r < 0)
		log_line(LOG_ERR, "%s, the program that deletes, cannot be opened: %s",
			 m->o.worker_program, strerror(-r));
	return r;
}

static int add_sources(struct manager *m)
{
	static const int signals[] = { SIGTERM, SIGINT };
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(signals) && r >= 0; i++)
		r = sd_event_add_signal(m->event, NULL, signals[i], on_stop, m);
	if (r >= 0)
		r = sd_event_add_signal(m->event, NULL, SIGHUP, on_reload, m);
	if (r >= 0)
		r = sd_event_add_io(m->event, &m->store_source, store_queue_fd(m->store), EPOLLIN,
				    on_store, m);
	if (r >= 0)
		r = sd_event_add_time_relative(m->event, &m->purge_timer, CLOCK_MONOTONIC, 0,
					       60 * USEC_PER_SEC, on_purge, m);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(m->store_source, "store");
	(void)sd_event_source_set_description(m->purge_timer, "history");
	m->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (m->mounts_fd < 0)
		return -errno;
	r = sd_event_add_io(m->event, &m->mounts_source, m->mounts_fd, EPOLLPRI, on_mounts, m);
	if (r >= 0)
		(void)sd_event_source_set_description(m->mounts_source, "mounts");
	return r;
}

static int build(struct manager *m)
{
	struct submitter root = { 0 };
	sigset_t signals;
	int r;

	/* Taken through the loop; a worker's end too. */
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGHUP);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigaddset(&signals, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	r = sd_event_default(&m->event);
	if (r >= 0)
		r = log_begin(m->event);
	if (r >= 0)
		r = configuration_load(m, &m->config);
	if (r < 0)
		return r;
	r = pin_worker(m);
	if (r >= 0)
		r = owner_get(&m->root, m, &root);
	if (r >= 0)
		r = open_store(m);
	if (r >= 0)
		r = pacers_new(&m->pacers);
	if (r < 0)
		return r;
	pacers_configure(m->pacers, m->config);
	return add_sources(m);
}

int manager_new(struct manager **ret, const struct manager_options *o)
{
	_cleanup_(manager_freep) struct manager *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->o = *o;
	m->mounts_fd = m->worker_fd = -1;
	TAILQ_INIT(&m->jobs.in_order);
	LIST_INIT(&m->owners);
	LIST_INIT(&m->users);
	LIST_INIT(&m->places);
	LIST_INIT(&m->rests);
	r = build(m);
	if (r < 0)
		return r;
	*ret = m;
	m = NULL;
	return 0;
}

static size_t view_spools(struct bus_spool *views, size_t n, void *userdata)
{
	static const char *const states[] = { [SPOOL_LOOKING] = "absent",
					      [SPOOL_ABSENT] = "absent",
					      [SPOOL_SERVED] = "watching",
					      [SPOOL_UNSERVED] = "refused" };
	struct manager *m = userdata;

	for (size_t i = 0; m->spools && i < MIN(n, spools_count(m->spools)); i++) {
		struct spool_view v;

		spools_look(m->spools, i, &v);
		views[i] = (struct bus_spool){ .path = v.path,
					       .state = states[v.state],
					       .message = v.why,
					       .settle_usec = v.settle_usec,
					       .undo_usec = v.undo_usec,
					       .waiting = v.waiting };
	}
	return m->spools ? spools_count(m->spools) : 0;
}

static void bus_says(int level, uid_t uid, const char *text, void *userdata)
{
	(void)userdata;
	log_user(level, uid, SD_ID128_NULL, "%s", text);
}

static int listen_on_bus(struct manager *m)
{
	_cleanup_free_ char *socket = NULL, *varlink = NULL;
	struct bus_options o = { .proxy_program = m->worker_program,
				 .no_bus = m->o.no_bus,
				 .features = m->o.features,
				 .spools = view_spools,
				 .say = bus_says,
				 .userdata = m };
	int r;

	if (asprintf(&socket, "%s/private", m->o.runtime_dir) < 0 ||
	    asprintf(&varlink, "%s/org.reclaimd.Reclaim", m->o.runtime_dir) < 0)
		return -ENOMEM;
	o.socket = socket;
	o.varlink = varlink;
	r = bus_new(&m->bus, m, m->event, &o);
	if (r < 0)
		log_line(LOG_ERR, "The sockets in %s cannot be listened on: %s", m->o.runtime_dir,
			 strerror(-r));
	return r;
}

int manager_run(struct manager *m)
{
	int r;

	recover_begin(m);
	r = spooling_begin(m);
	if (r < 0)
		log_line(LOG_ERR, "Not all spools can be watched: %s", strerror(-r));
	r = listen_on_bus(m);
	if (r < 0)
		return r;
	recover_orphans(m);
	watermarks_configure(m);
	r = sd_event_set_watchdog(m->event, true);
	if (r < 0)
		return r;
	(void)sd_notify(0, "READY=1");
	manager_status(m);
	return sd_event_loop(m->event);
}

/* Workers first: what they had is answered, recorded, and then nothing is left that could ask. */
static void end_workers(struct manager *m)
{
	struct owner *o, *next_owner;
	struct place *p, *next_place;

	m->stopping = m->ended = true;
	rests_end(m);
	for (p = LIST_FIRST(&m->places); p; p = next_place) {
		place_ref(p);
		p->deleter = worker_free(p->deleter);
		flush_give_up(p);
		next_place = LIST_NEXT(p, link);
		place_unref(p);
	}
	for (o = LIST_FIRST(&m->owners); o; o = next_owner) {
		owner_ref(o);
		owner_end_workers(o);
		next_owner = LIST_NEXT(o, link);
		owner_unref(o);
	}
}

struct manager *manager_free(struct manager *m)
{
	if (!m)
		return NULL;
	m->bus = bus_free(m->bus);
	m->spools = spools_free(m->spools);
	m->watermarks = watermarks_free(m->watermarks);
	end_workers(m);
	m->store_source = sd_event_source_disable_unref(m->store_source);
	m->store = store_queue_free(m->store);
	job_table_done(&m->jobs);
	due_done(&m->due);
	places_done(m);
	owner_unref(m->root);
	owners_done(m);
	pacers_free(m->pacers);
	config_free(m->config);
	mounts_done(&m->mounts);
	sd_event_source_disable_unref(m->mounts_source);
	sd_event_source_disable_unref(m->due_timer);
	sd_event_source_disable_unref(m->schedule_source);
	sd_event_source_disable_unref(m->hurry_timer);
	sd_event_source_disable_unref(m->retry_timer);
	sd_event_source_disable_unref(m->stop_timer);
	sd_event_source_disable_unref(m->purge_timer);
	fd_closep(&m->mounts_fd);
	fd_closep(&m->worker_fd);
	free(m->worker_program);
	log_end();
	sd_event_unref(m->event);
	free(m->configuration_error);
	free(m->store_error);
	free(m);
	return NULL;
}
