/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The delete role: the engine runs on a thread of its own, while this one listens for a stop, and
 * for the end of the socket, which is the same. A flush that several runs share is made on another
 * one, while the next run goes on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/btrfs.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/mounts.h"
#include "base/thread.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/filesystem/profile.h"
#include "engine/guard/protect.h"
#include "engine/guard/user-pin.h"
#include "engine/tune/tuner.h"
#include "identity.h"
#include "last-reference-process.h"
#include "moosefs/space-return.h"
#include "pace.h"
#include "remainders.h"
#include "serving.h"
#include "unit-dir.h"
#include "wire/protocol.h"
#include "wire/remote-pace.h"

/* ---- flushes: what was removed is made durable -------------------------------------------- */

/* At a job's end, or once for several that ended together. A flush is a slice of its own to the
 * pace, so that it waits for its turn and is not taken for foreground I/O. */
struct flush {
	struct serving *s;
	struct wire_in in; /* the request, if it is one: the names are in its memory */
	struct wire_out out;
	int dirfd;          /* O_PATH will do */
	const char **names; /* of directories in it, in the order in which they were changed */
	size_t n;           /* 0: dirfd itself is what was changed */
	pthread_t thread;
	bool running; /* the thread is to be joined */
	_Atomic bool cancelled, ended;
};

/* Filesystems that cannot flush a directory, or a server that has none any more, have no say in it.
 * All else was in vain: nothing could be opened, or a commit has failed (EROFS after that). */
static bool is_lost(int error)
{
	return error < 0 && error != -EINVAL && error != -EOPNOTSUPP && error != -ENOSYS &&
	       error != -ENOTTY && error != -ENOENT && error != -ESTALE;
}

static int flush_name(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* A process has moved or removed it: that is durable with the directory it was in. */
	if (fd < 0 && errno == ENOENT)
		return fd_sync_dir(dirfd);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int flush_all(const struct flush *f)
{
	int k = 0;

	if (btrfs_has(f->dirfd))
		k = btrfs_commit(f->dirfd);
	else if (f->n == 0)
		k = fd_sync_dir(f->dirfd);
	/* The last first: with a journal its commit takes all the others along, which then have
	 * none of their own to wait for. Without one each counts. */
	else
		for (size_t i = f->n; i-- > 0 && !is_lost(k);)
			k = flush_name(f->dirfd, f->names[i]);
	/* A user's own, which may be written and not read: only root can flush it. */
	return f->n == 0 && k == -EACCES ? 0 : k;
}

static const struct pace *pace_of(const struct serving *s)
{
	return s->pace ? remote_pace(s->pace) : NULL;
}

/* Waits for its turn, unless cancelled, and flushes. Returns 0, or a negative errno if the flush
 * was in vain: all that was to be durable may be there again after a power cut. Filesystems that
 * cannot flush a directory have no say in it. */
static int flush_make(const struct flush *f, const _Atomic bool *cancelled)
{
	const struct pace *pace = pace_of(f->s);
	struct pace_budget budget;
	/* A worker that was told to stop, or is not paced any more, flushes all the same. */
	bool paced = pace && pace->begin(pace->userdata, cancelled, &budget);
	uint64_t began = now_usec();
	int k;

	gate("flush", f->n > 0 ? "jobs" : "job");
	k = flush_all(f);
	if (paced)
		pace->synced(pace->userdata, now_usec() - began);
	return is_lost(k) ? k : 0;
}

/* ---- one run: names in one directory, each deleted only if it is still the same file ------- */

struct run_name {
	struct run_item is; /* the name is in the request's memory, which is the run's now */
	uint64_t ino, dev;
	int error;     /* why it is not gone */
	bool left_out; /* of what the engine is given */
};

struct run {
	struct serving *s;
	struct wire_in in;   /* the request */
	struct wire_out out; /* of answers; under the lock */
	pthread_mutex_t lock;
	struct run_message m;
	int dir;           /* of the names: m.dir, or that of a unit, which is the run's */
	char *unit_shown;  /* how messages call a unit's, or NULL */
	const char *shown; /* and the directory of the names */
	/* Told before there was an engine: units that may be given away, and until when it goes on.
	 */
	unsigned demand;
	uint64_t until_usec;
	struct run_name *v;
	size_t n;
	struct run_name **by_name; /* made when there is something to be looked up */
	unsigned problems;         /* told so far */
	uint64_t skipped;          /* before the engine began */
	bool missing;              /* a name was not there then */
	struct engine *engine;
	_Atomic bool cancelled, ended;
	struct remainders remainders;
	struct fs_profile profile; /* of the engine, for the remainders */
};

/* A deeper path is told without its end. */
#define PATH_SHOWN KiB(32)

/* With the lock held, or no other thread. */
static int post(struct run *r)
{
	return wire_post(r->s->sock, &r->out);
}

static void tell_problem(struct run *r, const char *path, const char *what, int error,
			 bool is_error)
{
	char shown[PATH_SHOWN];

	if (r->problems >= PROTOCOL_PROBLEMS)
		return;
	r->problems++;
	(void)snprintf(shown, sizeof(shown), "%s", path);
	wire_begin(&r->out, ANSWER_PROBLEM, r->in.serial);
	protocol_put(&r->out, &(struct problem_message){ shown, what, error, is_error });
	/* If the other end is gone, the main thread knows, and stops us. */
	(void)post(r);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct run_name *const *)a)->is.name,
		      (*(struct run_name *const *)b)->is.name);
}

