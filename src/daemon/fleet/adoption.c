/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a host that is gone for good has left in staging: gone through, and what was to be deleted
 * anyway becomes jobs of this host.
 *
 *   it may be begun     root has asked for it here, which is on record; and the database says that
 *                       this host has adopted that one. Only to look, neither is needed
 *   for each filesystem
 *     marks             are looked at, by root's intake worker
 *     users' areas      each as root would have made it; what is in it is listed
 *     a directory       with a mark that says what it is (adoptable.h)
 *       mark is taken   renamed: from then on its owner can neither put names back nor have other
 *                       hosts help. If the owner has withdrawn it meanwhile, it is not taken
 *       submit          as the user of the mark, of that one name, whose identity is the mark's; it
 *                       is moved into this host's own staging area
 *       mark stays      as long as the job goes on: it keeps the owner off
 *     what is empty     goes, when no job that has adopted something of it goes on: marks of what
 *                       is gone, users' areas, the host's part
 *
 * Nothing goes back into the area of the other host, which would delete it if it came back; nor is
 * anything deleted there. So a directory that is there, and whose mark this host has taken, was
 * never moved, and the mark is as good as before; but if a job of this host that was to move it was
 * cancelled meanwhile, the mark says from then on that this host has left it.
 *
 * Where this stops in the midst, the next adoption goes on: when this host joins, when root asks
 * again, or when the last job that had adopted something has ended.
 *
 * What is not taken stays where it is, and is told, with why. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "adoptable.h"
#include "base/array.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/staging-dir.h"
#include "base/units.h"
#include "daemon/context/failure.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/jobs/job-submit.h"
#include "daemon/workers/worker-handle.h"
#include "fleet-state.h"
#include "fleet.h"

/* So long after root has asked the database may take to say so. */
#define SAID_USEC (10 * USEC_PER_SEC)

/* A user may put any number of directories into its area: so many are looked at, and of so many it
 * is told why they stay. */
#define DIRS_MOST 65536
#define ITEMS_MOST 4096

#define WANTED "adopt:" /* before the host, in the store */

/* What waits for an adoption. */
struct adoption_request {
	bool look;
	adoption_done_t done; /* NULL: nothing does */
	void *userdata;
};

struct adoption {
	LIST_ENTRY(adoption) link;
	struct fleet *fleet; /* NULL: that has ended */
	struct jobs *jobs;
	char host[FLEET_NAME_SIZE], by[FLEET_NAME_SIZE];
	struct adoption_request request; /* look: nothing is done */
	struct adoption_request next;    /* that came while it went on by itself */
	bool asked;                      /* root has asked for it, now or before */
	bool again;                      /* another one follows */
	sd_event_source *waits;
	/* Directories of jobs that have ended and had adopted them: the last component, which no
	 * other has. */
	char **ended;
	size_t n_ended;
	char **late; /* and that have ended since they were looked for */
	bool unsure; /* not all of them are in there: nothing is taken any more */
	size_t n_late;
	/* The filesystem that is gone through. */
	size_t next_filesystem;
	char *mount;
	uint64_t mnt_id;
	bool all_seen;
	bool left; /* of any of them, something */
	struct left_mark *marks;
	size_t n_marks, mark; /* mark: the next */
	char **users;
	size_t n_users, user; /* the same */
	int user_fd;
	uid_t uid;
	struct left_dir *dirs;
	size_t n_dirs, dir; /* dir: that is looked at */
	const struct left_mark *taken;
	/* What is told. */
	struct adoption_item *items;
	size_t n_items, n_untold, n_adopted, n_kept, kept_before; /* before: this filesystem */
};

/* ---- what is told ------------------------------------------------------------------------- */

