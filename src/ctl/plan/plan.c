/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl plan: prints what a deletion of each path would do. Changes nothing.
 *
 * With --json it prints an array with one object for each PATH. Later versions may add keys. Sizes
 * are in bytes. null means unknown or not applicable.
 *
 *   path            as the user typed it
 *   verdict         "delete", "partly" (some entries cannot be deleted), "blocked" (none can),
 *                   "refused", "missing"
 *   reason          why the path is refused or missing, else null; if it is set, the object has no
 *                   other keys
 *   complete        false if the user interrupted the scan: the numbers are those until then
 *   type            "directory", "file", "symlink", ...
 *   entries, files, directories, symlinks, others, unknown
 *                   numbers of entries, PATH itself included
 *   unread          number of directories that could not be read
 *   depth           number of levels below PATH
 *   mean_entries, most_entries, largest_directories: [{path, entries}]
 *                   entries of one directory
 *   bytes           space that the deletion frees; an upper bound if `bytes_exact` is false because
 *                   entries are skipped, a lower bound if directories could not be read
 *   largest_files   [{path, bytes, size}]
 *   large_files     number of files that a run frees in steps if it can
 *   hard_links      {entries, kept_bytes}: names of files with several names, and the space that
 *                   names elsewhere keep in use
 *   undeletable     {entries, reasons: [{path, reason}]}
 *   open            {entries, complete, hidden_processes, holders: [{path, how, pid, command}]};
 *                   pid is null if the kernel itself uses the file
 *   filesystem      {type, mount_point, source, options, size_bytes, free_bytes, discard,
 *                   subvolumes, devices: [{name, number, top, leaf, rotating, discard_max_bytes,
 *                   backing_file}]}
 *   strategy        {name, reason, backend, lanes, large_files}
 */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/remove/last-reference.h"
#include "engine/remove/shrink.h"
#include "engine/guard/protect.h"
#include "engine/guard/user-pin.h"
#include "ctl/output/messages.h"
#include "ctl/common/arguments.h"
#include "ctl/output/progress.h"
#include "ctl/common/verbs.h"

struct plan_session {
	struct options o;
	struct protect *protect;
	struct holders holders;
	json_t *array; /* with --json */
	bool refused;
};

static _Atomic bool interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = true;
}

/* Lets the first signal end the scan and print its results, and the second end the process. */
static void signals_install(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
}

const char *verdict_name(enum plan_verdict v)
{
	static const char *const names[] = {
		[VERDICT_DELETE] = "delete",   [VERDICT_PARTLY] = "partly",
		[VERDICT_BLOCKED] = "blocked", [VERDICT_REFUSED] = "refused",
		[VERDICT_MISSING] = "missing",
	};

	return names[v];
}

const char *mode_name(uint32_t mode)
{
	static const char *const names[16] = {
		[DT_REG] = "file",
		[DT_DIR] = "directory",
		[DT_LNK] = "symlink",
		[DT_FIFO] = "fifo",
		[DT_SOCK] = "socket",
		[DT_BLK] = "block-device",
		[DT_CHR] = "character-device",
	};
	const char *name = names[IFTODT(mode) & 15];

	return name ? name : "unknown";
}

/* Fills in the strategy that a run would start with, from an engine that is never run. */
static int strategy_find(struct plan *p, int fd)
{
	struct engine_options o = { .dry = true,
				    .weigh = true,
				    .op_latency_usec = ENGINE_LATENCY_AUTO };
	struct engine_progress begin;
	struct engine *e = NULL;
	int r = engine_new(&e, &o, fd);

	if (r < 0)
		return r;
	p->profile = *engine_profile(e);
	engine_result(e, &begin);
	p->backend = begin.backend;
	p->lanes = begin.lanes;
	(void)engine_strategy(e, p->strategy, sizeof(p->strategy));
	p->last_reference = last_reference_check(fd);
	engine_free(e);
	return 0;
}

