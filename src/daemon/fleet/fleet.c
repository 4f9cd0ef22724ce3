/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/gate.h"
#include "base/program.h"
#include "config/config.h"
#include "daemon/context/log.h"
#include "daemon/workers/pacers.h"
#include "daemon/workers/worker-handle.h"
#include "fleet-state.h"

/* ---- filesystems -------------------------------------------------------------------------- */

struct fleet_filesystem *fleet_filesystem_named(struct fleet *f, const char *name)
{
	for (size_t i = 0; i < f->n_filesystems; i++)
		if (*f->filesystems[i].id && strcmp(f->filesystems[i].name, name) == 0)
			return &f->filesystems[i];
	return NULL;
}

struct fleet_filesystem *fleet_filesystem_at(struct fleet *f, const char *path)
{
	for (size_t i = 0; i < f->n_filesystems; i++)
		if (*f->filesystems[i].id && strcmp(f->filesystems[i].path, path) == 0)
			return &f->filesystems[i];
	return NULL;
}

int fleet_root_intake(struct fleet *f, const struct fleet_filesystem *fs, struct worker **ret,
		      uint64_t *ret_mnt_id)
{
	const struct mounts *mounts = context_mounts(f->jobs->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, fs->path) : NULL;

	if (!mount || !fs->path || strcmp(mount->target, fs->path) != 0)
		return -ENODEV;
	*ret_mnt_id = mount->id;
	return submitter_intake(f->jobs->submitters->root, mount->dev, ret);
}

/* Does a job of this host work there? One that waits for other hosts does not. */
static bool is_busy(const struct fleet *f, const struct fleet_filesystem *fs)
{
	const struct staging_area *area;

	LIST_FOREACH(area, &f->jobs->submitters->areas, link)
		if (area->running && strcmp(area->mount, fs->path) == 0 &&
		    !run_waits_for_hosts(area->running))
			return true;
	return false;
}

void fleet_capacity_check(struct fleet *f)
{
	struct wire_out *o;

	for (size_t i = 0; f->joined && i < f->n_filesystems; i++) {
		struct fleet_filesystem *fs = &f->filesystems[i];
		bool works = !f->jobs->paused && is_busy(f, fs);
		unsigned n = f->ends || f->jobs->paused || works ? 0 : 1;

		/* One at a time: a second one would wait here while another host has nothing to do.
		 * Of one that is not known yet JOIN has said nothing. */
		if (!*fs->id ||
		    (n == fs->capacity && works == fs->works && fs->rate == fs->rate_told))
			continue;
		o = fleet_link_say(f->link, FLEET_CAPACITY);
		if (!o)
			return;
		fs->capacity = n;
		fs->works = works;
		fs->rate_told = fs->rate;
		fleet_put(o, &(struct capacity_message){ fs->name, n, works, fs->rate });
		fleet_link_send(f->link);
	}
}

bool fleet_publish(struct fleet *f, const struct publish_message *m, const struct given_unit *u)
{
	struct wire_out *o = fleet_link_say(f->link, FLEET_PUBLISH);
	struct publish_message all = *m;

	if (!o)
		return false;
	all.directory = u->unit.path;
	all.parent = u->unit.id;
	all.slice = u->unit.slice;
	all.slices = u->unit.slices;
	fleet_put(o, &all);
	for (size_t i = 0; i < u->n; i++)
		fleet_put_item(o, &(struct unit_name){ u->names[i].name, u->names[i].id });
	fleet_link_send(f->link);
	return true;
}

/* ---- how this host stands in it ----------------------------------------------------------- */

/* error: why it is not connected; NULL: it is, or that is not known. */
static void state_set(struct jobs *jobs, bool connected, const char *error)
{
	struct sharing_state *s = &jobs->fleet;
	bool same = s->since_usec > 0 && s->connected == connected;

	if (same && strcmp(s->error ? s->error : "", error ? error : "") == 0)
		return;
	if (!same)
		s->since_usec = context_clock();
	s->connected = connected;
	free(s->error);
	s->error = error ? strdup(error) : NULL;
	tell_daemon_changed(jobs->context, "FleetConnected");
	tell_daemon_changed(jobs->context, "FleetSinceUSec");
	tell_daemon_changed(jobs->context, "FleetError");
}

/* By the configuration: "" is in no fleet. Whether it will be connected is not known yet. */
static void state_begin(struct jobs *jobs, const char *host)
{
	struct sharing_state *s = &jobs->fleet;

	if (!*host && !*s->host)
		return;
	fleet_name_copy(s->host, host);
	tell_daemon_changed(jobs->context, "FleetHost");
	s->since_usec = 0;
	state_set(jobs, /* connected= */ false, NULL);
	if (!*host)
		s->since_usec = 0;
}