static void item_add(struct adoption *a, char *path, uint64_t names, const char *outcome,
		     uint64_t job, const char *why)
{
	/* What is adopted is on record as well: of that which stays a person has to hear. */
	bool has_room = a->n_items < (job > 0 ? ITEMS_MOST / 2 : ITEMS_MOST);
	struct adoption_item *item =
		has_room ? array_add(&a->items, &a->n_items, sizeof(*item)) : NULL;

	if (!item || !path) {
		a->n_items -= item != NULL;
		a->n_untold++;
		free(path);
		return;
	}
	*item = (struct adoption_item){ .path = path,
					.uid = a->uid,
					.names = names,
					.outcome = outcome,
					.job = job,
					.why = strdup(why) };
}

/* One for all for which there was no room. */
static void untold_add(struct adoption *a)
{
	struct adoption_item *item =
		a->n_untold > 0 ? array_add(&a->items, &a->n_items, sizeof(*item)) : NULL;
	char *why = NULL;

	if (!item)
		return;
	if (asprintf(&why, "%zu more are not listed: see what is in there", a->n_untold) < 0)
		why = NULL;
	*item = (struct adoption_item){ .path = strdup(".reclaim"), .outcome = "kept", .why = why };
}

/* It stays: why is static or copied. */
static void keep(struct adoption *a, char *path, uint64_t names, const char *why)
{
	a->n_kept++;
	item_add(a, path, names, "kept", 0, why);
}

/* <mount>/.reclaim/@HOST, and what stands behind it. Malloc'ed, or NULL. */
static char *part_path(const struct adoption *a, const char *below)
{
	_cleanup_free_ char *part = staging_dir_path(a->mount, a->host);
	char *path;

	return part && asprintf(&path, "%s%s%s", part, *below ? "/" : "", below) >= 0 ? path : NULL;
}

static char *dir_path(const struct adoption *a, const char *name)
{
	char below[NAME_MAX + 16];

	(void)snprintf(below, sizeof(below), "%u/%s", (unsigned)a->uid, name);
	return part_path(a, below);
}

static void keep_dir(struct adoption *a, const struct left_dir *d, const char *why)
{
	keep(a, dir_path(a, d->name), d->names, why);
}

/* Something of the filesystem, which is not known then as a whole. */
static void keep_unseen(struct adoption *a, const char *below, int error)
{
	a->all_seen = false;
	keep(a, part_path(a, below), 0,
	     error == -EPERM ? "is not as root would have made it" : strerror(-error));
}

/* ---- its life ----------------------------------------------------------------------------- */

static void dirs_clear(struct adoption *a)
{
	for (size_t i = 0; i < a->n_dirs; i++)
		free(a->dirs[i].name);
	free(a->dirs);
	a->dirs = NULL;
	a->n_dirs = a->dir = 0;
	fd_closep(&a->user_fd);
}

static void strings_clear(char ***list, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		free((*list)[i]);
	free(*list);
	*list = NULL;
	*n = 0;
}

static void filesystem_clear(struct adoption *a)
{
	dirs_clear(a);
	strings_clear(&a->users, &a->n_users);
	free(a->marks);
	a->marks = NULL;
	a->n_marks = a->mark = a->user = 0;
	free(a->mount);
	a->mount = NULL;
}

static void log_end_of(const struct adoption *a, const struct failure *f)
{
	char adopted[COUNTED_SIZE], kept[COUNTED_SIZE];

	if (f->cause)
		log_line(LOG_WARNING, "What %s has left is not adopted, or not all of it: %s",
			 a->host, f->text.line);
	else if (a->n_adopted > 0 || (a->n_kept > 0 && a->request.done))
		log_line(
			a->n_kept > 0 ? LOG_WARNING : LOG_NOTICE,
			"Of what %s has left, %s adopted, and %s: see reclaimctl fleet adopt "
			"--dry-run %s",
			a->host,
			counted_format(adopted, sizeof(adopted), a->n_adopted, "directory was",
				       "directories were"),
			counted_format(kept, sizeof(kept), a->n_kept, "thing stays", "things stay"),
			a->host);
}

