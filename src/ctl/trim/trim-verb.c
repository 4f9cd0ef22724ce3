/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl trim: trims the free space of filesystems in paced steps. It needs no daemon. Timers
 * of the service manager run it as the configuration says (--configured). */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "base/units.h"
#include "config/config.h"
#include "ctl/common/run-pacing.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"
#include "ctl/output/progress.h"
#include "trim-paths.h"
#include "trim-print.h"
#include "trim-state.h"

#define TELL_EVERY USEC_PER_SEC

struct trimming {
	const struct options *o;
	struct options found;  /* options that select the filesystems */
	struct config *config; /* NULL without --configured */
	char **names;          /* mount points of the configuration; only the array is owned */
	struct mounts mounts;
	struct trim_paths paths;
	struct trim_path *now; /* the filesystem that is being trimmed */
	struct progress *progress;
	uint64_t told_usec;
};

static _Atomic bool stopped;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&stopped, true);
}

/* Lets the first signal stop the trim within a step and print its results, and the second end the
 * process. */
static void signals_install(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
}

static void tell(struct trimming *t, const struct trim_result *r)
{
	char done[16], steps[COUNTED_SIZE], last[16];

	progress_pause(t->progress);
	(void)fprintf(stderr, "%s: %s trimmed in %s; the last one: %s in %.1fms; longest: %.1fms\n",
		      t->now->target.device, size_format(done, sizeof(done), r->trimmed_bytes),
		      counted_format(steps, sizeof(steps), r->steps, "step", "steps"),
		      size_format(last, sizeof(last), r->last_bytes), (double)r->last_usec / 1e3,
		      (double)r->longest_usec / 1e3);
}

static void on_progress(const struct trim_result *r, void *userdata)
{
	struct trimming *t = userdata;
	uint64_t now = now_usec();
	char what[80];

	if (t->o->verbose && now - t->told_usec >= TELL_EVERY) {
		t->told_usec = now;
		tell(t, r);
	}
	(void)snprintf(what, sizeof(what), "trimmed on %s", t->now->target.device);
	progress_share(t->progress, what, r->trimmed_bytes,
		       r->end > 0 ? (double)r->at / (double)r->end : -1);
}

/* What trim_run has returned. */
static void tell_error(struct trim_path *p, int error, uint64_t min_bytes)
{
	char least[16];

	switch (error) {
	case -EOPNOTSUPP:
		trim_path_skip(p, "%s does not discard", p->target.device);
		break;
	case -EPERM:
		trim_path_fail(p, "only root may trim (CAP_SYS_ADMIN), and not in each container");
		break;
	case -ENOTTY:
		trim_path_fail(p, "this %s has no FITRIM", p->target.type);
		break;
	case -EINVAL:
		if (min_bytes > 0)
			trim_path_fail(p,
				       "--min=%s is more than a free piece can have here (ext4: a "
				       "block group; XFS: an allocation group)",
				       size_format(least, sizeof(least), min_bytes));
		else
			trim_path_fail(p, "cannot be trimmed: %s", strerror(EINVAL));
		break;
	case -ETIMEDOUT:
		trim_path_fail(p, "%s does not answer: it is not waited for any more",
			       p->target.device);
		break;
	case -ECONNRESET:
		trim_path_fail(p, "the process that trims was killed: run it again");
		break;
	default:
		trim_path_fail(p, "cannot be trimmed: %s", strerror(-error));
	}
}

/* Returns the mount point of the filesystem of `p`, or NULL if it has none in this namespace. */
static const char *mount_point(const struct trimming *t, const struct trim_path *p)
{
	const struct mount *m = NULL;
	uint64_t id;

	if (fd_mount_id(p->fd, &id) >= 0)
		m = mounts_by_id(&t->mounts, id);
	return m ? m->target : NULL;
}

/* Returns --min=, or else `min:` of the configuration. */
static uint64_t min_bytes(const struct trimming *t, const struct trim_path *p)
{
	const char *mount = mount_point(t, p);
	const struct config_trim_limits *limits =
		t->config && mount ? config_trims(t->config, mount) : NULL;

	return t->o->min_bytes > 0 || !limits ? t->o->min_bytes : limits->min_bytes;
}

/* Keeps the result for `status`. A run without a state directory keeps none. */
static void record(const struct trimming *t, const struct trim_path *p)
{
	const char *mount = mount_point(t, p);
	int r = mount ? trim_state_write(options_state_dir(t->o), p, mount,
					 trim_outcome_name(p, /* dry_run= */ false))
		      : 0;

	if (r < 0 && r != -ENOENT)
		complain(mount, "its result is not recorded: %s; ignoring", strerror(-r));
}

static void path_trim(struct trimming *t, struct trim_path *p)
{
	struct pacing pacing = { 0 };
	struct trim_options o = { .min_bytes = min_bytes(t, p),
				  .cancelled = &stopped,
				  .progress = on_progress,
				  .userdata = t };
	struct stat st;
	bool is_dir = fstat(p->fd, &st) == 0 && S_ISDIR(st.st_mode);
	int r;

	t->now = p;
	o.pacer = pacing_start_trim(&pacing, t->o, p->fd, is_dir);
	r = trim_run(p->fd, &p->target, &o, &p->result);
	pacing_stop(&pacing);
	progress_pause(t->progress);
	if (r < 0)
		tell_error(p, r, o.min_bytes);
	else
		p->outcome = p->result.complete ? TRIM_DONE : TRIM_STOPPED;
	record(t, p);
}

