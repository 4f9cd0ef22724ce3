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
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"
#include "daemon/api/dbus/bus.h"
#include "daemon/api/operations.h"
#include "daemon/api/varlink/varlink.h"
#include "daemon/context/log.h"
#include "daemon/context/loop-watch.h"
#include "daemon/fleet/fleet.h"
#include "daemon/jobs/job-recover.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/pacing-window.h"
#include "daemon/jobs/schedule.h"
#include "daemon/jobs/shrinking.h"
#include "daemon/workers/pacers.h"
#include "hooks.h"
#include "pacing/debt/discard-hold.h"
#include "spool-jobs.h"
#include "watermarks.h"

#define STOP_USEC (3 * USEC_PER_SEC)

struct manager {
	struct context context;
	struct submitters submitters;
	struct jobs jobs;
	struct operations *operations;
	struct bus *bus;
	struct varlink *varlink;
	struct spool_jobs spools;
	struct watermarks *watermarks;
	struct hooks *hooks;
	struct fleet *fleet; /* NULL: this host is in none */
	int mounts_fd;
	sd_event_source *mounts_source, *store_source, *reload_source, *stop_timer;
};

/* ---- ending -----------------------------------------------------------------------------------
 */

static int on_stop_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)usec;
	log_line(LOG_NOTICE,
		 "%u things did not come to an end in time; they go on at the next start",
		 m->context.flows);
	return sd_event_exit(m->context.event, 0);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	struct manager *m = userdata;
	struct context *c = &m->context;

	(void)source;
	(void)si;
	if (c->stopping)
		return 0;
	c->stopping = true;
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Stops; jobs go on at the next start");
	if (c->flows == 0)
		return sd_event_exit(c->event, 0);
	fleet_stop(m->fleet);
	jobs_stop(&m->jobs);
	return sd_event_add_time_relative(c->event, &m->stop_timer, CLOCK_MONOTONIC, STOP_USEC, 0,
					  on_stop_timer, m);
}

/* ---- the store, mounts ------------------------------------------------------------------------
 */

static void on_store_retry(void *userdata)
{
	struct manager *m = userdata;

	jobs_save_retry(&m->jobs);
}

static void on_store_recovered(void *userdata)
{
	struct manager *m = userdata;

	jobs_store_recovered(&m->jobs);
	if (m->spools.spools)
		spools_retry(m->spools.spools);
}

static int on_store(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)fd;
	(void)events;
	store_queue_dispatch(m->context.store);
	return 0;
}

static int on_mounts(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)fd;
	(void)events;
	context_mounts_changed(&m->context);
	pacers_mounts_changed(m->context.pacers);
	jobs_mounts_changed(&m->jobs);
	fleet_mounts_changed(m->fleet);
	if (m->spools.spools)
		spools_check(m->spools.spools);
	return 0;
}

/* ---- configuration ----------------------------------------------------------------------------
 */

static void on_complaint(const struct config_error *e, void *userdata)
{
	struct context *context = userdata;
	char *text;

	log_event(e->is_warning ? LOG_WARNING : LOG_ERR, MESSAGE_CONFIGURATION, "%s:%u:%u: %s",
		  e->file, e->line, e->column, e->text);
	if (!e->is_warning && !context->configuration_error &&
	    asprintf(&text, "%s:%u:%u: %s", e->file, e->line, e->column, e->text) >= 0)
		context->configuration_error = text;
}