static void go_on(struct fleet *f, const char *host);

/* f: NULL, or why not all was gone through. */
static void finish(struct adoption *a, const struct failure *f)
{
	static const struct failure none;
	struct context *c = a->jobs->context;
	struct adoption_request next = a->next;
	struct fleet *fleet = a->fleet;
	bool again = a->again && fleet;
	char host[FLEET_NAME_SIZE];

	fleet_name_copy(host, a->host);
	if (a->fleet)
		LIST_REMOVE(a, link);
	(void)sd_event_source_disable_unref(a->waits);
	if (!a->request.look && a->asked)
		log_end_of(a, f ? f : &none);
	untold_add(a);
	if (a->request.done)
		a->request.done(f ? f : &none, a->items, a->n_items, a->request.userdata);
	filesystem_clear(a);
	strings_clear(&a->ended, &a->n_ended);
	strings_clear(&a->late, &a->n_late);
	for (size_t i = 0; i < a->n_items; i++) {
		free((char *)a->items[i].path);
		free((char *)a->items[i].why);
	}
	free(a->items);
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
	finish(a, &f);
}

/* Ends it where it cannot go on; true then. */
static bool is_over(struct adoption *a)
{
	struct failure f = { 0 };

	if (a->fleet && !a->fleet->ends && !a->jobs->context->stopping)
		return false;
	failure_set(&f, ERROR_BUSY,
		    "reclaimd stops, or its fleet is another one now: ask again when it runs");
	finish(a, &f);
	return true;
}

static int root_intake(const struct adoption *a, struct worker **ret)
{
	const struct fleet_filesystem *fs = a->fleet && a->next_filesystem > 0
						    ? &a->fleet->filesystems[a->next_filesystem - 1]
						    : NULL;
	uint64_t mnt_id;
	int r = fs ? fleet_root_intake(a->fleet, fs, ret, &mnt_id) : -ECANCELED;

	return r >= 0 && mnt_id != a->mnt_id ? -EXDEV : r;
}

static struct mark_place place_of(const struct adoption *a, const struct left_mark *m)
{
	return (struct mark_place){
		.mount_path = a->mount, .mnt_id = a->mnt_id, .host = a->host, .job = m->job
	};
}

static struct adopt_mark_message mark_message_of(const struct adoption *a,
						 const struct left_mark *m)
{
	return (struct adopt_mark_message){ .mount_path = a->mount,
					    .mnt_id = a->mnt_id,
					    .host = a->host,
					    .job = m->job,
					    .by = a->by };
}

static int mark_ask(const struct adoption *a, const struct left_mark *m, bool look,
		    void (*read)(int r, const struct mark_message *mark, void *userdata))
{
	struct adopt_mark_message message = mark_message_of(a, m);
	struct worker *root;
	int r = root_intake(a, &root);

	message.look = look;
	return r < 0 ? r : worker_adopt_mark(root, &message, read, (void *)a);
}

static void filesystem_next(struct adoption *a);
static void want_forget(const struct adoption *a);

/* Is that a job that has adopted something of that host? */
static bool is_of(const struct job_record *r, const char *host)
{
	const char *from = job_adopted_from(r);

	return from && strcmp(from, host) == 0;
}

/* Does such a job go on? What it cannot delete goes back to where it was. */
static bool some_go_on(const struct jobs *jobs, const char *host)
{
	const struct job *j;

	TAILQ_FOREACH(j, &jobs->table.in_order, in_order)
	if (is_of(&j->r, host) && !job_state_finished(j->r.state))
		return true;
	return false;
}

/* ---- what is empty ------------------------------------------------------------------------ */

static void on_host_removed(int r, void *userdata)
{
	struct adoption *a = userdata;

	a->left = a->left || (r < 0 && r != -ENOENT);
	debug_log("fleet: %s/.reclaim/@%s: %s", a->mount, a->host,
		  r < 0 ? strerror(-r) : "removed");
	filesystem_next(a);
}

