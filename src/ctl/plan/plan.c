/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl plan: what would be done to a path, how, and why. Changes nothing.
 *
 * With --json, an array with one object for each PATH. Keys are only ever added. Sizes are bytes,
 * times microseconds; null means not known or not applicable.
 *
 *   path, verdict         as given; "delete", "partly" (some of it has to stay), "blocked" (nothing
 *                         of it can go), "refused", "missing"
 *   reason                why it is refused or missing, else null; then nothing follows
 *   complete              false if interrupted: the counts are what was seen by then
 *   type                  "directory", "file", "symlink", ...
 *   entries, files, directories, symlinks, others, unknown
 *                         itself and everything beneath
 *   unread                directories that could not be read or may not be entered
 *   depth                 levels beneath it
 *   mean_entries, most_entries, largest_directories: [{path, entries}]
 *                         entries in a directory
 *   bytes, bytes_exact, bytes_margin
 *                         what deleting it frees; if not exact, found from the `looked_at` entries,
 *                         and as far off as the margin 19 times in 20
 *   largest_files         [{path, bytes, size}], of those looked at
 *   large_files           how many would be freed in steps
 *   hard_links            {entries, kept_bytes}: names of files with several; what stays occupied
 *   undeletable           {entries, reasons: [{path, reason}]}
 *   open                  {entries, complete, hidden_processes, holders: [{path, how, pid,
 *                         command}]}: pid is null where the kernel itself holds a file
 *   filesystem            {type, mount_point, source, options, size_bytes, free_bytes, discard,
 *                         discard_rest, discard_avoided_by, quota_groups, subvolumes, snapshots,
 *                         snapshots_elsewhere, devices: [{name, number, top, leaf, rotating,
 *                         discard_max_bytes, backing_file}]}; discard_rest: the kernel discards
 *                         with what is freed the free blocks behind it; discard_avoided_by: the
 *                         mount option with which nothing is discarded
 *   discard_setup         {mode, possible, gentlest, granularity_bytes, max_bytes, usec_per_mib,
 *                         fstab, first_step_usec_per_mib}: as `devices` has it, or null
 *   strategy              {name, reason, backend, lanes, large_files}
 *   estimate              {warm_usec, cold_usec}
 *   costs                 [sentence]: what makes it expensive
 *   keeping               {trash_seconds, trash_bytes, open_bytes, snapshots}: what keeps the space
 *                         on MooseFS and CephFS, and how much is kept of whatever was deleted
 */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/remove/last-reference.h"
#include "moosefs/moosefs.h"
#include "engine/guard/protect.h"
#include "engine/guard/user-pin.h"
#include "ctl/output/messages.h"
#include "ctl/common/arguments.h"
#include "ctl/devices/daemon-devices.h"
#include "ctl/output/progress.h"
#include "ctl/common/verbs.h"

struct plan_session {
	struct options o;
	struct client *client; /* borrowed; NULL: none runs */
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

/* The first signal ends the reading and shows what is known; the second ends the process. */
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

/* What a run would begin with: asked of an engine made as run makes it, which never runs. */
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

bool plan_spreads(const struct plan *p)
{
	return p->lanes > 1 || p->profile.server;
}

bool plan_is_on(const struct plan *p, const char *type)
{
	return p->around.type && strcmp(p->around.type, type) == 0;
}

/* Finds out what keeps the space of what is deleted. */
static void keeping_find(const struct plan_session *s, struct plan *p, const struct target *t)
{
	_cleanup_close_ int dir = -1;
	struct moosefs *m = NULL;

	if (moosefs_open(&m, t->dirfd, protect_mounts(s->protect)) >= 0) {
		keeping_of_moosefs(m, t->id.ino, &p->keeping);
		moosefs_close(m);
	} else if (strcmp(p->profile.family, "cephfs") == 0) {
		dir = fd_open_dir(t->dirfd, t->name); /* else, those of the directory it is in */
		keeping_of_cephfs(dir >= 0 ? dir : t->dirfd, &p->keeping);
	}
}

/* Finds out everything about a target that was taken in. */
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
	discard_setup_find(&p->discards, p->around.type, p->around.options, p->around.source,
			   p->around.mount_point, &p->around.devices);
	p->discards.first_step_usec = daemon_trim_cost(s->client, p->around.mount_point);
	p->holders = &s->holders;
	p->verdict = p->f.undeletable == 0              ? VERDICT_DELETE
		     : p->f.undeletable >= p->f.entries ? VERDICT_BLOCKED
							: VERDICT_PARTLY;
	keeping_find(s, p, t);
	plan_estimate(p);
	plan_costs(p);
	return 0;
}

static void plan_done(struct plan *p)
{
	findings_done(&p->f);
	surroundings_done(&p->around);
	json_decref(p->costs);
}

static void show(struct plan_session *s, const struct plan *p)
{
	json_t *o = plan_json(p);

	if (!s->array && !s->o.quiet)
		plan_print(p, o);
	(void)json_array_append_new(s->array, o);
}

/* Why a person's pin keeps it, or NULL. */
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
	struct plan_session s = { .o = *o, .client = c };
	int r = plan_all(&s);

	json_decref(s.array);
	holders_done(&s.holders);
	protect_free(s.protect);
	return r;
}