/* The engine knows where they usually are; they may be elsewhere. */
static int protect_own(const struct context *context, struct config *c)
{
	const char *const own[] = { context->o.state_dir, context->o.runtime_dir,
				    context->o.config_dir };

	for (size_t i = 0; i < ELEMENTSOF(own); i++) {
		int r = config_protect_own(c, own[i]);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* Reads it into *ret, which is the caller's to free. What is wrong with it is logged, and its first
 * error is kept in context->configuration_error. Returns 0 or a negative errno. */
static int configuration_load(struct context *context, struct config **ret)
{
	struct config *c = NULL;
	int r;

	free(context->configuration_error);
	context->configuration_error = NULL;
	r = config_load(&c, "/usr/lib/reclaimd", context->o.config_dir, on_complaint, context);
	if (r >= 0)
		r = protect_own(context, c);
	if (r >= 0)
		*ret = c;
	else
		config_free(c);
	if (r < 0 && !context->configuration_error &&
	    asprintf(&context->configuration_error, "the configuration in %s cannot be read: %s",
		     context->o.config_dir, strerror(-r)) < 0)
		context->configuration_error = NULL;
	return r;
}

/* Without the fleet, jobs go on alone. */
static void fleet_begin(struct manager *m)
{
	int r = fleet_configure(&m->fleet, &m->jobs);

	if (r < 0)
		log_line(LOG_WARNING, "This host is in no fleet: %s", strerror(-r));
}

static void use_configuration(struct manager *m, struct config *fresh)
{
	struct config *before = m->context.config;

	m->context.config = fresh;
	pacers_configure(m->context.pacers, fresh);
	pacing_window_configure(m->jobs.window);
	(void)jobs_limit_history(&m->jobs);
	spooling_configure(&m->spools);
	watermarks_configure(m->watermarks);
	fleet_begin(m);
	config_free(before);
	/* They have the old list of what is protected. */
	submitters_renew(&m->submitters);
	staging_areas_renew(&m->submitters);
}

/* Reads it again and swaps it in, or keeps the old one and says why. */
static int reload(void *userdata)
{
	struct manager *m = userdata;
	struct config *c;
	int r;

	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_usec());
	r = configuration_load(&m->context, &c);
	if (r >= 0) {
		use_configuration(m, c);
		log_event(LOG_INFO, MESSAGE_CONFIGURATION, "The configuration was read again");
	} else {
		log_event(LOG_ERR, MESSAGE_CONFIGURATION, "The configuration stays as it was");
	}
	tell_daemon_changed(&m->context, "ConfigurationError");
	(void)sd_notify(0, "READY=1");
	schedule_status(&m->jobs);
	return r < 0 ? r : 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)source;
	(void)si;
	(void)reload(userdata);
	return 0;
}

/* ---- leases -----------------------------------------------------------------------------------
 */

static int on_lease(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	struct manager *m = userdata;

	(void)source;
	(void)si;
	jobs_lease_broken(&m->jobs);
	return 0;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

static int open_store(struct manager *m)
{
	struct context *c = &m->context;
	struct store *s;
	int r = store_open_patiently(c, &s);

	if (r < 0)
		return r;
	r = store_name_holder(c, s);
	if (r >= 0)
		r = shrinking_open(&m->jobs);
	if (r >= 0)
		r = recover_load(&m->jobs, s);
	if (r >= 0)
		r = store_queue_new(&c->store, s);
	if (r < 0) {
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE, "The jobs in %s cannot be read: %s",
			  c->o.state_dir, strerror(-r));
		store_close(s);
	}
	return r;
}

static int pin_worker(struct context *c)
{
	int r = worker_program_pin(c->o.worker_program, &c->worker_fd, &c->worker_program);

	if (r < 0)
		log_line(LOG_ERR, "%s, the program that deletes, cannot be opened: %s",
			 c->o.worker_program, strerror(-r));
	return r;
}

static int add_sources(struct manager *m)
{
	static const int signals[] = { SIGTERM, SIGINT };
	sd_event *e = m->context.event;
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(signals) && r >= 0; i++)
		r = sd_event_add_signal(e, NULL, signals[i], on_stop, m);
	/* Before calls: what asks for an answer after the signal gets it after the reload. */
	if (r >= 0)
		r = sd_event_add_signal(e, &m->reload_source, SIGHUP, on_reload, m);
	if (r >= 0)
		r = sd_event_source_set_priority(m->reload_source, SD_EVENT_PRIORITY_IMPORTANT);
	if (r >= 0)
		r = sd_event_add_signal(e, NULL, SIGURG, on_lease, m);
	if (r >= 0)
		r = sd_event_add_io(e, &m->store_source, store_queue_fd(m->context.store), EPOLLIN,
				    on_store, m);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(m->store_source, "store");
	m->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (m->mounts_fd < 0)
		return -errno;
	r = sd_event_add_io(e, &m->mounts_source, m->mounts_fd, EPOLLPRI, on_mounts, m);
	if (r >= 0)
		(void)sd_event_source_set_description(m->mounts_source, "mounts");
	return r;
}