/* ---- what reclaim-fleet says -------------------------------------------------------------- */

/* Once for each thing that is wrong. NULL: nothing is. */
static void trouble(struct fleet *f, const char *what, const char *why)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "%s: %s", what, why) < 0)
		text = NULL;
	state_set(f->jobs, /* connected= */ false, text);
	if (!text || (f->trouble && strcmp(f->trouble, text) == 0))
		return;
	log_line(LOG_WARNING, "%s; jobs go on without other hosts", text);
	free(f->trouble);
	f->trouble = text;
	text = NULL;
}

static void is_joined(struct fleet *f)
{
	if (f->joined)
		return;
	f->joined = true;
	free(f->trouble);
	f->trouble = NULL;
	log_line(LOG_INFO, "This host is %s in the fleet", f->host);
	for (size_t i = 0; i < f->n_filesystems; i++)
		f->filesystems[i].capacity = UINT_MAX;
	shared_jobs_joined(f);
	fleet_capacity_check(f);
	state_set(f->jobs, /* connected= */ true, NULL);
}

static void is_lost(struct fleet *f)
{
	f->joined = false;
	for (size_t i = 0; i < f->n_filesystems; i++)
		f->filesystems[i].demand = 0;
	shared_jobs_lost(f);
	state_set(f->jobs, /* connected= */ false, f->trouble);
}

static void demand_take(struct fleet *f, const struct wanted_message *m)
{
	struct fleet_filesystem *fs = fleet_filesystem_named(f, m->filesystem);

	if (!fs)
		return;
	fs->demand = (unsigned)MIN(m->units, (uint64_t)UINT16_MAX);
	debug_log("fleet: other hosts would take %u units on %s", fs->demand, fs->name);
	shared_jobs_demand(f, fs);
	units_demand(f, fs);
}

/* Without the database, what it was last still holds: they may go on for as long as this host. */
static void working_take(struct fleet *f, const struct working_message *m)
{
	struct fleet_filesystem *fs = fleet_filesystem_named(f, m->filesystem);

	if (!fs)
		return;
	debug_log("fleet: other hosts that delete on %s: %" PRIu64, fs->name, m->hosts);
	pacers_others(f->jobs->context->pacers, fs->path, m->hosts);
}

static int on_report(struct wire_in *in, void *userdata)
{
	struct fleet *f = userdata;
	union fleet_record m = { 0 };
	int r;

	if (in->type == FLEET_CLAIMED)
		return unit_claimed(f, in);
	r = fleet_get(in, &m);
	if (r < 0)
		return r;
	switch ((enum fleet_report)in->type) {
	case FLEET_JOINED:
		is_joined(f);
		return 0;
	case FLEET_REFUSED:
		trouble(f, "The fleet does not take this host", m.refused_message.text);
		is_lost(f);
		return 0;
	case FLEET_LOST:
		trouble(f, "The database of the fleet cannot be reached", m.lost_message.text);
		is_lost(f);
		return 0;
	case FLEET_PUBLISHED:
		shared_job_published(f, m.published_message.serial, m.published_message.published);
		return 0;
	case FLEET_REVOKED:
		unit_revoked(f, &m.revoked_message);
		return 0;
	case FLEET_DEMAND:
		demand_take(f, &m.wanted_message);
		return 0;
	case FLEET_WORKING:
		working_take(f, &m.working_message);
		return 0;
	case FLEET_JOB:
		shared_job_report(f, &m.job_message);
		return 0;
	case FLEET_LEASE:
		f->lease_usec = m.lease_message.until_usec;
		units_renewed(f);
		return 0;
	/* The job's last run meets with it again. */
	case FLEET_PROBLEM:
		return 0;
	case FLEET_REPORT_NONE:
	case FLEET_CLAIMED:
		break;
	}
	return -EBADMSG; /* what only reclaimd says */
}

