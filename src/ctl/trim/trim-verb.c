/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl trim: tells devices what is free, in paced steps, in this process and without a
 * daemon; with --submit, by the daemon. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/units.h"
#include "ctl/common/run-pacing.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"
#include "ctl/output/progress.h"
#include "trim-paths.h"
#include "trim-print.h"
#include "trim-submit.h"

#define TELL_EVERY USEC_PER_SEC

struct trimming {
	const struct options *o;
	struct trim_paths paths;
	struct trim_path *now; /* that is being trimmed */
	struct progress *progress;
	uint64_t told_usec;
};

static _Atomic bool stopped;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&stopped, true);
}

/* The first signal stops within a step and reports; the second ends the process. */
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

static void path_trim(struct trimming *t, struct trim_path *p)
{
	struct pacing pacing = { 0 };
	struct trim_options o = { .min_bytes = t->o->min_bytes,
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
		tell_error(p, r, t->o->min_bytes);
	else
		p->outcome = p->result.complete ? TRIM_DONE : TRIM_STOPPED;
}

/* How it would be trimmed; a user who may not is told what is known without looking. */
static void path_plan(struct trimming *t, struct trim_path *p)
{
	int r = 0;

	p->outcome = TRIM_DONE;
	p->result.bound = trim_target_bound(&p->target, t->o->min_bytes);
	if (trim_is_permitted())
		r = trim_bound_find(p->fd, &p->target, t->o->min_bytes, &p->result.bound);
	if (r < 0)
		tell_error(p, r, t->o->min_bytes);
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
	struct trimming t = { .o = o };
	int r;

	(void)c;
	if (o->submit)
		return trim_submit_paths(o);
	if (!o->dry_run && !trim_is_permitted())
		return not_permitted();
	r = trim_paths_find(&t.paths, o);
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
	return r;
}