static void host_remove(struct adoption *a)
{
	struct worker *root;
	int r = root_intake(a, &root);

	if (r >= 0)
		r = worker_remove_host(
			root, &(struct remove_host_message){ a->mount, a->mnt_id, a->host },
			on_host_removed, a);
	if (r < 0)
		on_host_removed(r, a);
}

static void marks_remove(struct adoption *a);

static void on_mark_removed(int r, void *userdata)
{
	(void)r; /* one that stays is told of the next time */
	marks_remove(userdata);
}

/* Those of what is not there any more. */
static void marks_remove(struct adoption *a)
{
	if (is_over(a))
		return;
	while (a->mark < a->n_marks) {
		const struct left_mark *m = &a->marks[a->mark++];
		const struct mark_place place = place_of(a, m);
		struct worker *root;

		/* What is adopted keeps the owner off as long as its job goes on. */
		if (m->has_dir || (m->error < 0 && m->error != -ENOENT) ||
		    (m->adopted && some_go_on(a->jobs, a->host)))
			continue;
		if (root_intake(a, &root) >= 0 &&
		    worker_remove_adopted_mark(root, &place, a->by, on_mark_removed, a) >= 0)
			return;
	}
	if (some_go_on(a->jobs, a->host))
		on_host_removed(-EBUSY, a);
	else
		host_remove(a);
}

static void filesystem_end(struct adoption *a)
{
	if (a->request.look || !a->all_seen) {
		a->left = true;
		filesystem_next(a);
		return;
	}
	/* One that is withdrawn does not say which directory it is of: it may be one that stays. */
	for (size_t i = 0; i < a->n_marks; i++)
		if (a->marks[i].error == -ENOENT)
			a->marks[i].has_dir = a->n_kept > a->kept_before;
	a->mark = 0;
	marks_remove(a);
}

/* ---- a directory -------------------------------------------------------------------------- */

static void dir_next(struct adoption *a);
static void user_next(struct adoption *a);

static struct left_dir *dir_of(const struct adoption *a)
{
	assert(a->dir < a->n_dirs);
	return &a->dirs[a->dir];
}

static void dir_done(struct adoption *a)
{
	a->dir++;
	dir_next(a);
}

static void on_mark_left(int r, const struct mark_message *mark, void *userdata)
{
	(void)r; /* the next time */
	(void)mark;
	dir_done(userdata);
}

/* It is not adopted any more, by whatever record. Returns 0 if an answer is to come. */
static int mark_leave(struct adoption *a, const struct left_mark *m)
{
	struct adopt_mark_message message = mark_message_of(a, m);
	struct worker *root;
	int r = root_intake(a, &root);

	message.leave = true;
	return r < 0 ? r : worker_adopt_mark(root, &message, on_mark_left, a);
}

static void on_submitted(const struct failure *f, const struct submitted *s, void *userdata)
{
	struct adoption *a = userdata;
	const struct left_dir *d = dir_of(a);

	if (!f->cause) {
		/* The mark stays as long as the job goes on, and keeps the owner off. */
		a->n_adopted++;
		item_add(a, dir_path(a, d->name), d->names, "adopted", s->id, "");
		dir_done(a);
		return;
	}
	keep_dir(a, d, f->text.line);
	/* Cancelled on its way. */
	if (f->cause != ERROR_WRONG_STATE || mark_leave(a, a->taken) < 0)
		dir_done(a);
}

/* Is what is submitted what the mark says? */
static bool is_expected(const struct entry_record *e, void *userdata)
{
	struct adoption *a = userdata;

	return strcmp(e->name, a->taken->dir_name) == 0 && lasting_matches(&e->id, &a->taken->dir);
}

