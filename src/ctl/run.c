/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl run: the engine in the caller's own process and with the caller's own rights. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/common/arguments.h"
#include "engine/engine.h"
#include "engine/filesystem/profile.h"
#include "engine/remove/last-reference.h"
#include "moosefs/moosefs.h"
#include "ctl/output/messages.h"
#include "ctl/common/run-pacing.h"
#include "prescan.h"
#include "ctl/output/progress.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

struct local_run {
	struct options o;
	struct arguments in;
	struct progress *progress;
	struct pacing pacing;
	struct stats total; /* over all filesystems */
	uint64_t elapsed_usec;
	bool cut_short; /* by a signal, with something left to be deleted */
	bool by_space;  /* total.bytes is what the filesystem says has become free */
	char strategy[224];
	enum backend backend;
};

static struct engine *_Atomic current;
static _Atomic bool stopped;

static void on_signal(int sig)
{
	struct engine *e = atomic_load(&current);
	int saved = errno;

	(void)sig;
	atomic_store(&stopped, true);
	if (e)
		engine_cancel(e);
	errno = saved;
}

/* The first signal stops at the next entry and reports; the second ends the process. */
static void signals_install(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	struct local_run *run = userdata;

	progress_pause(run->progress);
	if (p->error)
		complain(p->path, "%s: %s", p->what, strerror(-p->error));
	else
		complain(p->path, "%s", p->what);
}

static void on_progress(const struct engine_progress *p, void *userdata)
{
	struct local_run *run = userdata;

	if (run->o.verbose && pacing_due(&run->pacing)) {
		progress_pause(run->progress);
		pacing_tell(&run->pacing);
	}
	progress_update(run->progress, p);
}

static void total_add(struct local_run *run, const struct engine_progress *p)
{
	const uint64_t *from = (const uint64_t *)&p->stats;
	uint64_t *to = (uint64_t *)&run->total;

	for (size_t i = 0; i < offsetof(struct stats, first_error) / sizeof(*to); i++)
		to[i] += from[i];
	if (run->total.first_error == 0)
		run->total.first_error = p->stats.first_error;
	run->elapsed_usec += p->elapsed_usec;
	/* What was not weighed, the filesystem tells. */
	if (!p->weighed && !run->o.dry_run) {
		run->total.bytes += p->space_bytes - p->stats.bytes;
		run->by_space = true;
	}
	run->backend = p->backend;
	progress_base(run->progress, p->stats.entries, p->stats.bytes);
}

static void engine_options_fill(const struct local_run *run, struct engine_options *o)
{
	*o = (struct engine_options){
		.fixed_backend = run->o.fixed_backend,
		.backend = run->o.backend,
		.weigh = !run->o.latency_off,
		.op_latency_usec = run->o.latency_off    ? 0
				   : run->o.latency_usec ? run->o.latency_usec
							 : ENGINE_LATENCY_AUTO,
		.dry = run->o.dry_run,
		.shrink_min_bytes = ENGINE_LARGE_FILE,
		.problem = on_problem,
		.progress = on_progress,
		.mounts = protect_mounts(run->in.protect),
		.userdata = (void *)run,
	};
}

static int start_failed(const struct root_group *g, int error)
{
	if (error == -EOPNOTSUPP)
		complain(
			"--backend=uring",
			"this kernel or sandbox allows no io_uring (see kernel.io_uring_disabled): "
			"use --backend=auto or --backend=threads; nothing was deleted");
	else if (error == -EMFILE)
		complain(g->dir,
			 "too few file descriptors to work with (ulimit -n): 64 are enough");
	else
		complain(g->dir[0] ? g->dir : ".", "cannot be worked on: %s", strerror(-error));
	return EXIT_FAILED;
}

/* The snapshot way of MooseFS, if it is asked for and there is one. */
static struct moosefs *moosefs_begin(struct local_run *run, const struct root_group *g, int fd)
{
	struct moosefs *m = NULL;
	int r;

