/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A unit that this host has claimed, of a job of any host, from the claim to FINISH:
 *
 *   its mark is read    by root's intake worker: without it, nothing of that job is touched
 *   staging is opened   <mount>/.reclaim/@OWNER/UID, by the same
 *   the job's directory as the user that the mark names, and the one that it names
 *   RUN                 as that user, beneath nothing but that staging directory
 *
 * A run has an end, which is put off again and again: as long as the mark is there, and the lease
 * of this host. When it is not, the deleter stops by itself, whatever this process does then: the
 * job's names may go back, and another host be given the unit.
 *
 * Each step has one answer to come, which goes on, or ends it. What is wrong with a unit is told
 * once, and is its owner's to find: its last run goes through all names itself. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/fd.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/jobs/sharing.h"
#include "daemon/workers/worker-handle.h"
#include "engine/core/name-slice.h"
#include "fleet-state.h"

/* So many of a filesystem make no sense: many times as many as this host takes, for those of a
 * reclaim-fleet that has ended since, which may still be stopping. */
#define CLAIMED_MOST 64

/* How often marks are looked at, which is several times while one look holds, and how far units are
 * is told. */
#define LOOK_USEC (2 * USEC_PER_SEC)

/* So long before its lease is over nothing is begun any more: what was begun may take its time. */
#define LEASE_MARGIN_USEC (2 * USEC_PER_SEC)

struct look;

struct unit_run {
	LIST_ENTRY(unit_run) link;
	struct fleet *fleet; /* NULL: nothing is said of it any more */
	struct context *context;
	struct submitters *submitters;
	struct fleet_filesystem *filesystem;
	uint64_t unit, token, job;
	char *owner, *path; /* path: is.path */
	uid_t uid;
	struct run_unit is;
	struct run_item *items;
	size_t n;
	struct lasting_identity dir; /* of the job */
	char dir_name[NAME_MAX + 1];
	int dirfd;
	struct submitter *submitter;
	struct staging_area *area; /* in use, or NULL */
	uint64_t marked_usec; /* by boot_usec: when its mark began to be looked at last; 0: not */
	uint64_t asked_usec;  /* the same, when it was looked at first */
	struct look *look;    /* under way, or NULL */
	bool ready, revoked;
	bool over;             /* finished, and freed in a moment */
	struct worker *worker; /* that runs it, or NULL */
};

/* A look at the mark of a unit that has begun. */
struct look {
	struct unit_run *unit; /* NULL: it has ended */
	uint64_t begun_usec;
};

static void unit_free(struct unit_run *u)
{
	if (u->fleet)
		LIST_REMOVE(u, link);
	if (u->look)
		u->look->unit = NULL;
	for (size_t i = 0; i < u->n; i++)
		free((char *)u->items[i].name);
	free(u->items);
	fd_closep(&u->dirfd);
	if (u->area)
		staging_area_release(u->area);
	submitter_unref(u->submitter);
	free(u->owner);
	free(u->path);
	context_flow_ends(u->context);
	free(u);
}

static void begin_next(struct fleet *f);

/* ---- going through all of them ------------------------------------------------------------- */

/* What a worker is told may end the runs that it has, and a job of this host that ends with that
 * stops units of its own: any may end while they are gone through. They are freed afterwards, and
 * the next ones begin then. */
static void reading_begins(struct fleet *f)
{
	f->units_read++;
}

static void reading_ends(struct fleet *f)
{
	struct unit_run *u, *next;
	bool some = false;

	assert(f->units_read > 0);
	if (--f->units_read > 0)
		return;
	for (u = LIST_FIRST(&f->units); u; u = next) {
		next = LIST_NEXT(u, link);
		if (!u->over)
			continue;
		unit_free(u);
		some = true;
	}
	if (some) {
		fleet_units_ended(f);
		fleet_capacity_check(f);
	}
	if (f->units_wait)
		begin_next(f);
}

/* ---- its end ------------------------------------------------------------------------------- */

static bool is_own(const struct fleet *f, const struct unit_run *u)
{
	return strcmp(u->owner, f->host) == 0;
}