/* Fills in how a step of the trim would be bounded. Without CAP_SYS_ADMIN only the type of the
 * filesystem decides. */
static void path_plan(struct trimming *t, struct trim_path *p)
{
	uint64_t least = min_bytes(t, p);
	int r = 0;

	p->outcome = TRIM_DONE;
	p->result.bound = trim_target_bound(&p->target, least);
	if (trim_is_permitted())
		r = trim_bound_find(p->fd, &p->target, least, &p->result.bound);
	if (r < 0)
		tell_error(p, r, least);
}

/* ---- --configured ----------------------------------------------------------------------------
 */

static void on_complaint(const struct config_error *e, void *userdata)
{
	struct safe_text t;

	(void)userdata;
	safe_text_format(&t, "%s:%u:%u: %s", e->file, e->line, e->column, e->text);
	if (!e->is_warning)
		complain(NULL, "%s", t.line);
}

/* Selects the filesystems that have no schedule of their own. Returns 0 or an exit status. */
static int without_schedule_find(struct trimming *t)
{
	const struct config *c = t->config;

	t->found.all = c->n_trims == 0;
	if (t->found.all && t->found.min_bytes == 0)
		t->found.min_bytes = c->trim_limits.min_bytes;
	t->names = calloc(c->n_trims + 1, sizeof(t->names[0]));
	if (!t->names) {
		complain("trim", "out of memory; nothing was trimmed");
		return EXIT_FAILED;
	}
	t->found.paths = t->names;
	for (size_t i = 0; i < c->n_trims; i++)
		if (!config_trim_is_apart(&c->trims[i]))
			t->names[t->found.n_paths++] = c->trims[i].mount;
	if (t->found.all || t->found.n_paths > 0)
		return 0;
	complain("trim", "each filesystem of the configuration has a schedule of its own: name the "
			 "filesystem; nothing was trimmed");
	return EXIT_FAILED;
}

/* Reads the configuration and selects the filesystems. Returns 0 or an exit status. */
static int configured_find(struct trimming *t)
{
	const char *dir = t->o->configuration_dir;
	int r = config_load(&t->config, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
			    on_complaint, NULL);

	if (r < 0) {
		complain("trim", "the configuration cannot be read%s%s; nothing was trimmed",
			 r == -EBADMSG ? "" : ": ", r == -EBADMSG ? "" : strerror(-r));
		return EXIT_FAILED;
	}
	if (t->o->n_paths == 0)
		return without_schedule_find(t);
	for (size_t i = 0; i < t->o->n_paths; i++)
		if (!config_trims(t->config, t->o->paths[i])) {
			complain(t->o->paths[i], "trim: of the configuration does not name this "
						 "mount point; nothing was trimmed");
			return EXIT_FAILED;
		}
	return 0;
}

/* Finds the filesystems. Returns 0 or an exit status. */
static int filesystems_find(struct trimming *t)
{
	int r = t->o->configured ? configured_find(t) : 0;

	if (r == 0)
		r = trim_paths_find(&t->paths, &t->found);
	if (r)
		return r;
	/* Without the mount table no result is recorded. */
	if (mounts_read(&t->mounts, "/proc/self/mountinfo") < 0)
		complain("trim", "the mount table cannot be read: results are not recorded; "
				 "ignoring");
	for (size_t i = 0; i < t->mounts.n; i++)
		(void)mounts_unescape((char *)t->mounts.v[i].target);
	for (size_t i = 0; i < t->paths.n; i++)
		trim_path_check_min(&t->paths.v[i], min_bytes(t, &t->paths.v[i]));
	return 0;
}

static int exit_status(const struct trim_paths *p)
{
	size_t failed = p->absent, done = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct trim_path *v = &p->v[i];

		failed += v->outcome == TRIM_FAILED || v->outcome == TRIM_STOPPED ||
			  v->outcome == TRIM_WAITS;
		done += v->outcome == TRIM_DONE || v->result.trimmed_bytes > 0;
	}
	if (failed == 0)
		return EXIT_DONE;
	return done > 0 ? EXIT_PARTLY : EXIT_FAILED;
}

static int not_permitted(void)
{
	complain("trim", "only root may trim, as it needs CAP_SYS_ADMIN: run it with sudo(8); "
			 "--dry-run needs no right; nothing was trimmed");
	return EXIT_NOT_AUTHORIZED;
}

int verb_trim(const struct options *o, struct client *c)
{
	struct trimming t = { .o = o, .found = *o };
	int r;

	(void)c;
	if (!o->dry_run && !trim_is_permitted())
		return not_permitted();
	r = filesystems_find(&t);
	if (r == 0) {
		t.progress = o->dry_run ? NULL : progress_new(o->progress, o->quiet);
		signals_install();
		for (size_t i = 0; i < t.paths.n && !stopped; i++)
			if (t.paths.v[i].outcome == TRIM_WAITS)
				(o->dry_run ? path_plan : path_trim)(&t, &t.paths.v[i]);
		t.progress = progress_free(t.progress);
		if (!o->dry_run)
			outcome_note("free space was trimmed");
		trim_print(&t.paths, o, stopped);
		r = exit_status(&t.paths);
	}
	trim_paths_done(&t.paths);
	mounts_done(&t.mounts);
	config_free(t.config);
	free(t.names);
	return r;
}
