/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a host that is gone for good has left in staging: gone through, and what was to be deleted
 * anyway becomes jobs of this host.
 *
 *   for each filesystem
 *     marks             are looked at, by root's intake worker
 *     users' areas      each as root would have made it; names in it are listed
 *     a directory       with a mark that says what it is (adoptable.h); nothing else is looked at
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
 * What is not taken stays where it is, and is told, with why. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adoption.h"
#include "base/array.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/staging-dir.h"
#include "daemon/context/failure.h"
#include "daemon/jobs/job-submit.h"
#include "daemon/workers/worker-handle.h"

/* A user may put any number of names into its area, and keep root's worker at that: so many are
 * read; and of those that no mark names so many are told. */
#define DIRS_MOST 65536
#define UNNAMED_MOST 256

/* More than a job has; of one that has more, the user has put them there. */
#define NAMES_MOST (UINT64_C(1) << 24)

/* So many names at a time that need no answer; then others have their turn. */
#define TURN 256

/* ---- what is told ------------------------------------------------------------------------- */

/* It stays: why is static or copied. */
static void keep(struct adoption *a, char *path, uint64_t names, const char *why)
{
	finding_add(&a->findings, path,
		    &(struct adoption_item){
			    .uid = a->uid, .names = names, .outcome = "kept", .why = why });
}