static void join(struct fleet *f)
{
	struct wire_out *o = fleet_link_say(f->link, FLEET_JOIN);
	char boot[SD_ID128_STRING_MAX] = "";
	sd_id128_t id;

	f->join_waits = false;
	if (!o)
		return;
	if (sd_id128_get_boot(&id) >= 0)
		(void)sd_id128_to_string(id, boot);
	fleet_put(o, &(struct join_message){ .version = FLEET_VERSION,
					     .database = f->database,
					     .host = f->host,
					     .boot = boot,
					     .uid_space = f->uid_space,
					     .lease_msec = gate_lease_msec() });
	for (size_t i = 0; i < f->n_filesystems; i++)
		if (*f->filesystems[i].id)
			fleet_put_item(o, &(struct join_filesystem){ f->filesystems[i].name,
								     f->filesystems[i].id,
								     f->filesystems[i].path });
	fleet_link_send(f->link);
}

void fleet_units_ended(struct fleet *f)
{
	if (f->join_waits && LIST_EMPTY(&f->units))
		join(f);
}

/* When it joins, what it has claimed before is any host's. */
static void on_began(void *userdata)
{
	struct fleet *f = userdata;

	f->join_waits = true;
	fleet_units_ended(f);
}

static void on_ended(const char *how, void *userdata)
{
	struct fleet *f = userdata;

	f->join_waits = false;
	f->lease_usec = 0;
	trouble(f, "reclaim-fleet, which speaks to the database of the fleet, has ended", how);
	is_lost(f);
	/* Its claims are lost with it. */
	units_stop(f);
}

/* ---- which filesystems -------------------------------------------------------------------- */

static const struct fleet_link_callbacks link_callbacks = { on_began, on_report, on_ended };

/* When it is known what they are, as far as they can be looked at. Anew if it is more than before.
 */
static void link_start(struct fleet *f)
{
	if (f->asking > 0 || f->ends)
		return;
	if (f->link) {
		is_lost(f);
		f->join_waits = false;
		f->lease_usec = 0;
		units_stop(f);
		f->link = fleet_link_free(f->link);
	}
	state_set(f->jobs, /* connected= */ false, f->trouble);
	if (fleet_link_new(&f->link, f->jobs->context->event, f->program, &link_callbacks, f) < 0)
		trouble(f, "reclaim-fleet cannot be started", strerror(ENOMEM));
}

struct asking {
	struct fleet *fleet; /* NULL: that has ended */
	LIST_ENTRY(asking) link;
	size_t i;
	char id[65];
	unsigned n;
};

static void on_id(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct asking *a = userdata;

	(void)id;
	(void)snprintf(a->id, sizeof(a->id), "%s", name);
	a->n++;
}

static void on_ids(int r, void *userdata)
{
	struct asking *a = userdata;
	struct fleet *f = a->fleet;
	struct fleet_filesystem *fs = f ? &f->filesystems[a->i] : NULL;

	if (fs) {
		LIST_REMOVE(a, link);
		fs->asked = false;
		f->asking--;
		if (r >= 0 && a->n == 1)
			memcpy(fs->id, a->id, sizeof(fs->id));
		else
			log_line(LOG_WARNING,
				 "%s is not shared with the fleet: what filesystem it is cannot be "
				 "told: %s",
				 fs->path, r < 0 ? strerror(-r) : "its .reclaim/id is damaged");
		link_start(f);
	}
	free(a);
}

static int ask(struct fleet *f, size_t i)
{
	struct fleet_filesystem *fs = &f->filesystems[i];
	struct asking *a;
	struct worker *root;
	uint64_t mnt_id;
	int r = fleet_root_intake(f, fs, &root, &mnt_id);

	if (r < 0)
		return r;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->fleet = f;
	a->i = i;
	r = worker_filesystem_id(root, &(struct filesystem_id_message){ fs->path, mnt_id }, on_id,
				 on_ids, a);
	if (r < 0) {
		free(a);
		return r;
	}
	LIST_INSERT_HEAD(&f->asked, a, link);
	fs->asked = true;
	f->asking++;
	return 0;
}

void fleet_mounts_changed(struct fleet *f)
{
	for (size_t i = 0; f && i < f->n_filesystems; i++)
		if (!*f->filesystems[i].id && !f->filesystems[i].asked)
			(void)ask(f, i);
	if (f && !f->link && f->asking == 0)
		state_set(f->jobs, /* connected= */ false, "none of its filesystems is mounted");
}

static void rates_take(struct fleet *f, const struct config *c)
{
	for (size_t i = 0; i < f->n_filesystems; i++) {
		uint64_t rate = c->fleet_filesystems[i].rate_max;

		f->filesystems[i].rate = rate == UINT64_MAX ? 0 : rate;
	}
}

/* ---- its life ----------------------------------------------------------------------------- */

static void on_job_changed(const struct job_record *r, void *userdata)
{
	(void)r;
	fleet_capacity_check(userdata);
}