static void submit(struct adoption *a, const struct mark_message *mark)
{
	const struct credentials id = { .uid = mark->uid,
					.gid = mark->gid,
					.groups = (gid_t *)mark->groups.data,
					.n_groups = mark->groups.len / sizeof(gid_t) };
	const struct left_dir *d = dir_of(a);
	char area[16], origin[sizeof(ORIGIN_ADOPT) + FLEET_NAME_SIZE];
	_cleanup_free_ char *display = NULL;
	struct submit_options o = { .has_undo = true, /* that was over */
				    .priority = PRIORITY_NORMAL,
				    .origin = origin,
				    .adopts = a->host,
				    .is_expected = is_expected,
				    .expected_userdata = a };
	struct intake_group group = { .dirfd = a->user_fd,
				      .names = { d->name, strlen(d->name) + 1 },
				      .names_fd = -1 };

	(void)snprintf(area, sizeof(area), "%u", (unsigned)a->uid);
	(void)snprintf(origin, sizeof(origin), ORIGIN_ADOPT "%s", a->host);
	display = part_path(a, area);
	group.display = display;
	submit_begin(a->jobs, &id, -1, &group, 1, &o, on_submitted, a);
}

static bool is_same(const struct adoption *a, const struct mark_message *mark)
{
	const struct left_mark *m = a->taken;

	return strcmp(mark->space, a->fleet->uid_space) == 0 && mark->uid == m->uid &&
	       lasting_equal(&mark->dir, &m->dir) && strcmp(mark->dir_name, m->dir_name) == 0;
}

static void on_mark_taken(int r, const struct mark_message *mark, void *userdata)
{
	struct adoption *a = userdata;

	if (is_over(a))
		return;
	if (r >= 0 && is_same(a, mark)) {
		submit(a, mark);
		return;
	}
	keep_dir(a, dir_of(a),
		 r >= 0         ? "its mark has become another one"
		 : r == -ENOENT ? "its mark was withdrawn a moment ago"
				: strerror(-r));
	dir_done(a);
}

/* Returns true if an answer is to come. */
static bool judge(struct adoption *a)
{
	struct left_dir *d = dir_of(a);
	const char *why;
	int r;

	a->taken = left_dir_mark(d, a->marks, a->n_marks, &why);
	if (!a->taken) {
		const struct left_mark *m = left_dir_named(d, a->marks, a->n_marks);

		keep_dir(a, d, why);
		return m && !m->left && d->on_record && !d->goes_on && !a->request.look &&
		       mark_leave(a, m) >= 0;
	}
	if (a->request.look) {
		item_add(a, dir_path(a, d->name), d->names, "adoptable", 0, "");
		return false;
	}
	r = mark_ask(a, a->taken, /* look= */ false, on_mark_taken);
	if (r < 0)
		keep_dir(a, d, strerror(-r));
	return r >= 0;
}

static void on_staged_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct left_dir *d = dir_of(userdata);
	const char *last = strrchr(name, '/');

	(void)id;
	d->names++;
	d->strange += !left_name_is_staged(last ? last + 1 : name);
}

static void on_dir_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	dir_of(a)->error = r;
	if (!judge(a))
		dir_done(a);
}

/* Has a job of this host had it? */
static void find_record(struct adoption *a, struct left_dir *d)
{
	const struct job *j;

	TAILQ_FOREACH(j, &a->jobs->table.in_order, in_order)
	{
		const char *name = strrchr(j->r.path, '/');

		if (!is_of(&j->r, a->host) || !name || strcmp(name + 1, d->name) != 0 ||
		    j->r.state == JOB_FAILED)
			continue;
		d->on_record = true;
		d->goes_on = d->goes_on || !job_state_finished(j->r.state);
	}
	for (size_t i = 0; i < a->n_ended; i++)
		d->on_record = d->on_record || strcmp(a->ended[i], d->name) == 0;
	for (size_t i = 0; i < a->n_late; i++)
		d->on_record = d->on_record || strcmp(a->late[i], d->name) == 0;
	d->goes_on = d->goes_on || a->unsure;
}