/* <mount>/.reclaim/@HOST, and what stands behind it. Malloc'ed, or NULL. */
static char *part_path(const struct adoption *a, const char *below)
{
	_cleanup_free_ char *part = a->mount ? staging_dir_path(a->mount, a->host) : NULL;
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
static void unseen(struct adoption *a)
{
	a->all_seen = false;
	a->may_succeed = true;
}

static void keep_unseen(struct adoption *a, const char *below, int error)
{
	unseen(a);
	keep(a, part_path(a, below), 0,
	     error == -EPERM ? "is not as root would have made it" : strerror(-error));
}

/* It is taken, by that job, or could be (0). */
static void tell_taken(struct adoption *a, const struct left_dir *d, uint64_t job)
{
	finding_add(&a->findings, dir_path(a, d->name),
		    &(struct adoption_item){ .uid = a->uid,
					     .names = d->names,
					     .outcome = job > 0 ? "adopted" : "adoptable",
					     .job = job,
					     .why = "" });
}

/* ---- what it has --------------------------------------------------------------------------- */

static void dirs_clear(struct adoption *a)
{
	for (size_t i = 0; i < a->n_dirs; i++)
		free(a->dirs[i].name);
	free(a->dirs);
	a->dirs = NULL;
	a->n_dirs = a->dir = a->unnamed = 0;
	fd_closep(&a->user_fd);
}

void adoption_walk_clear(struct adoption *a)
{
	dirs_clear(a);
	for (size_t i = 0; i < a->n_users; i++)
		free(a->users[i]);
	free(a->users);
	a->users = NULL;
	free(a->marks);
	a->marks = NULL;
	a->n_marks = a->mark = a->n_users = a->user = 0;
	free(a->mount);
	a->mount = NULL;
	a->turn = sd_event_source_disable_unref(a->turn);
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

/* ---- what is empty ------------------------------------------------------------------------ */

static void on_host_removed(int r, void *userdata)
{
	struct adoption *a = userdata;

	a->left = a->left || (r < 0 && r != -ENOENT);
	/* Else it has been told what stays, or marks do until the next time. */
	if (r < 0 && r != -ENOENT && r != -EBUSY && a->findings.kept == a->kept_before &&
	    a->findings.adopted == 0 && !a->again)
		keep(a, part_path(a, ""), 0,
		     r == -ENOTEMPTY ? "has something in it that is of no job" : strerror(-r));
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
	if (adoption_is_over(a))
		return;
	while (a->mark < a->n_marks) {
		const struct left_mark *m = &a->marks[a->mark++];
		const struct mark_place place = place_of(a, m);
		struct worker *root;

		/* What is adopted keeps the owner off as long as its job goes on. */
		if (m->has_dir || (m->error < 0 && m->error != -ENOENT) ||
		    (m->adopted && a->jobs_go_on))
			continue;
		if (root_intake(a, &root) >= 0 &&
		    worker_remove_adopted_mark(root, &place, a->by, on_mark_removed, a) >= 0)
			return;
	}
	if (a->jobs_go_on)
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
			a->marks[i].has_dir = a->findings.kept > a->kept_before;
	a->mark = 0;
	a->jobs_go_on = adoption_some_go_on(a->jobs, a->host);
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
	struct adoption *a = userdata;

	(void)mark;
	a->may_succeed = a->may_succeed || r < 0;
	dir_done(a);
}

/* It is not adopted any more, by whatever record. Returns 0 if an answer is to come. */
static int mark_leave(struct adoption *a, const struct left_mark *m)
{
	struct adopt_mark_message message = mark_message_of(a, m);
	struct worker *root;
	int r = root_intake(a, &root);

	message.leave = true;
	if (r >= 0)
		r = worker_adopt_mark(root, &message, on_mark_left, a);
	a->may_succeed = a->may_succeed || r < 0;
	return r;
}

static void on_submitted(const struct failure *f, const struct submitted *s, void *userdata)
{
	struct adoption *a = userdata;
	const struct left_dir *d = dir_of(a);

	if (!f->cause) {
		/* The mark stays as long as the job goes on, and keeps the owner off. */
		tell_taken(a, d, s->id);
		dir_done(a);
		return;
	}
	a->may_succeed = true;
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

	if (adoption_is_over(a))
		return;
	if (r >= 0 && is_same(a, mark)) {
		submit(a, mark);
		return;
	}
	a->may_succeed = true;
	keep_dir(a, dir_of(a),
		 r >= 0           ? "its mark has become another one"
		 : r == -ENOENT   ? "its mark was withdrawn a moment ago"
		 : r == -EALREADY ? "another host has adopted its job"
				  : strerror(-r));
	dir_done(a);
}

/* Returns true if an answer is to come. */
static bool judge(struct adoption *a)
{
	struct left_dir *d = dir_of(a);
	const char *why;
	int r;

	a->may_succeed = a->may_succeed || d->error < 0;
	a->taken = left_dir_mark(d, a->marks, a->n_marks, &why);
	if (!a->taken) {
		const struct left_mark *m = left_dir_named(d, a->marks, a->n_marks);

		if (m || a->unnamed++ < UNNAMED_MOST)
			keep_dir(a, d, why);
		return m && !m->left && d->on_record && !d->goes_on && !a->request.look &&
		       mark_leave(a, m) >= 0;
	}
	if (a->request.look) {
		tell_taken(a, d, 0);
		return false;
	}
	if (!a->request.done && adoption_is_given_up(a, d->name)) {
		debug_log("fleet: %s of %s is not tried again by itself", d->name, a->host);
		keep_dir(a, d,
			 "jobs that were to end it have failed: it is tried again when that "
			 "is asked for");
		return false;
	}
	r = mark_ask(a, a->taken, /* look= */ false, on_mark_taken);
	if (r < 0) {
		a->may_succeed = true;
		keep_dir(a, d, strerror(-r));
	}
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

/* Returns 0 if an answer is to come. */
static int dir_list(struct adoption *a, const struct left_dir *d)
{
	struct worker *root;
	int r = root_intake(a, &root);

	return r < 0 ? r
		     : worker_list_names(root, a->user_fd, d->name, NAMES_MOST, on_staged_name,
					 on_dir_listed, a);
}

/* Is it the directory that its mark says? */
static void on_dir(int r, int fd, void *userdata)
{
	_cleanup_close_ int own = fd;
	struct adoption *a = userdata;
	struct left_dir *d = dir_of(a);

	if (r == -ESTALE) {
		d->id.type = S_IFDIR;
	} else if (r != -ENOTDIR && r != -ELOOP && r != -EXDEV) {
		d->id = left_dir_named(d, a->marks, a->n_marks)->dir;
		d->error = r < 0 ? r : dir_list(a, d);
		if (d->error >= 0)
			return;
	}
	if (!judge(a))
		dir_done(a);
}

/* Returns true if an answer is to come. */
static bool dir_begin(struct adoption *a)
{
	struct left_dir *d = dir_of(a);
	const struct left_mark *m = left_dir_named(d, a->marks, a->n_marks);
	struct worker *root;

	left_dir_find_record(d, &a->records);
	d->goes_on = d->goes_on || a->unsure;
	if (!m)
		return judge(a);
	d->error = root_intake(a, &root);
	if (d->error >= 0)
		d->error = worker_open_job_dir(root, a->user_fd, d->name, &m->dir, on_dir, a);
	return d->error >= 0 || judge(a);
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct adoption *a = userdata;

	(void)source;
	a->turn = sd_event_source_disable_unref(a->turn);
	debug_log("fleet: %d names of %s in a row needed no look", TURN, a->host);
	dir_next(a);
	return 0;
}

static void dir_next(struct adoption *a)
{
	if (adoption_is_over(a))
		return;
	for (unsigned n = 0; a->dir < a->n_dirs; a->dir++) {
		if (n++ == TURN &&
		    sd_event_add_defer(a->jobs->context->event, &a->turn, on_turn, a) >= 0)
			return;
		if (dir_begin(a))
			return;
	}
	user_next(a);
}

/* ---- users' areas ------------------------------------------------------------------------- */

static void on_dir_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct adoption *a = userdata;
	struct left_dir *d = array_add(&a->dirs, &a->n_dirs, sizeof(*d));

	(void)id;
	if (d) {
		*d = (struct left_dir){ .name = strdup(name), .uid = a->uid };
		a->n_dirs -= !d->name;
	}
	if (!d || !d->name)
		unseen(a);
}

static const char *area_name(const struct adoption *a)
{
	return a->users[a->user - 1];
}

static void on_dirs_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r == -E2BIG) {
		a->all_seen = false;
		keep(a, part_path(a, area_name(a)), 0, "has more names in it than are looked at");
	} else if (r < 0) {
		keep_unseen(a, area_name(a), r);
	}
	dir_next(a);
}