/* What was deleted here is counted here, whatever the database makes of it. */
static void count(const struct fleet *f, const struct unit_run *u, const struct finish_message *m)
{
	struct jobs *jobs = f->jobs;
	struct job *own = is_own(f, u) ? job_table_find_awake(&jobs->table, u->job) : NULL;

	if (own && own->run) {
		run_count(own, m->entries, m->bytes);
		return;
	}
	jobs->entries_freed += m->entries;
	jobs->bytes_freed += m->bytes;
	if (is_own(f, u))
		return;
	jobs->fleet.done.units += m->ended;
	jobs->fleet.done.entries += m->entries;
	jobs->fleet.done.bytes += m->bytes;
}

/* ended: there is nothing left of it for another host to do. */
static void finish(struct unit_run *u, const struct run_result *result, bool ended)
{
	struct fleet *f = u->fleet;
	/* A life of this host that has not joined yet has no claims. */
	bool has = f && f->link && !f->join_waits;
	struct finish_message m = { .unit = u->unit, .token = u->token, .ended = ended };
	struct wire_out *o;

	if (result) {
		m.entries = result->entries;
		m.bytes = result->bytes;
		m.errors = result->errors;
	}
	if (f)
		count(f, u, &m);
	o = has ? fleet_link_say(f->link, FLEET_FINISH) : NULL;
	if (o) {
		fleet_put(o, &m);
		fleet_link_send(f->link);
	}
	debug_log("fleet: unit %" PRIu64 " of job %" PRIu64 " of %s: %s, %" PRIu64 " entries",
		  u->unit, u->job, u->owner, ended ? "ended" : "given back", m.entries);
	u->ready = false;
	u->over = true;
	if (f && f->units_read > 0)
		return;
	unit_free(u);
	if (f) {
		fleet_units_ended(f);
		fleet_capacity_check(f);
	}
}

/* What ought not to be is told once for each job in a row: the database may have any number. */
static void refuse(struct unit_run *u, const char *why)
{
	struct fleet *f = u->fleet;

	if (f && (f->refused_job != u->job || strcmp(f->refused_host, u->owner) != 0)) {
		log_line(LOG_WARNING, "A part of job %" PRIu64 " of %s is refused: %s", u->job,
			 u->owner, why);
		f->refused_job = u->job;
		(void)snprintf(f->refused_host, sizeof(f->refused_host), "%s", u->owner);
	}
	finish(u, NULL, /* ended= */ true);
}

/* It is not there, or is not what it was: no host will find it. */
static bool is_final(int error)
{
	return error == -ENOENT || error == -EALREADY || error == -ESTALE || error == -ENOTDIR ||
	       error == -EPERM || error == -EXDEV || error == -ELOOP;
}

static void failed(struct unit_run *u, const char *what, int error)
{
	debug_log("fleet: unit %" PRIu64 " of job %" PRIu64 " of %s: %s: %s", u->unit, u->job,
		  u->owner, what, strerror(-error));
	/* What is gone has been done, or taken back. */
	finish(u, NULL, is_final(error));
}

/* ---- RUN ---------------------------------------------------------------------------------- */

/* The end of its run, as things are; never 0, which would be none. */
static uint64_t end_usec(const struct unit_run *u)
{
	uint64_t lease = MAX(u->fleet->lease_usec, LEASE_MARGIN_USEC + 1) - LEASE_MARGIN_USEC;

	return MIN(u->marked_usec + MARK_HOLDS_USEC, lease);
}

static void put_off(struct unit_run *u)
{
	if (u->worker && !u->revoked)
		worker_until(u->worker, u, end_usec(u));
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	(void)p;
	(void)userdata;
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	(void)seq;
	(void)error;
	(void)userdata;
}

/* A part of a part: the owner's, too. */
static void on_given(const struct given_unit *given, void *userdata)
{
	struct unit_run *u = userdata;

	if (u->fleet && u->fleet->joined)
		(void)fleet_publish(u->fleet,
				    &(struct publish_message){ .owner = u->owner,
							       .token = u->token,
							       .job = u->job,
							       .uid = u->uid,
							       .filesystem = u->filesystem->name },
				    given);
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	struct unit_run *u = userdata;
	struct fleet *f = u->fleet;
	struct worker *w = u->worker;

	u->worker = NULL;
	/* Large files it was stopped in the midst of are the kernel's to free, at once. */
	if (r >= 0 && result->remainder_bytes > 0) {
		staging_area_detach_deleter(u->area);
		worker_free(w);
	}
	finish(u, result, r < 0 ? is_final(r) : !result->cancelled);
	if (f)
		begin_next(f);
}