static int build(struct manager *m)
{
	struct context *c = &m->context;
	struct credentials root = { 0 };
	sigset_t signals;
	int r;

	/* Taken through the loop; a worker's end too. */
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGHUP);
	(void)sigaddset(&signals, SIGURG);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigaddset(&signals, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	r = sd_event_default(&c->event);
	if (r >= 0)
		r = log_begin(c->event);
	if (r >= 0)
		r = configuration_load(c, &c->config);
	if (r < 0)
		return r;
	r = pin_worker(c);
	if (r >= 0)
		r = submitter_get(&m->submitters.root, &m->submitters, &root);
	if (r >= 0)
		r = open_store(m);
	if (r >= 0)
		r = pacers_new(&c->pacers);
	if (r >= 0)
		r = operations_new(&m->operations, &m->jobs, reload, m);
	if (r < 0)
		return r;
	pacers_configure(c->pacers, c->config);
	return add_sources(m);
}

int manager_new(struct manager **ret, const struct daemon_options *o)
{
	_cleanup_(manager_freep) struct manager *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->context = (struct context){
		.o = *o,
		.worker_fd = -1,
		.health = { .retry = on_store_retry,
			    .recovered = on_store_recovered,
			    .userdata = m },
	};
	m->mounts_fd = -1;
	submitters_init(&m->submitters, &m->context);
	jobs_init(&m->jobs, &m->context, &m->submitters);
	r = build(m);
	if (r < 0)
		return r;
	*ret = m;
	m = NULL;
	return 0;
}

static size_t view_spools(struct spool_view *views, size_t n, void *userdata)
{
	const struct manager *m = userdata;

	return m->spools.spools ? spools_list(m->spools.spools, views, n) : 0;
}

static int listen_on_bus(struct manager *m)
{
	_cleanup_free_ char *socket = NULL, *varlink = NULL;
	const struct context *c = &m->context;
	struct bus_options o = { .proxy_program = c->worker_program,
				 .no_bus = c->o.no_bus,
				 .spools = view_spools,
				 .userdata = m };
	int r;

	if (asprintf(&socket, "%s/private", c->o.runtime_dir) < 0 ||
	    asprintf(&varlink, "%s/org.reclaimd.Reclaim", c->o.runtime_dir) < 0)
		return -ENOMEM;
	o.socket = socket;
	r = bus_new(&m->bus, m->operations, c->event, &o);
	if (r >= 0)
		r = varlink_new(&m->varlink, m->bus, varlink);
	if (r < 0)
		log_line(LOG_ERR, "The sockets in %s cannot be listened on: %s", c->o.runtime_dir,
			 strerror(-r));
	return r;
}

int manager_run(struct manager *m)
{
	struct context *c = &m->context;
	int r;

	spooling_begin(&m->spools, c, m->operations);
	r = jobs_begin(&m->jobs);
	if (r >= 0)
		r = listen_on_bus(m);
	if (r >= 0)
		r = hooks_new(&m->hooks, c, m->bus);
	if (r < 0)
		return r;
	fleet_begin(m);
	recover_orphans(&m->jobs);
	discard_hold_recover();
	r = watermarks_new(&m->watermarks, &m->jobs);
	if (r < 0)
		return r;
	watermarks_configure(m->watermarks);
	r = sd_event_set_watchdog(c->event, true);
	if (r < 0)
		return r;
	(void)sd_notify(0, "READY=1");
	schedule_status(&m->jobs);
	return loop_run(c->event);
}

/* Workers first: what they had is answered, recorded, and then nothing is left that could ask. */
struct manager *manager_free(struct manager *m)
{
	struct context *c;

	if (!m)
		return NULL;
	c = &m->context;
	m->varlink = varlink_free(m->varlink);
	m->hooks = hooks_free(m->hooks);
	m->bus = bus_free(m->bus);
	spooling_end(&m->spools);
	m->watermarks = watermarks_free(m->watermarks);
	c->stopping = c->ended = true;
	m->fleet = fleet_free(m->fleet);
	jobs_end_workers(&m->jobs);
	submitters_end_workers(&m->submitters);
	sd_event_source_disable_unref(m->store_source);
	c->store = store_queue_free(c->store);
	jobs_done(&m->jobs);
	staging_areas_done(&m->submitters);
	submitters_done(&m->submitters);
	m->operations = operations_free(m->operations);
	pacers_free(c->pacers);
	config_free(c->config);
	mounts_done(&c->mounts);
	sd_event_source_disable_unref(m->mounts_source);
	sd_event_source_disable_unref(m->reload_source);
	sd_event_source_disable_unref(m->stop_timer);
	sd_event_source_disable_unref(c->health.timer);
	fd_closep(&m->mounts_fd);
	fd_closep(&c->worker_fd);
	free(c->worker_program);
	log_end();
	sd_event_unref(c->event);
	free(c->configuration_error);
	free(c->health.error);
	free(m);
	return NULL;
}