/* Of what is listed in it, an answer is to come: returns true then. */
static bool dir_begin(struct adoption *a)
{
	struct left_dir *d = dir_of(a);
	struct worker *root;

	if (d->id.type != S_IFDIR)
		return judge(a);
	find_record(a, d);
	d->error = root_intake(a, &root);
	if (d->error >= 0)
		d->error = worker_list_staging(root, a->user_fd, d->name, on_staged_name,
					       on_dir_listed, a);
	return d->error >= 0 || judge(a);
}

static void dir_next(struct adoption *a)
{
	if (is_over(a))
		return;
	for (; a->dir < a->n_dirs; a->dir++)
		if (dir_begin(a))
			return;
	user_next(a);
}

/* ---- users' areas ------------------------------------------------------------------------- */

static void on_dir_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct adoption *a = userdata;
	struct left_dir *d =
		a->n_dirs < DIRS_MOST ? array_add(&a->dirs, &a->n_dirs, sizeof(*d)) : NULL;

	if (!d) {
		a->all_seen = false;
		return;
	}
	*d = (struct left_dir){ .name = strdup(name), .uid = a->uid, .id = *id };
	if (!d->name) {
		a->n_dirs--;
		a->all_seen = false;
	}
}

static const char *area_name(const struct adoption *a)
{
	return a->users[a->user - 1];
}

static void on_dirs_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		keep_unseen(a, area_name(a), r);
	dir_next(a);
}

/* Returns 0 if an answer is to come. */
static int user_list(struct adoption *a)
{
	struct worker *root;
	int r = root_intake(a, &root);

	return r < 0 ? r
		     : worker_list_staging(root, a->user_fd, NULL, on_dir_name, on_dirs_listed, a);
}

static void user_failed(struct adoption *a, int error)
{
	if (error != -ENOENT)
		keep_unseen(a, area_name(a), error);
}

static void on_user(int r, int fd, void *userdata)
{
	struct adoption *a = userdata;

	a->user_fd = fd;
	if (r >= 0)
		r = user_list(a);
	if (r >= 0)
		return;
	user_failed(a, r);
	user_next(a);
}

/* Opens it as it must be. Returns 0 if an answer is to come. */
static int user_open(struct adoption *a)
{
	const struct make_staging_message m = {
		.mount_path = a->mount, .mnt_id = a->mnt_id, .uid = a->uid, .host = a->host
	};
	struct worker *root;
	int r = root_intake(a, &root);

	return r < 0 ? r : worker_make_staging(root, &m, on_user, a);
}

static void user_next(struct adoption *a)
{
	int r;

	dirs_clear(a);
	if (is_over(a))
		return;
	while (a->user < a->n_users) {
		a->uid = (uid_t)strtoul(a->users[a->user++], NULL, 10);
		r = user_open(a);
		if (r >= 0)
			return;
		user_failed(a, r);
	}
	a->uid = 0;
	filesystem_end(a);
}

/* ---- marks -------------------------------------------------------------------------------- */

static void mark_seen(struct adoption *a, int r, const struct mark_message *mark)
{
	struct left_mark *m = &a->marks[a->mark++];
	char below[64];

	m->error = r;
	if (r >= 0) {
		m->adopted = mark->by;
		m->left = mark->left;
		m->own_space = a->fleet && strcmp(mark->space, a->fleet->uid_space) == 0;
		m->uid = mark->uid;
		m->dir = mark->dir;
		(void)snprintf(m->dir_name, sizeof(m->dir_name), "%s", mark->dir_name);
	} else if (r != -ENOENT) {
		(void)snprintf(below, sizeof(below), "marks/%s", m->job);
		if (r == -EALREADY)
			keep(a, part_path(a, below), 0, "another host has adopted its job");
		else
			keep_unseen(a, below, r);
	}
}