static void run(struct unit_run *u)
{
	const struct run_callbacks callbacks = { .problem = on_problem,
						 .kept = on_kept,
						 .ran = on_ran,
						 .given = on_given,
						 .unit = &u->is,
						 .until_usec = end_usec(u) };
	struct worker *w;
	int r;

	u->ready = false;
	r = staging_area_deleter(u->area, u->submitter, &w);
	/* What another one had there has ended with it, and may have stopped this. */
	if (r >= 0 && u->revoked)
		r = -ECANCELED;
	if (r >= 0)
		r = worker_run(w, u->dirfd, &u->dir, /* unmoved_usec= */ 0, u->dir_name, u->items,
			       u->n, &callbacks, u);
	if (r < 0) {
		failed(u, "cannot be begun", r);
		return;
	}
	u->worker = w;
	debug_log("fleet: unit %" PRIu64 " of job %" PRIu64 " of %s begins", u->unit, u->job,
		  u->owner);
	if (u->filesystem->demand > 0)
		worker_demand(u->worker, u->filesystem->demand);
}

/* One at a time in a staging area, whose deleter works with all its lanes on each: then what stops
 * it stops that one. */
static bool is_free(const struct fleet *f, const struct staging_area *area)
{
	const struct unit_run *u;

	LIST_FOREACH(u, &f->units, link)
		if (u->area == area && u->worker)
			return false;
	return true;
}

static void begin_next(struct fleet *f)
{
	struct unit_run *u;

	f->units_wait = f->units_read > 0;
	if (f->units_wait)
		return;
	reading_begins(f);
	LIST_FOREACH(u, &f->units, link)
		if (u->ready && is_free(f, u->area))
			run(u);
	reading_ends(f);
}

/* ---- to the job's directory --------------------------------------------------------------- */

static void on_dir(int r, int fd, void *userdata)
{
	struct unit_run *u = userdata;

	u->dirfd = fd;
	if (!u->fleet || u->revoked) {
		finish(u, NULL, /* ended= */ false);
	} else if (r < 0) {
		failed(u, "its job's directory", r);
	} else {
		u->ready = true;
		begin_next(u->fleet);
	}
}

static void on_staging(int r, int fd, void *userdata)
{
	struct unit_run *u = userdata;
	struct worker *intake;

	if (r >= 0)
		r = staging_area_intake(u->area, u->submitter, &intake);
	if (r >= 0)
		r = worker_open_job_dir(intake, fd, u->dir_name, &u->dir, on_dir, u);
	if (r < 0)
		failed(u, "its owner's staging area", r);
}

/* ---- the mark ----------------------------------------------------------------------------- */

static int area_open(struct unit_run *u, const struct mark_message *mark)
{
	const struct credentials id = { .uid = mark->uid,
					.gid = mark->gid,
					.groups = (gid_t *)mark->groups.data,
					.n_groups = mark->groups.len / sizeof(gid_t) };
	const struct mounts *mounts = context_mounts(u->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, u->filesystem->path) : NULL;
	struct staging_area *area;
	int r = submitter_get(&u->submitter, u->submitters, &id);

	if (r < 0)
		return r;
	r = staging_area_get(&area, u->submitters, u->submitter, u->filesystem->path, u->owner,
			     mount ? mount->dev : 0);
	if (r < 0)
		return r;
	staging_area_use(area);
	staging_area_unref(area);
	u->area = area;
	staging_area_open(area, /* make= */ false, on_staging, u);
	return 0;
}

static void on_mark(int r, const struct mark_message *mark, void *userdata)
{
	struct unit_run *u = userdata;

	if (!u->fleet || u->revoked) {
		finish(u, NULL, /* ended= */ false);
		return;
	}
	if (r == -EPERM) {
		refuse(u, "its mark is not as root would have made it");
		return;
	}
	if (r < 0) {
		failed(u, "its job's mark", r);
		return;
	}
	if (strcmp(mark->space, u->fleet->uid_space) != 0) {
		refuse(u, "users have other numbers there (fleet: uid-space)");
		return;
	}
	if (mark->uid != u->uid) {
		refuse(u, "its job is another user's");
		return;
	}
	u->marked_usec = u->asked_usec;
	u->dir = mark->dir;
	(void)snprintf(u->dir_name, sizeof(u->dir_name), "%s", mark->dir_name);
	r = area_open(u, mark);
	if (r < 0)
		failed(u, "its owner's staging area", r);
}