	if (run->o.stall_usec == 0 || run->o.dry_run)
		return NULL;
	r = geteuid() != 0 ? -EPERM : moosefs_open(&m, fd, protect_mounts(run->in.protect));
	if (r >= 0 || run->o.quiet)
		return m;
	progress_pause(run->progress);
	complain(g->dir[0] ? g->dir : ".", "not by snapshots but name by name: %s",
		 geteuid() != 0
			 ? "that is for root only, because MooseFS checks no permissions for root"
		 : r == -EOPNOTSUPP ? "this is no MooseFS, or not its version 3"
		 : r == -EPERM      ? "root has not mounted it"
		 : r == -ENOENT     ? "the program reclaim-moosefs is not installed"
				    : strerror(-r));
	return NULL;
}

/* Runs one engine over all groups on the filesystem of group `first`. */
static int filesystem_run(struct local_run *run, size_t first)
{
	struct root_group *g = run->in.roots.v[first];
	struct engine_options o;
	struct engine_progress result;
	struct last_reference_local *last_reference = NULL;
	struct engine *e = NULL;
	uint64_t dev = g->id.dev;
	int r, fd = root_group_open(g);

	engine_options_fill(run, &o);
	o.moosefs = fd < 0 ? NULL : moosefs_begin(run, g, fd);
	o.stall_usec = o.moosefs ? run->o.stall_usec : 0;
	/* Without root it cannot be known what else refers to a file: it is unlinked whole. Where
	 * nothing is shrunk, a server is not asked for what that takes. */
	if (fd >= 0 && !run->o.dry_run && profile_shrinks(fd) && last_reference_check(fd) >= 0)
		(void)last_reference_local_new(&last_reference);
	o.last_reference = last_reference_local(last_reference);
	r = fd < 0 ? fd : engine_new(&e, &o, fd);
	if (r >= 0)
		pacing_start(&run->pacing, &run->o, e, fd);
	if (fd != g->dirfd)
		fd_closep(&fd);
	if (r < 0) {
		last_reference_local_free(last_reference);
		moosefs_close(o.moosefs);
		return start_failed(g, r);
	}
	for (size_t i = first; r >= 0 && i < run->in.roots.n; i++) {
		g = run->in.roots.v[i];
		if (!g->accepted || g->id.dev != dev)
			continue;
		r = engine_add(e, g);
		g->accepted = false; /* taken over */
	}
	atomic_store(&current, e);
	if (stopped)
		engine_cancel(e);
	if (r >= 0)
		r = engine_run(e);
	atomic_store(&current, NULL);
	run->cut_short = stopped;
	if (r >= 0)
		pacing_settle(&run->pacing, &run->o, &stopped);
	engine_result(e, &result);
	total_add(run, &result);
	(void)engine_strategy(e, run->strategy, sizeof(run->strategy));
	/* First, because a signal handler may still run on the pacer's thread, and knows the
	 * engine. */
	pacing_stop(&run->pacing);
	engine_free(e);
	last_reference_local_free(last_reference);
	moosefs_close(o.moosefs);
	return r < 0 ? start_failed(g, r) : 0;
}

static void print_json(const struct local_run *run)
{
	const struct stats *s = &run->total;
	uint64_t missing = s->skipped[SKIP_MISSING] + run->in.roots.missing;
	uint64_t errors = s->errors + run->in.refused + run->in.absent;
	uint64_t skipped = stats_skipped(s) + run->in.roots.missing;
	json_t *why = json_object(), *v;

	for (int i = 0; i < SKIP_REASONS; i++)
		if (s->skipped[i] && i != SKIP_MISSING)
			(void)json_object_set_new(why, skip_reason_name((enum skip_reason)i),
						  json_integer((json_int_t)s->skipped[i]));
	if (missing)
		(void)json_object_set_new(why, "missing", json_integer((json_int_t)missing));
	v = json_pack("{sIsIsIsIsIsssssosssb}", "entries", (json_int_t)s->entries, "bytes",
		      (json_int_t)run->total.bytes, "errors", (json_int_t)errors, "skipped",
		      (json_int_t)skipped, "elapsed_usec", (json_int_t)run->elapsed_usec, "backend",
		      run->backend == BACKEND_URING ? "uring" : "threads", "strategy",
		      run->strategy, "skipped_why", why, "bytes_from",
		      run->by_space ? "statfs" : "st_blocks", "dry_run", run->o.dry_run);
	json_print(v, run->o.json);
}