static void mark_next(struct adoption *a);

static void on_mark_seen(int r, const struct mark_message *mark, void *userdata)
{
	mark_seen(userdata, r, mark);
	mark_next(userdata);
}

static void mark_next(struct adoption *a)
{
	int r;

	if (is_over(a))
		return;
	while (a->mark < a->n_marks) {
		r = mark_ask(a, &a->marks[a->mark], /* look= */ true, on_mark_seen);
		if (r >= 0)
			return;
		mark_seen(a, r, NULL);
	}
	user_next(a);
}

static void on_mark_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct adoption *a = userdata;
	struct left_mark *m;

	(void)id;
	/* What begins with a dot is left of one that was being made. */
	if (name[0] == '.')
		return;
	m = left_name_is_staged(name) ? array_add(&a->marks, &a->n_marks, sizeof(*m)) : NULL;
	if (m)
		(void)snprintf(m->job, sizeof(m->job), "%s", name);
	else
		a->all_seen = false;
}

static void on_marks_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		keep_unseen(a, "marks", r);
	mark_next(a);
}

static void on_marks(int r, int fd, void *userdata)
{
	_cleanup_close_ int own = fd;
	struct adoption *a = userdata;
	struct worker *root;

	if (r >= 0)
		r = root_intake(a, &root);
	if (r >= 0)
		r = worker_list_staging(root, own, NULL, on_mark_name, on_marks_listed, a);
	if (r < 0)
		on_marks_listed(r == -ENOENT ? 0 : r, a);
}

/* ---- a filesystem ------------------------------------------------------------------------- */

/* Only to find names: each is opened again, and looked at closely. */
static int open_below(struct adoption *a, const char *below,
		      void (*opened)(int r, int fd, void *userdata))
{
	_cleanup_free_ char *path = part_path(a, below);
	struct worker *root;
	int r = path ? root_intake(a, &root) : -ENOMEM;

	return r < 0 ? r : worker_open_dir(root, -1, path, NULL, opened, a);
}

static void on_user_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct adoption *a = userdata;
	char *end;
	unsigned long uid = strtoul(name, &end, 10);

	(void)id;
	if ((left_name_is_staged(name) || strcmp(name, "0") == 0) && uid < UID_NONE &&
	    strings_add(&a->users, &a->n_users, strdup(name)) < 0)
		a->all_seen = false;
}

static void on_part_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		keep_unseen(a, "", r);
	if (is_over(a))
		return;
	r = open_below(a, "marks", on_marks);
	if (r < 0)
		on_marks(r, -1, a);
}

static void on_part(int r, int fd, void *userdata)
{
	_cleanup_close_ int own = fd;
	struct adoption *a = userdata;
	struct worker *root;

	if (r == -ENOENT) {
		filesystem_next(a);
		return;
	}
	if (r >= 0)
		r = root_intake(a, &root);
	if (r >= 0)
		r = worker_list_staging(root, own, NULL, on_user_name, on_part_listed, a);
	if (r < 0) {
		keep_unseen(a, "", r);
		filesystem_next(a);
	}
}

/* Returns 0 if it was begun with. */
static int filesystem_begin(struct adoption *a, const struct fleet_filesystem *fs)
{
	struct worker *root;
	int r;

	a->all_seen = true;
	a->kept_before = a->n_kept;
	a->uid = 0;
	a->mount = strdup(fs->path);
	r = !a->mount ? -ENOMEM
	    : *fs->id ? fleet_root_intake(a->fleet, fs, &root, &a->mnt_id)
		      : -ENODEV;
	if (r >= 0)
		r = open_below(a, "", on_part);
	if (r < 0)
		keep(a, part_path(a, ""), 0,
		     r == -ENODEV ? "its filesystem is not mounted here, or cannot be told from "
				    "others"
				  : strerror(-r));
	return r;
}