typedef void (*mark_read_t)(int r, const struct mark_message *mark, void *userdata);

static int mark_read(const struct unit_run *u, mark_read_t read, void *userdata)
{
	struct mark_place place = { .mount_path = u->filesystem->path, .host = u->owner };
	struct worker *root;
	char number[24];
	int r = fleet_root_intake(u->fleet, u->filesystem, &root, &place.mnt_id);

	(void)snprintf(number, sizeof(number), "%" PRIu64, u->job);
	place.job = number;
	return r < 0 ? r : worker_read_mark(root, &place, read, userdata);
}

static void stop(struct unit_run *u);

/* Is it what it was when the unit began? */
static bool is_same(const struct unit_run *u, const struct mark_message *mark)
{
	return strcmp(mark->space, u->fleet->uid_space) == 0 && mark->uid == u->uid &&
	       lasting_equal(&mark->dir, &u->dir) && strcmp(mark->dir_name, u->dir_name) == 0;
}

static void on_look(int r, const struct mark_message *mark, void *userdata)
{
	struct look *l = userdata;
	struct unit_run *u = l->unit;
	uint64_t begun = l->begun_usec;

	free(l);
	if (!u)
		return;
	u->look = NULL;
	if (!u->fleet || u->revoked)
		return;
	if (r >= 0 && is_same(u, mark)) {
		u->marked_usec = begun;
		put_off(u);
	} else if (r >= 0 || is_final(r)) {
		debug_log("fleet: unit %" PRIu64 " of job %" PRIu64 " of %s: its mark is gone",
			  u->unit, u->job, u->owner);
		stop(u);
	}
	/* Where it cannot be looked at just now, the run comes to its end. */
}

static void look_again(struct unit_run *u)
{
	struct look *l = u->look || u->revoked || !u->marked_usec ? NULL : malloc(sizeof(*l));

	if (!l)
		return;
	*l = (struct look){ .unit = u, .begun_usec = boot_usec() };
	if (mark_read(u, on_look, l) < 0)
		free(l);
	else
		u->look = l;
}

/* It goes to the database with the next renewal of the lease. */
static void progress_say(struct fleet *f, const struct unit_run *u)
{
	struct wire_out *o =
		f->joined && u->worker ? fleet_link_say(f->link, FLEET_PROGRESS) : NULL;
	struct run_progress p;

	if (!o)
		return;
	worker_progress(u->worker, &p);
	fleet_put(o, &(struct unit_progress){ u->token, p.entries, p.bytes });
	fleet_link_send(f->link);
}

static void look_later(struct fleet *f);

static int on_look_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fleet *f = userdata;
	struct unit_run *u;

	(void)source;
	(void)usec;
	LIST_FOREACH(u, &f->units, link) {
		look_again(u);
		progress_say(f, u);
	}
	if (!LIST_EMPTY(&f->units))
		look_later(f);
	return 0;
}

static void look_later(struct fleet *f)
{
	(void)timer_after(f->jobs->context->event, &f->look, LOOK_USEC, 0, on_look_time, f,
			  "fleet-marks");
}

static void begin(struct unit_run *u)
{
	int r;

	u->asked_usec = boot_usec();
	r = mark_read(u, on_mark, u);
	if (!timer_is_set(u->fleet->look))
		look_later(u->fleet);
	if (r < 0)
		failed(u, "its job's mark", r);
}

/* ---- claims ------------------------------------------------------------------------------- */

static int names_take(struct unit_run *u, struct wire_in *in)
{
	struct unit_name name;
	size_t bytes = 0;
	int r;

	while ((r = fleet_get_item(in, &name)) > 0) {
		struct run_item *i;

		bytes += strlen(name.name) + 1;
		if (u->n == FLEET_NAMES || bytes > FLEET_NAMES_BYTES)
			return -EBADMSG;
		i = array_add(&u->items, &u->n, sizeof(*i));
		if (!i)
			return -ENOMEM;
		*i = (struct run_item){ .seq = u->n, .name = strdup(name.name), .id = name.id };
		if (!i->name)
			return -ENOMEM;
	}
	return r;
}