static void print_text(const struct local_run *run)
{
	const struct stats *s = &run->total;
	char n[28], size[16], span[32];
	/* What a signal has left is told below. */
	uint64_t left = stats_skipped(s) - s->skipped[SKIP_MISSING] - s->skipped[SKIP_CANCELLED];
	uint64_t missing = s->skipped[SKIP_MISSING] + run->in.roots.missing;

	(void)printf("%s %s %s, %s%s, in %s (%s)\n", run->o.dry_run ? "Would delete" : "Deleted",
		     count_format(n, sizeof(n), s->entries), entries_word(s->entries),
		     run->by_space ? "about " : "", size_format(size, sizeof(size), s->bytes),
		     timespan_format(span, sizeof(span), run->elapsed_usec), run->strategy);
	if (missing)
		(void)printf("%s %s not there any more\n", count_format(n, sizeof(n), missing),
			     missing == 1 ? "was" : "were");
	if (s->errors)
		(void)printf("%s could not be deleted: see the messages above\n",
			     count_format(n, sizeof(n), s->errors));
	if (left)
		(void)printf("%s left on purpose\n", count_format(n, sizeof(n), left));
	if (run->cut_short)
		(void)printf("Stopped by a signal before the end: the rest is as it was\n");
}

static int exit_status(const struct local_run *run)
{
	const struct stats *s = &run->total;
	uint64_t left = stats_skipped(s) - s->skipped[SKIP_MISSING];

	if (s->errors + left + run->in.refused + run->in.absent == 0 && !run->cut_short)
		return EXIT_DONE;
	if (s->entries > 0)
		return EXIT_PARTLY;
	if (s->first_error == -EACCES || s->first_error == -EPERM)
		return EXIT_NOT_AUTHORIZED;
	return EXIT_FAILED;
}

static int run_all(struct local_run *run)
{
	const struct options *o = &run->o;
	struct prescan *scan = NULL;
	int r = pacing_trace(&run->pacing, o);

	/* Nothing is deleted unless every single path may be. */
	if (r == 0)
		r = protected_load(&run->in.protect, o, "nothing was deleted");
	if (r == 0)
		r = arguments_take(&run->in, o, "nothing was deleted");
	if (run->in.refused > 0 && (o->n_paths > 1 || o->files_from))
		complain("run", "nothing was deleted, because of what was refused above");
	if (r)
		return r;
	run->progress = progress_new(o->progress, o->quiet);
	signals_install();
	scan = prescan_start(&run->in.roots, run->progress, !o->latency_off);
	for (size_t i = 0; r == 0 && i < run->in.roots.n; i++) {
		if (!run->in.roots.v[i]->accepted)
			continue;
		run->cut_short = stopped;
		if (stopped)
			break;
		r = filesystem_run(run, i);
	}
	prescan_stop(scan);
	run->progress = progress_free(run->progress);
	if (!o->dry_run && run->total.entries > 0)
		outcome_note("%" PRIu64 " %s deleted", run->total.entries,
			     run->total.entries == 1 ? "entry was" : "entries were");
	if (r)
		return run->total.entries > 0 ? EXIT_PARTLY : r;
	if (o->json != JSON_OFF)
		print_json(run);
	else if (!o->quiet)
		print_text(run);
	return exit_status(run);
}

int verb_run(const struct options *o, struct client *c)
{
	struct local_run run = { .o = *o };
	int r = run_all(&run);

	(void)c;
	pacing_done(&run.pacing);
	arguments_done(&run.in);
	return r;
}