static void filesystem_next(struct adoption *a)
{
	if (is_over(a))
		return;
	do {
		filesystem_clear(a);
		if (a->next_filesystem == a->fleet->n_filesystems) {
			if (!a->left && a->n_kept == 0)
				want_forget(a);
			finish(a, NULL);
			return;
		}
	} while (filesystem_begin(a, &a->fleet->filesystems[a->next_filesystem++]) < 0);
}

/* ---- whether it may begin ----------------------------------------------------------------- */

static char *wanted_key(const struct adoption *a)
{
	char *key;

	return asprintf(&key, WANTED "%s", a->host) < 0 ? NULL : key;
}

/* The adoption is the store's thread's meanwhile. */
static int keep_ended(const struct job_record *r, void *userdata)
{
	struct adoption *a = userdata;
	const char *name = strrchr(r->path, '/');

	/* One that failed had not been able to move it: it is adopted anew. */
	if (!is_of(r, a->host) || !name || r->state == JOB_FAILED)
		return 0;
	return strings_add(&a->ended, &a->n_ended, strdup(name + 1));
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
	strings_clear(&a->ended, &a->n_ended);
	return store_history_each(s, &all, keep_ended, a);
}

static void on_read(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		finish_errno(a, r, "the job store cannot be read");
	else if (!a->asked)
		finish(a, NULL);
	else
		filesystem_next(a);
}

static void read_record(struct adoption *a)
{
	int r;

	if (is_over(a))
		return;
	r = store_queue_read(a->jobs->context->store, read_work, on_read, a);
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
static void want_forget(const struct adoption *a)
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
	finish(a, &f);
	return 0;
}

static bool is_said(const struct fleet *f, const char *host)
{
	for (size_t i = 0; i < f->n_adopted; i++)
		if (strcmp(f->adopted[i], host) == 0)
			return true;
	return false;
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
	struct adoption *a = find(f, host);

	if (!fleet_name_is_valid(host) || strcmp(host, f->host) == 0 || f->ends)
		return;
	if (a && a->waits)
		begin(a);
	/* If it is said once more, it is because root asks here once more, or somewhere else. */
	else if (!a && !is_said(f, host))
		go_on(f, host);
	if (!is_said(f, host))
		(void)strings_add(&f->adopted, &f->n_adopted, strdup(host));
}

void fleet_adopted_ended(struct fleet *f, const struct job_record *r)
{
	const char *host = job_adopted_from(r);
	struct adoption *a = host ? find(f, host) : NULL;
	const char *name = strrchr(r->path, '/');

	if (a && name && r->state != JOB_FAILED &&
	    strings_add(&a->late, &a->n_late, strdup(name + 1)) < 0)
		a->unsure = true;
	if (!host || !is_said(f, host) || some_go_on(f->jobs, host))
		return;
	if (a)
		a->again = true;
	else
		go_on(f, host);
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
	if (look || is_said(f, host))
		begin(a);
	else if (timer_after(f->jobs->context->event, &a->waits, SAID_USEC, 0, on_unsaid, a,
			     "fleet-adoption") < 0)
		finish_errno(a, -ENOMEM, "nothing was done");
}

void adoptions_drop(struct fleet *f)
{
	struct adoption *a;

	while ((a = LIST_FIRST(&f->adoptions))) {
		LIST_REMOVE(a, link);
		a->fleet = NULL;
		/* All others have an answer to come. */
		if (a->waits)
			(void)is_over(a);
	}
	adoptions_unsaid(f);
}

void adoptions_unsaid(struct fleet *f)
{
	strings_clear(&f->adopted, &f->n_adopted);
}

void adoptions_stop(struct fleet *f)
{
	struct adoption *a, *next;

	for (a = LIST_FIRST(&f->adoptions); a; a = next) {
		next = LIST_NEXT(a, link);
		if (a->waits)
			(void)is_over(a);
	}
}