const char *plan_large_files(const struct plan *p)
{
	if (!p->profile.lease_truthful)
		return strcmp(p->profile.family, "overlay") == 0
			       ? "unlinked whole: overlayfs grants leases on files that other "
				 "processes use, so reclaimd does not truncate there"
			       : "unlinked whole: this filesystem does not report whether another "
				 "process uses a file, so reclaimd does not truncate there";
	if (shrink_unit() > SHRINK_UNIT_MOST)
		return "unlinked whole: the memory pages of this machine are too large for small "
		       "steps";
	if (p->profile.shrink == SHRINK_NEVER)
		return "unlinked whole: steps have no advantage on this filesystem";
	if (p->last_reference == -EOPNOTSUPP)
		return "unlinked whole: without Landlock (Linux 5.13) reclaimd cannot find out "
		       "whether a file is in use elsewhere, so it does not truncate";
	/* The daemon asks a helper that runs as root. */
	if (p->last_reference < 0 && geteuid() != 0)
		return "freed in steps by submit, but unlinked whole by run: only root can find "
		       "out whether a file is in use elsewhere";
	if (p->last_reference < 0)
		return "unlinked whole: even root cannot find out here whether a file is in use "
		       "elsewhere (CAP_DAC_READ_SEARCH of the host is missing), so reclaimd does "
		       "not truncate";
	return p->profile.shrink == SHRINK_TAIL
		       ? "freed in steps from the end, so that no journal commit is long; "
			 "unlinked whole if it is in use elsewhere"
		       : "freed in steps from the start, so that each block is discarded once; "
			 "unlinked whole if it is in use elsewhere";
}

/* Fills in the plan for a target that passed the checks of a submit. */
static int plan_fill(struct plan_session *s, struct plan *p, const struct target *t)
{
	struct progress *bar = progress_new(SWITCH_AUTO, s->o.quiet);
	int r = strategy_find(p, t->dirfd);

	if (r >= 0)
		r = survey(&p->f, t, &s->holders, bar, &interrupted);
	progress_free(bar);
	if (r >= 0)
		r = surroundings_find(t->dirfd, &p->around);
	if (r < 0)
		return r;
	p->holders = &s->holders;
	p->verdict = p->f.undeletable == 0              ? VERDICT_DELETE
		     : p->f.undeletable >= p->f.entries ? VERDICT_BLOCKED
							: VERDICT_PARTLY;
	return 0;
}

static void plan_done(struct plan *p)
{
	findings_done(&p->f);
	surroundings_done(&p->around);
}

static void show(struct plan_session *s, const struct plan *p)
{
	json_t *o = plan_json(p);

	if (!s->array && !s->o.quiet)
		plan_print(p, o);
	(void)json_array_append_new(s->array, o);
}

/* Returns why a pin keeps the target, in `words`; NULL if it is not pinned. */
static const char *pinned(const struct target *t, char words[USER_PIN_WORDS])
{
	struct user_pin pin = user_pin_around(t->dirfd);
	bool around = user_pin_holds(&pin);

	if (!around)
		pin = user_pin_read(t->dirfd, t->name);
	return user_pin_holds(&pin) ? user_pin_words(&pin, around, words) : NULL;
}

static int plan_one(struct plan_session *s, const char *path)
{
	struct plan p = { .path = path };
	struct target t = { .dirfd = -1 };
	char words[USER_PIN_WORDS];
	int r = intake(s->protect, path, &t, &p.reason);

	if (r >= 0) {
		p.reason = pinned(&t, words);
		if (p.reason)
			target_done(&t);
		r = p.reason ? -EPERM : 0;
	}
	if (r < 0) {
		p.verdict = r == -ENOENT ? VERDICT_MISSING : VERDICT_REFUSED;
		complain(path[0] ? path : "''", "%s", p.reason);
		s->refused = true;
		show(s, &p);
		return 0;
	}
	r = plan_fill(s, &p, &t);
	if (r < 0)
		complain(path, "cannot be looked at: %s", strerror(-r));
	else
		show(s, &p);
	plan_done(&p);
	target_done(&t);
	return r;
}

static int plan_all(struct plan_session *s)
{
	bool failed = false;
	int r = protected_load(&s->protect, &s->o, "nothing was looked at");

	if (r)
		return r;
	r = holders_read(&s->holders, "/proc", "/sys");
	if (r < 0) {
		complain("/proc", "cannot be read, so what is open is not known: %s; ignoring",
			 strerror(-r));
		s->holders.processes_hidden = true;
	}
	if (s->o.json != JSON_OFF)
		s->array = json_array();
	signals_install();
	for (size_t i = 0; i < s->o.n_paths; i++) {
		if (interrupted && i > 0)
			complain(s->o.paths[i], "not looked at: interrupted");
		else if (plan_one(s, s->o.paths[i]) < 0)
			failed = true;
	}
	if (s->array)
		json_print(json_incref(s->array), s->o.json);
	if (s->refused || failed)
		return EXIT_FAILED;
	return interrupted ? EXIT_PARTLY : EXIT_DONE;
}

int verb_plan(const struct options *o, struct client *c)
{
	struct plan_session s = { .o = *o };
	int r;

	(void)c;
	r = plan_all(&s);

	json_decref(s.array);
	holders_done(&s.holders);
	protect_free(s.protect);
	return r;
}