/* Of the form that a unit has. */
static bool is_good(const struct claimed_message *m, size_t n)
{
	return fleet_name_is_valid(m->owner) && fleet_slice_is_valid(m->slice, m->slices, n) &&
	       m->parent.type == S_IFDIR && m->parent.ino != 0;
}

/* Could a run have given it away? Slices are of a directory beneath the job's own. */
static bool could_be(const struct unit_run *u)
{
	const struct run_unit *is = &u->is;

	return is->slices == 0 || (is->slices > 1 && is->slices <= NAME_SLICES && *is->path);
}

static int claim_take(struct unit_run *u, struct fleet *f, struct wire_in *in)
{
	struct claimed_message m;
	int r = fleet_get(in, &m);

	if (r < 0)
		return r;
	r = names_take(u, in);
	if (r < 0)
		return r;
	if (!is_good(&m, u->n))
		return -EBADMSG;
	u->unit = m.unit;
	u->token = m.token;
	u->job = m.job;
	u->uid = m.uid;
	u->owner = strdup(m.owner);
	u->path = strdup(m.directory);
	u->is = (struct run_unit){
		.path = u->path, .id = m.parent, .slice = m.slice, .slices = m.slices
	};
	u->filesystem = fleet_filesystem_named(f, m.filesystem);
	if (!u->owner || !u->path)
		return -ENOMEM;
	return u->filesystem && units_count(f, u->filesystem) <= CLAIMED_MOST ? 0 : -EBADMSG;
}

int unit_claimed(struct fleet *f, struct wire_in *in)
{
	struct unit_run *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	*u = (struct unit_run){ .fleet = f,
				.context = f->jobs->context,
				.submitters = f->jobs->submitters,
				.dirfd = -1 };
	context_flow_begins(u->context);
	LIST_INSERT_HEAD(&f->units, u, link);
	r = claim_take(u, f, in);
	f->jobs->fleet.claimed += r >= 0 && !is_own(f, u);
	if (r < 0)
		unit_free(u);
	else if (f->ends)
		finish(u, NULL, /* ended= */ false);
	else if (!could_be(u))
		refuse(u, "no run gives away such a one");
	else
		begin(u);
	return MIN(r, 0);
}

/* Another run in the midst of the same worker's is a job's of our own, which goes on. One that has
 * not begun ends here. */
static void stop(struct unit_run *u)
{
	const struct job *own = u->area ? u->area->running : NULL;

	u->revoked = true;
	if (u->ready)
		finish(u, NULL, /* ended= */ false);
	else if (u->worker && !(own && own->deletes))
		worker_stop(u->worker);
}

void unit_revoked(struct fleet *f, const struct revoked_message *m)
{
	struct unit_run *u;

	LIST_FOREACH(u, &f->units, link)
		if (u->unit == m->unit && u->token == m->token)
			break;
	if (u)
		stop(u);
}

void units_of_job_stop(struct fleet *f, uint64_t job)
{
	struct unit_run *u;

	reading_begins(f);
	LIST_FOREACH(u, &f->units, link)
		if (u->job == job && strcmp(u->owner, f->host) == 0)
			stop(u);
	reading_ends(f);
}

void units_renewed(struct fleet *f)
{
	struct unit_run *u;

	reading_begins(f);
	LIST_FOREACH(u, &f->units, link)
		put_off(u);
	reading_ends(f);
}

void units_demand(struct fleet *f, struct fleet_filesystem *fs)
{
	struct unit_run *u;

	reading_begins(f);
	LIST_FOREACH(u, &f->units, link)
		if (u->filesystem == fs && u->worker && !u->revoked)
			worker_demand(u->worker, fs->demand);
	reading_ends(f);
}

size_t units_count(const struct fleet *f, const struct fleet_filesystem *fs)
{
	const struct unit_run *u;
	size_t n = 0;

	LIST_FOREACH(u, &f->units, link)
		n += u->filesystem == fs;
	return n;
}

void units_stop(struct fleet *f)
{
	struct unit_run *u;

	reading_begins(f);
	LIST_FOREACH(u, &f->units, link)
		stop(u);
	reading_ends(f);
}

void units_drop(struct fleet *f)
{
	struct unit_run *u;

	assert(f->units_read == 0);
	units_stop(f);
	/* Each of these has an answer to come, which ends it. */
	while ((u = LIST_FIRST(&f->units))) {
		LIST_REMOVE(u, link);
		u->fleet = NULL;
	}
}