/* Returns 0 if an answer is to come. */
static int user_list(struct adoption *a)
{
	struct worker *root;
	int r = root_intake(a, &root);

	return r < 0 ? r
		     : worker_list_names(root, a->user_fd, NULL, DIRS_MOST, on_dir_name,
					 on_dirs_listed, a);
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

static void tell_unnamed(struct adoption *a)
{
	char why[80];

	if (a->unnamed <= UNNAMED_MOST)
		return;
	(void)snprintf(why, sizeof(why), "%zu more names are in it, of which no mark says anything",
		       a->unnamed - UNNAMED_MOST);
	keep(a, part_path(a, area_name(a)), 0, why);
}

static void user_next(struct adoption *a)
{
	int r;

	tell_unnamed(a);
	dirs_clear(a);
	if (adoption_is_over(a))
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

	if (adoption_is_over(a))
		return;
	while (a->mark < a->n_marks) {
		r = mark_ask(a, &a->marks[a->mark], /* look= */ true, on_mark_seen);
		if (r >= 0)
			return;
		mark_seen(a, r, NULL);
	}
	left_marks_sort(a->marks, a->n_marks);
	user_next(a);
}

static void on_mark_name(const char *name, const struct lasting_identity *id, void *userdata)
{
	struct adoption *a = userdata;
	char below[NAME_MAX + 8];
	struct left_mark *m;

	(void)id;
	/* What begins with a dot is left of one that was being made. */
	if (name[0] == '.')
		return;
	if (!left_name_is_staged(name)) {
		(void)snprintf(below, sizeof(below), "marks/%s", name);
		a->all_seen = false;
		keep(a, part_path(a, below), 0, "is no mark");
		return;
	}
	m = array_add(&a->marks, &a->n_marks, sizeof(*m));
	if (m)
		(void)snprintf(m->job, sizeof(m->job), "%s", name);
	else
		unseen(a);
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
		r = worker_list_names(root, own, NULL, DIRS_MOST, on_mark_name, on_marks_listed, a);
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
		unseen(a);
}

static void on_part_listed(int r, void *userdata)
{
	struct adoption *a = userdata;

	if (r < 0)
		keep_unseen(a, "", r);
	if (adoption_is_over(a))
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
		r = worker_list_names(root, own, NULL, DIRS_MOST, on_user_name, on_part_listed, a);
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
	a->kept_before = a->findings.kept;
	a->uid = 0;
	a->mount = strdup(fs->path);
	r = !a->mount ? -ENOMEM
	    : *fs->id ? fleet_root_intake(a->fleet, fs, &root, &a->mnt_id)
		      : -ENODEV;
	if (r >= 0)
		r = open_below(a, "", on_part);
	a->may_succeed = a->may_succeed || r < 0;
	if (r < 0)
		keep(a, part_path(a, ""), 0,
		     r == -ENODEV ? "its filesystem is not mounted here, or cannot be told from "
				    "others"
				  : strerror(-r));
	return r;
}

static void filesystem_next(struct adoption *a)
{
	if (adoption_is_over(a))
		return;
	do {
		adoption_walk_clear(a);
		if (a->next_filesystem == a->fleet->n_filesystems) {
			if (!a->left && a->findings.kept == 0)
				adoption_forget(a);
			adoption_finish(a, NULL);
			return;
		}
	} while (filesystem_begin(a, &a->fleet->filesystems[a->next_filesystem++]) < 0);
}

void adoption_walk(struct adoption *a)
{
	filesystem_next(a);
}