static void on_job_finished(const struct job_record *r, void *userdata)
{
	shared_job_finished(userdata, r->id);
	fleet_capacity_check(userdata);
}

static void on_daemon_changed(const char *property, void *userdata)
{
	(void)property;
	fleet_capacity_check(userdata);
}

static int filesystems_take(struct fleet *f, const struct config *c)
{
	f->filesystems = calloc(MAX(c->n_fleet_filesystems, (size_t)1), sizeof(*f->filesystems));
	if (!f->filesystems)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_fleet_filesystems; i++) {
		struct fleet_filesystem *fs = &f->filesystems[f->n_filesystems++];

		fs->path = strdup(c->fleet_filesystems[i].path);
		fs->name = strdup(c->fleet_filesystems[i].name);
		if (!fs->path || !fs->name)
			return -ENOMEM;
	}
	rates_take(f, c);
	return 0;
}

int fleet_new(struct fleet **ret, struct jobs *jobs)
{
	const struct config *c = jobs->context->config;
	char program[PATH_MAX], host[FLEET_NAME_SIZE] = "";
	struct fleet *f;
	int r = c->fleet_database ? config_fleet_name(c, host) : 0;

	*ret = NULL;
	state_begin(jobs, r < 0 ? "" : host);
	if (r < 0 || !c->fleet_database)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->jobs = jobs;
	LIST_INIT(&f->units);
	LIST_INIT(&f->asked);
	shared_jobs_begin(f);
	f->listener = (struct listener){ .job_changed = on_job_changed,
					 .job_finished = on_job_finished,
					 .daemon_changed = on_daemon_changed,
					 .userdata = f };
	listener_add(jobs->context, &f->listener);
	r = program_find("reclaim-fleet", program, sizeof(program));
	if (r < 0) {
		log_line(LOG_WARNING,
			 "reclaim-fleet is not installed, which speaks to the database "
			 "of the fleet; jobs go on without other hosts");
		state_set(jobs, /* connected= */ false, "reclaim-fleet is not installed");
		fleet_free(f);
		return 0;
	}
	f->program = strdup(program);
	f->database = strdup(c->fleet_database);
	fleet_name_copy(f->uid_space, config_fleet_uid_space(c));
	fleet_name_copy(f->host, host);
	r = !f->program || !f->database ? -ENOMEM : filesystems_take(f, c);
	if (r < 0) {
		state_set(jobs, /* connected= */ false, strerror(-r));
		fleet_free(f);
		return r;
	}
	fleet_mounts_changed(f);
	*ret = f;
	return 0;
}

struct fleet *fleet_free(struct fleet *f)
{
	struct asking *a;

	if (!f)
		return NULL;
	f->ends = true;
	f->joined = false;
	LIST_FOREACH(a, &f->asked, link)
		a->fleet = NULL;
	listener_remove(f->jobs->context, &f->listener);
	units_drop(f);
	shared_jobs_end(f);
	f->link = fleet_link_free(f->link);
	f->look = sd_event_source_disable_unref(f->look);
	for (size_t i = 0; i < f->n_filesystems; i++) {
		free(f->filesystems[i].path);
		free(f->filesystems[i].name);
	}
	free(f->filesystems);
	free(f->program);
	free(f->database);
	free(f->trouble);
	free(f);
	return NULL;
}

void fleet_stop(struct fleet *f)
{
	if (!f)
		return;
	f->ends = true;
	fleet_capacity_check(f);
	units_stop(f);
}

static bool is_same(const struct fleet *f, const struct config *c)
{
	char host[FLEET_NAME_SIZE];

	if (!c->fleet_database || strcmp(f->database, c->fleet_database) != 0 ||
	    config_fleet_name(c, host) < 0 || strcmp(host, f->host) != 0 ||
	    strcmp(config_fleet_uid_space(c), f->uid_space) != 0 ||
	    c->n_fleet_filesystems != f->n_filesystems)
		return false;
	for (size_t i = 0; i < f->n_filesystems; i++)
		if (strcmp(f->filesystems[i].path, c->fleet_filesystems[i].path) != 0 ||
		    strcmp(f->filesystems[i].name, c->fleet_filesystems[i].name) != 0)
			return false;
	return true;
}

int fleet_configure(struct fleet **f, struct jobs *jobs)
{
	if (*f && is_same(*f, jobs->context->config)) {
		rates_take(*f, jobs->context->config);
		fleet_capacity_check(*f);
		return 0;
	}
	*f = fleet_free(*f);
	return fleet_new(f, jobs);
}