static int by_inode(const void *a, const void *b)
{
	const struct run_name *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* The name that a path of the engine's begins with, or NULL. */
static struct run_name *name_of(struct run *r, const char *path)
{
	struct run_name key = { 0 }, *k = &key, **found;
	char name[256];
	size_t len;

	if (!r->by_name) {
		r->by_name = calloc(MAX(r->n, (size_t)1), sizeof(struct run_name *));
		if (!r->by_name)
			return NULL;
		for (size_t i = 0; i < r->n; i++)
			r->by_name[i] = &r->v[i];
		qsort(r->by_name, r->n, sizeof(struct run_name *), by_name);
	}
	path += MIN(strlen(path), strlen(r->shown));
	path += strspn(path, "/");
	len = strcspn(path, "/");
	if (len >= sizeof(name))
		return NULL;
	memcpy(name, path, len);
	name[len] = '\0';
	key.is.name = name;
	found = bsearch(&k, r->by_name, r->n, sizeof(struct run_name *), by_name);
	return found ? *found : NULL;
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	struct run *r = userdata;
	struct run_name *n;

	pthread_mutex_lock(&r->lock);
	n = name_of(r, p->path);
	if (n && n->error == 0)
		n->error = p->error ? p->error : -EBUSY;
	tell_problem(r, p->path, p->what, p->error, p->is_error);
	pthread_mutex_unlock(&r->lock);
}

static void page_set(struct run *r, const struct stats *s)
{
	atomic_store_explicit(&r->s->page->entries, s->entries, memory_order_relaxed);
	atomic_store_explicit(&r->s->page->bytes, s->bytes, memory_order_relaxed);
}

/* As any host may know it. */
static struct lasting_identity identity_given(const struct identity *id)
{
	return lasting_of(/* fsid= */ 0, id);
}

_Static_assert(ENGINE_UNIT_NAMES <= PROTOCOL_GIVEN, "reclaimd takes as many");

static bool on_give(const struct engine_unit *u, void *userdata)
{
	struct run *r = userdata;
	int k;

	pthread_mutex_lock(&r->lock);
	wire_begin(&r->out, ANSWER_GIVEN, r->in.serial);
	protocol_put(&r->out, &(struct given_message){ u->path, identity_given(&u->id),
						       u->slice.slice, u->slice.slices });
	for (size_t i = 0; i < u->n_names; i++)
		protocol_put_item(&r->out, &(struct given_name){ u->names[i].name,
								 identity_given(&u->names[i].id) });
	k = post(r);
	pthread_mutex_unlock(&r->lock);
	return k >= 0;
}

static void on_progress(const struct engine_progress *p, void *userdata)
{
	page_set(userdata, &p->stats);
}

static void on_shrinks(int fd, uint64_t weight, void *userdata)
{
	struct run *r = userdata;

	pthread_mutex_lock(&r->lock);
	wire_begin(&r->out, ANSWER_SHRINKS, r->in.serial);
	protocol_put(&r->out, &(struct shrinks_message){ weight, fd });
	(void)post(r);
	pthread_mutex_unlock(&r->lock);
}

static bool on_remainder(const struct shrink_remainder *remainder, void *userdata)
{
	struct run *r = userdata;

	return remainders_add(&r->remainders, remainder);
}

/* A name that does not take part; error 0: on purpose. */
static void leave_out(struct run *r, struct run_name *n, int error, const char *what)
{
	char path[PATH_SHOWN];
	size_t len = strlen(r->shown);

	n->error = error ? error : -EPERM;
	n->left_out = true;
	r->missing = r->missing || error == -ENOENT;
	if (error == -ENOENT)
		return;
	r->skipped++;
	(void)snprintf(path, sizeof(path), "%s%s%s", r->shown,
		       len > 0 && r->shown[len - 1] == '/' ? "" : "/", n->is.name);
	tell_problem(r, path, what, error, /* is_error= */ error != 0);
}

/* A person has pinned a directory that it lies in. Its own pin is the engine's to see. */
static void leave_pinned(struct run *r, struct run_name *n, const struct user_pin *pin)
{
	char words[USER_PIN_WORDS];

	leave_out(r, n, 0, user_pin_words(pin, /* around= */ true, words));
}

/* A rename changes what is moved, so this has been where it is all the time. */
static bool is_unmoved(const struct run *r, const char *name)
{
	struct stat st;

	return fstatat(r->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec / 1000 <
		       r->m.unmoved_usec;
}

/* Is it still the file that was accepted, and may it go? */
static void name_verify(struct run *r, struct run_name *n, const struct protect *p, bool near,
			uint64_t fsid, struct identity *ret)
{
	struct lasting_identity now;
	const char *why;
	int k = fd_identity(r->dir, n->is.name, ret);

	if (k < 0) {
		leave_out(r, n, k, "cannot be looked at");
		return;
	}
	n->ino = ret->ino;
	n->dev = ret->dev;
	now = lasting_of(fsid, ret);
	if (r->m.unit && n->is.id.fsid == 0)
		now.fsid = 0;
	if (r->m.unmoved_usec > 0 && !lasting_equal(&now, &n->is.id)) {
		leave_out(r, n, -ENOENT, "");
		return;
	}
	/* A process fetched it from staging; or the filesystem lost the way there and not its time
	 * (as btrfs seems to, whose log has inodes apart from their names). */
	if (r->m.unmoved_usec > 0 && !is_unmoved(r, n->is.name)) {
		leave_out(r, n, -ESTALE,
			  "is where it was, but was moved or changed since it was accepted: kept");
		return;
	}
	if (!lasting_equal(&now, &n->is.id)) {
		leave_out(r, n, -ESTALE, "is no longer what it was when it was accepted: kept");
		return;
	}
	why = near ? protect_check(p, r->dir, n->is.name, ret, /* staged= */ true) : NULL;
	if (why)
		leave_out(r, n, -EPERM, why);
}

/* May the engine be the first that looks at it? A unit's names have no device number, and are taken
 * for what they are said to be: the engine looks whether they are as it comes to each, with all
 * lanes. Looking at them here, before, would be a round trip after the other. */
static bool name_is_left_to_engine(const struct run *r, const struct run_name *n, bool near)
{
	return r->m.unit && n->is.id.fsid == 0 && !near && r->m.unmoved_usec == 0;
}

/* All that is in the unit's directory and in its slice, unless there is a reason against it. */
static void slice_fill(struct run *r, struct root_group *g, const char *why)
{
	if (!why) {
		g->slice = (struct name_slice){ .slice = (uint16_t)r->m.slice,
						.slices = (uint16_t)r->m.slices };
		return;
	}
	r->skipped++;
	tell_problem(r, r->shown, why, 0, /* is_error= */ false);
}

/* Looks at every name that the engine is not to look at first, and fills the group with those that
 * are to go, in the order of their inode numbers: what lies side by side goes side by side. In a
 * protected or pinned directory none is. */
static int names_verify(struct run *r, struct root_group *g, const struct protect *p)
{
	const char *why = protect_check_content(p, r->dir, /* staged= */ true);
	bool near = protect_near(p, r->dir);
	struct user_pin pin = user_pin_around(r->dir);
	bool closed = why || user_pin_holds(&pin);
	char words[USER_PIN_WORDS];
	struct identity id;
	uint64_t fsid;
	int k = lasting_fsid(r->dir, &fsid);

	for (size_t i = 0; k >= 0 && i < r->n && !atomic_load(&r->cancelled); i++) {
		if (name_is_left_to_engine(r, &r->v[i], near)) {
			r->v[i].ino = r->v[i].is.id.ino;
			r->v[i].dev = g->id.dev;
		} else {
			name_verify(r, &r->v[i], p, near, fsid, &id);
		}
		if (r->v[i].left_out)
			continue;
		if (why)
			leave_out(r, &r->v[i], -EPERM, why);
		else if (closed)
			leave_pinned(r, &r->v[i], &pin);
	}
	if (!why && near && r->m.slices > 0)
		why = "has something in it that is protected";
	if (!why && closed)
		why = user_pin_words(&pin, /* around= */ true, words);
	if (k >= 0 && r->m.slices > 0)
		slice_fill(r, g, why);
	if (r->n > 0)
		qsort(r->v, r->n, sizeof(*r->v), by_inode);
	g->pins = calloc(MAX(r->n, (size_t)1), sizeof(*g->pins));
	if (!g->pins)
		return -ENOMEM;
	for (size_t i = 0; k >= 0 && i < r->n; i++) {
		struct run_name *n = &r->v[i];

		if (n->left_out || closed)
			continue;
		g->pins[g->names.n] = (struct identity){ .dev = n->dev,
							 .ino = n->is.id.ino,
							 .mnt_id = g->id.mnt_id,
							 .btime_nsec = n->is.id.btime_nsec,
							 .mode = n->is.id.type };
		k = dirlist_add(&g->names, n->is.name, n->is.id.ino,
				(uint8_t)IFTODT(n->is.id.type));
	}
	return k;
}

/* Finds the directory of a unit: from here on names are in that. */
static int unit_enter(struct run *r, struct root_group *g)
{
	const char *unit = r->m.unit;
	size_t first = strcspn(unit, "/");
	int fd = unit_dir_open(r->m.dir, unit, &r->m.unit_id);

	if (fd < 0)
		return fd;
	r->dir = g->dirfd = fd;
	if (first == 0)
		return 0;
	if (asprintf(&r->unit_shown, "%s/%s", r->m.display, unit) < 0) {
		r->unit_shown = NULL;
		return -ENOMEM;
	}
	r->shown = r->unit_shown;
	g->within = unit;
	g->within_fd = r->m.dir;
	memcpy(g->within_name, unit, first);
	return 0;
}

/* The directory itself is looked at as anything else. */
static int group_fill(struct run *r, struct root_group *g, const struct protect **ret_protect)
{
	_cleanup_free_ char *culprit = NULL;
	struct lasting_identity now;
	int k = lasting_at(r->m.dir, "", &now);

	if (k < 0)
		return k;
	if (r->m.check_dir && !(r->m.unit ? lasting_matches : lasting_equal)(&now, &r->m.dir_id))
		return -ESTALE;
	if (r->m.unit)
		k = unit_enter(r, g);
	if (k >= 0)
		k = fd_identity(r->dir, "", &g->id);
	if (k < 0)
		return k;
	*ret_protect = serving_protect(r->s, &culprit, &k);
	if (!*ret_protect) {
		tell_problem(r, culprit ? culprit : "protected paths",
			     "cannot be resolved, so what is protected is not known", k, true);
		return k;
	}
	g->dir = strdup(r->shown);
	return g->dir ? names_verify(r, g, *ret_protect) : -ENOMEM;
}

/* How long MooseFS keeps what is to go now: asked before it is gone. */
static void keeping_find(struct run *r, const struct root_group *g, struct keeping *ret)
{
	if (r->s->moosefs && g->names.n > 0)
		keeping_of_moosefs(r->s->moosefs, g->pins[0].ino, ret);
}

static void keeping_add(const struct keeping *k, const struct stats *s, char *strategy, size_t len)
{
	char span[32], size[16];
	size_t at = strlen(strategy);

	if (k->has_trash && k->trash_seconds > 0 && s->entries > s->sliced)
		(void)snprintf(strategy + at, len - at,
			       "; space is back after %s in MooseFS's trash (with %s then)",
			       timespan_format(span, sizeof(span), k->trash_seconds * USEC_PER_SEC),
			       size_format(size, sizeof(size), k->trash_bytes));
}

/* Behind a server nothing in a tree is looked at for its size alone. */
static void uncounted_add(const struct engine_progress *p, char *strategy, size_t len)
{
	size_t at = strlen(strategy);

	if (!p->weighed && p->stats.dirs > 0)
		(void)snprintf(strategy + at, len - at,
			       "; bytes not counted, as each look would be a round trip");
}

/* Makes the engine known to run_cancel. */
static void engine_publish(struct run *r, struct engine *e)
{
	pthread_mutex_lock(&r->lock);
	r->engine = e;
	if (e && atomic_load(&r->cancelled))
		engine_cancel(e);
	if (e) {
		engine_demand(e, r->demand);
		engine_until(e, r->until_usec);
	}
	pthread_mutex_unlock(&r->lock);
}

static int engine_work(struct run *r, struct root_group *g, const struct protect *p,
		       struct engine_progress *ret, char *strategy, size_t len)
{
	struct engine_options o = {
		.weigh = true,
		.rmdir = r->m.rmdir,
		/* Not paced at all: latency is off. Otherwise the pace says what it is. */
		.op_latency_usec = r->s->pace ? ENGINE_LATENCY_AUTO : 0,
		.shrink_min_bytes = ENGINE_LARGE_FILE,
		.last_reference = last_reference_process(r->s->last_reference),
		.tuner = r->s->tuner,
		.moosefs = r->s->moosefs,
		.stall_usec = r->s->stall_usec,
		.mounts = protect_mounts(p),
		.problem = on_problem,
		.progress = on_progress,
		.shrinks = on_shrinks,
		.remainder = on_remainder,
		.give = r->m.gives ? on_give : NULL,
		.userdata = r,
	};
	struct keeping keeping = { 0 };
	struct engine *e = NULL;
	int k = engine_new(&e, &o, r->dir);

	if (k < 0)
		return k;
	if (r->s->pace)
		engine_pace(e, remote_pace(r->s->pace));
	keeping_find(r, g, &keeping);
	k = engine_add(e, g);
	engine_publish(r, e);
	if (k >= 0)
		k = engine_run(e);
	engine_publish(r, NULL);
	/* By itself, too, when it was too late. */
	if (engine_cancelled(e))
		atomic_store(&r->cancelled, true);
	engine_result(e, ret);
	(void)engine_strategy(e, strategy, len);
	r->profile = *engine_profile(e);
	uncounted_add(ret, strategy, len);
	keeping_add(&keeping, &ret->stats, strategy, len);
	engine_free(e);
	return k;
}

/* What has become of a name that was not left out. */
static int name_end(struct run *r, const struct run_name *n, int otherwise)
{
	struct identity id;
	int k = fd_identity(r->dir, n->is.name, &id);

	if (k == -ENOENT)
		return 0;
	if (k < 0)
		return k;
	if (id.ino != n->is.id.ino || id.btime_nsec != n->is.id.btime_nsec)
		return -ESTALE;
	return n->error ? n->error : otherwise;
}

/* Returns how many of those that were to go are not there any more. */
static size_t kept_tell(struct run *r, const struct stats *s, int failed)
{
	int otherwise = failed                       ? failed
			: atomic_load(&r->cancelled) ? -ECANCELED
			: s->given > 0               ? -EINPROGRESS
			: s->first_error             ? s->first_error
						     : -EBUSY;
	bool look = failed || atomic_load(&r->cancelled) || s->errors > 0 || s->given > 0 ||
		    stats_skipped(s) > 0;
	size_t gone = 0;

	wire_begin(&r->out, ANSWER_KEPT, r->in.serial);
	for (size_t i = 0; i < r->n; i++) {
		struct run_name *n = &r->v[i];
		int error = n->left_out ? n->error : look ? name_end(r, n, otherwise) : 0;

		gone += error == 0;
		if (error == 0)
			continue;
		protocol_put_item(&r->out, &(struct kept_item){ n->is.seq, error });
		if (wire_room(&r->out) >= 64)
			continue;
		(void)post(r);
		wire_begin(&r->out, ANSWER_KEPT, r->in.serial);
	}
	if (r->out.len > sizeof(struct wire_header))
		(void)post(r);
	return gone;
}

static void ran_tell(struct run *r, int error, const struct stats *s, bool unflushed,
		     const char *strategy)
{
	/* That there is something, even where it takes nothing. */
	uint64_t left = MAX(remainders_bytes(&r->remainders), (uint64_t)(r->remainders.n > 0));

	wire_begin(&r->out, ANSWER_RAN, r->in.serial);
	protocol_put(&r->out, &(struct run_result){
				      .error = error,
				      .entries = s->entries,
				      .bytes = s->bytes,
				      .errors = s->errors,
				      .skipped = stats_skipped(s) - s->skipped[SKIP_MISSING] -
						 s->skipped[SKIP_CANCELLED] + r->skipped,
				      .cancelled = atomic_load(&r->cancelled),
				      .unflushed = unflushed,
				      .remainder_bytes = left,
				      .given = s->given,
				      .strategy = strategy,
			      });
	/* Before the answer: the next request may come at once, unless there are remainders. */
	atomic_store(&r->ended, r->remainders.n == 0);
	(void)post(r);
}

/* What is said to be gone must not be there again after a power cut, whatever removed it, and be it
 * this job's last try, whose flush was in vain; the record of it is flushed, too. */
static int made_durable(struct run *r, bool *ret_unflushed)
{
	const struct flush f = { .s = r->s, .dirfd = r->dir };

	*ret_unflushed = r->m.may_wait && !r->missing && !atomic_load(&r->cancelled);
	return *ret_unflushed ? 0 : flush_make(&f, &r->cancelled);
}

/* They are all that this process is still there for. */
static void remainders_follow(struct run *r)
{
	if (r->remainders.n == 0)
		return;
	remainders_work(&r->remainders, &r->profile, pace_of(r->s), &r->s->page->bytes);
	(void)shutdown(r->s->sock, SHUT_RDWR);
}

static void run_all(struct run *r)
{
	struct root_group g = { .dirfd = r->m.dir, .accepted = true };
	struct engine_progress result = { 0 };
	const struct protect *p = NULL;
	char strategy[256] = "";
	bool unflushed = false;
	size_t gone;
	int k = group_fill(r, &g, &p);

	if (k >= 0 && (g.names.n > 0 || g.slice.slices > 0))
		k = engine_work(r, &g, p, &result, strategy, sizeof(strategy));
	page_set(r, &result.stats);
	/* What is left of a unit is its owner's to find, and to look at each name would be a round
	 * trip after the other. What was gone before is its owner's to flush. */
	gone = r->m.unit ? 0 : kept_tell(r, &result.stats, MIN(k, 0));
	if (k >= 0 && (gone > 0 || r->missing || r->m.owes || result.stats.entries > 0))
		k = made_durable(r, &unflushed);
	/* With an error nothing else is told. */
	if (k < 0)
		remainders_close(&r->remainders);
	ran_tell(r, MIN(k, 0), &result.stats, unflushed, strategy);
	remainders_follow(r);
	dirlist_done(&g.names);
	free(g.pins);
	free(g.dir);
}

static void run_cancel(struct run *r, bool keep)
{
	remainders_dispose(&r->remainders, keep ? REMAINDERS_HOLD : REMAINDERS_CLOSE);
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->cancelled, true);
	if (r->engine)
		engine_cancel(r->engine);
	pthread_mutex_unlock(&r->lock);
}

static void run_demand(struct run *r, uint64_t units)
{
	pthread_mutex_lock(&r->lock);
	r->demand = (unsigned)MIN(units, (uint64_t)UINT16_MAX);
	if (r->engine)
		engine_demand(r->engine, r->demand);
	pthread_mutex_unlock(&r->lock);
}

static void run_until(struct run *r, uint64_t usec)
{
	pthread_mutex_lock(&r->lock);
	r->until_usec = usec;
	if (r->engine)
		engine_until(r->engine, usec);
	pthread_mutex_unlock(&r->lock);
}

static void run_done(struct run *r)
{
	if (r->dir != r->m.dir)
		fd_closep(&r->dir);
	free(r->unit_shown);
	wire_in_done(&r->in);
	wire_out_done(&r->out);
	remainders_done(&r->remainders);
	free(r->v);
	free(r->by_name);
	pthread_mutex_destroy(&r->lock);
	*r = (struct run){ 0 };
}

/* A slice is of a directory beneath the job's, and has no names. */
static bool slice_is_good(const struct run_message *m, size_t names)
{
	if (m->slices == 0)
		return m->slice == 0;
	return m->unit && *m->unit && names == 0 && m->slices > 1 && m->slices <= NAME_SLICES &&
	       m->slice < m->slices;
}

static int run_take(struct run *r, struct serving *s)
{
	struct run_item item;
	struct run_name *n;
	int k;

	*r = (struct run){ .s = s, .in = s->in, .m = s->m.run_message };
	r->dir = r->m.dir;
	r->shown = r->m.display;
	r->until_usec = r->m.until_usec;
	/* The next request needs memory of its own. */
	s->in = (struct wire_in){ 0 };
	pthread_mutex_init(&r->lock, NULL);
	remainders_init(&r->remainders);
	while ((k = protocol_get_item(&r->in, &item)) > 0) {
		n = r->n < PROTOCOL_ITEMS ? array_add(&r->v, &r->n, sizeof(*n)) : NULL;
		k = r->n == PROTOCOL_ITEMS ? -EBADMSG : -ENOMEM;
		if (!n)
			break;
		n->is = item;
	}
	if (k >= 0 && !slice_is_good(&r->m, r->n))
		k = -EBADMSG;
	if (k < 0)
		run_done(r);
	return k;
}

/* ---- the role: runs ----------------------------------------------------------------------- */

struct deleting {
	struct serving *s;
	struct run run;
	pthread_t thread;
	bool running; /* the thread is to be joined */
	bool takes;   /* the run is none: it only has what another worker has left */
	struct flush flush;
};

static void *runner(void *userdata)
{
	run_all(userdata);
	return NULL;
}

static void join(struct deleting *d)
{
	if (d->running)
		pthread_join(d->thread, NULL);
	if (d->running || d->takes)
		run_done(&d->run);
	d->running = d->takes = false;
}

static int begin(struct deleting *d)
{
	int r;

	/* reclaimd asks for the next only when it has the answer to the last. */
	if (d->takes || (d->running && !atomic_load(&d->run.ended)))
		return -EBADMSG;
	join(d);
	r = run_take(&d->run, d->s);
	if (r < 0)
		return r;
	r = thread_start(&d->thread, runner, &d->run);
	d->running = r == 0;
	if (r < 0)
		run_done(&d->run);
	return r;
}

/* ---- the role: what another worker has left of large files --------------------------------- */

/* As the engine finds it; but a file that was opened in another mount namespace is on a mount that
 * this one does not have. */
static int profile_of_file(struct fs_profile *ret, int fd)
{
	struct mounts mounts = { 0 };
	struct statfs sfs;
	struct stat st;

	if (fstatfs(fd, &sfs) < 0 || fstat(fd, &st) < 0)
		return -errno;
	(void)mounts_read(&mounts, "/proc/self/mountinfo");
	profile_find((uint32_t)sfs.f_type, mounts_by_dev(&mounts, st.st_dev), ret);
	mounts_done(&mounts);
	return 0;
}

static int remainder_take(struct deleting *d)
{
	struct run *r = &d->run;
	struct shrink_remainder remainder;
	int fd = d->s->m.take_remainder_message.file;

	if (d->running)
		return -EBADMSG;
	if (!d->takes) {
		*r = (struct run){ .s = d->s, .m = { .dir = -1 }, .dir = -1 };
		pthread_mutex_init(&r->lock, NULL);
		remainders_init(&r->remainders);
		remainders_dispose(&r->remainders, REMAINDERS_HOLD);
	}
	d->takes = true;
	/* What it may not touch reclaimd sees by the lease, which is not there any more. */
	if (profile_of_file(&r->profile, fd) >= 0 &&
	    shrink_take_up(fd, &r->profile, &remainder) >= 0)
		(void)(remainders_add(&r->remainders, &remainder) && wire_keep_fd(&d->s->in, fd));
	return 0;
}

static void *freer(void *userdata)
{
	struct run *r = userdata;

	remainders_work(&r->remainders, &r->profile, pace_of(r->s), &r->s->page->bytes);
	(void)shutdown(r->s->sock, SHUT_RDWR);
	return NULL;
}

static int remainders_free(struct deleting *d)
{
	int r = 0;

	remainders_dispose(&d->run.remainders, REMAINDERS_FREE);
	if (!d->running)
		r = thread_start(&d->thread, freer, &d->run);
	d->running = r >= 0;
	return r;
}

/* ---- the role: flushes -------------------------------------------------------------------- */

static void *flusher(void *userdata)
{
	struct flush *f = userdata;
	int r = flush_make(f, &f->cancelled);

	wire_begin(&f->out, ANSWER_DONE, f->in.serial);
	protocol_put(&f->out, &(struct done_message){ r });
	/* Before the answer: the next request may come at once. */
	atomic_store(&f->ended, true);
	(void)wire_post(f->s->sock, &f->out);
	return NULL;
}

static void flushing_done(struct flush *f)
{
	wire_in_done(&f->in);
	wire_out_done(&f->out);
	free(f->names);
}

static void flush_join(struct flush *f)
{
	if (!f->running)
		return;
	pthread_join(f->thread, NULL);
	f->running = false;
	flushing_done(f);
}

static int flush_take(struct flush *f, struct serving *s)
{
	struct flush_item item;
	int r;

	*f = (struct flush){ .s = s, .in = s->in, .dirfd = s->m.flush_message.dir };
	s->in = (struct wire_in){ 0 };
	f->names = calloc(PROTOCOL_FLUSH, sizeof(*f->names));
	if (!f->names)
		return -ENOMEM;
	while ((r = protocol_get_item(&f->in, &item)) > 0 && f->n < PROTOCOL_FLUSH)
		f->names[f->n++] = item.name;
	return r > 0 ? -EBADMSG : r;
}

static int flush_begin(struct flush *f, struct serving *s)
{
	int r;

	if (f->running && !atomic_load(&f->ended))
		return -EBADMSG;
	flush_join(f);
	r = flush_take(f, s);
	if (r >= 0)
		r = thread_start(&f->thread, flusher, f);
	f->running = r >= 0;
	if (r < 0)
		flushing_done(f);
	return r;
}

/* Does it speak of the run that is going on? What comes too late means nothing. */
static bool is_of_run(const struct deleting *d)
{
	return d->running && !d->takes && d->s->in.serial == d->run.in.serial;
}

static void demand_take(struct deleting *d)
{
	if (is_of_run(d))
		run_demand(&d->run, d->s->m.demand_message.units);
}

/* What has an end keeps one. */
static void until_take(struct deleting *d)
{
	uint64_t usec = d->s->m.until_message.usec;

	if (is_of_run(d) && usec > 0)
		run_until(&d->run, usec);
}

static int serve_one(struct deleting *d)
{
	struct serving *s = d->s;
	uint32_t type = s->in.type;
	int r = protocol_get(&s->in, &s->m);

	if (r < 0)
		return r;
	if (type == REQUEST_RUN)
		r = begin(d);
	else if (type == REQUEST_FLUSH)
		r = flush_begin(&d->flush, s);
	else if (type == REQUEST_TAKE_REMAINDER)
		r = remainder_take(d);
	else if (type == REQUEST_DEMAND)
		demand_take(d);
	else if (type == REQUEST_UNTIL)
		until_take(d);
	else if (type != REQUEST_STOP && type != REQUEST_FREE_REMAINDERS)
		r = -EBADMSG;
	else if (d->running && type == REQUEST_STOP)
		run_cancel(&d->run, s->m.stop_message.keep);
	else if (type == REQUEST_FREE_REMAINDERS && (d->running || d->takes))
		r = remainders_free(d);
	wire_in_clear(&s->in);
	return r;
}

int delete_serve(struct serving *s)
{
	struct deleting d = { .s = s };
	int r;

	s->tuner = tuner_new();
	while ((r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true)) > 0) {
		r = serve_one(&d);
		if (r < 0)
			break;
	}
	atomic_store(&d.flush.cancelled, true);
	if (d.running)
		run_cancel(&d.run, /* keep= */ false);
	join(&d);
	flush_join(&d.flush);
	s->tuner = tuner_free(s->tuner);
	return r;
}
