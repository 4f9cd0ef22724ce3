/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl policy run: makes the plan that `policy plan` shows, here, and hands what it deletes
 * to the daemon as one job of origin policy:NAME. Each name goes with who it was when it was
 * planned for: what has been replaced since is left alone. From there on the job is like any other:
 * staged, held if the configuration says so, paced, in the history. What cannot be deleted is left
 * out of it, and said; how it all ended is written down (policy-state.h).
 *
 * With --json, one object; with --wait, then the job as `wait` has it. Keys are only ever added.
 *
 *   name     of the policy
 *   job      its number, or null if there was nothing to delete, and with --dry-run
 *   entries  how many are in the job
 *   missing  how many are gone, have changed or are held, since they were planned for
 *   bytes    what the plan deletes
 *   refused, excess   {entries, bytes}: what was to be deleted and cannot be; and what max-delete
 *            keeps
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/common/client.h"
#include "ctl/output/interrupt.h"
#include "ctl/jobs/job-list.h"
#include "ctl/jobs/job-view.h"
#include "ctl/jobs/wait.h"
#include "ctl/output/timestamps.h"
#include "policy-gain.h"
#include "policy-turn.h"
#include "policies.h"
#include "policy-state.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/sealed-file.h"
#include "base/units.h"
#include "wire/records.h"

/* So many names are told of, of what is refused; and of what its job could not delete. */
#define REFUSED_TOLD 10U

/* The gain of a run that frees less is not measured: other programs write as much in a moment. */
#define MEASURED_LEAST MiB(1)

struct running {
	struct policy_preview look;
	const struct options *o;
	const struct config *config;
	struct client *client;
	struct policy_result result;
	char origin[80];
	uint64_t job, accepted, missing, changed;
	uint64_t free_before; /* bytes, just before the job was handed over */
};

/* Complains, and notes it for `policy list`. */
static _printf_(3, 4) void tell(struct running *u, const char *what, const char *format, ...)
{
	struct safe_text why, line;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&why, format, ap);
	va_end(ap);
	complain(what, "%s", why.line);
	safe_text_format(&line, "%s: %s", what, why.line);
	result_say(&u->result, what == u->look.policy->name ? &why : &line);
}

/* ---- what became of it ------------------------------------------------------------------------
 */

static enum result_status status_of(int exit_status)
{
	return exit_status == EXIT_DONE     ? RESULT_DONE
	       : exit_status == EXIT_PARTLY ? RESULT_PARTIAL
					    : RESULT_FAILED;
}

static void record(const struct running *u, const struct policy_result *result)
{
	const char *dir = options_state_dir(u->o);
	int r = u->o->dry_run ? 0 : policy_result_write(dir, u->look.policy->name, result);

	if (r < 0)
		complain(dir, "%s: what became of this run is not recorded there; ignoring",
			 strerror(-r));
}

static void record_begin(struct running *u)
{
	struct policy_result before;

	/* What cannot be read is none. */
	if (policy_result_read(options_state_dir(u->o), u->look.policy->name, &before) < 0)
		before = (struct policy_result){ 0 };
	result_begin(&u->result, &before, realtime_usec());
}

/* Entries of one directory one after the other: so the daemon opens it once. */
static int by_name(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata;

	return strcmp(v[*(const uint32_t *)a].name, v[*(const uint32_t *)b].name);
}

static void records_write(FILE *f, const void *what)
{
	const struct policy_preview *l = what;

	for (size_t i = 0; i < l->scan.entries.n; i++) {
		const struct policy_entry *e = &l->scan.entries.v[l->plan.order[i]];
		const struct record_header h = { .ino = e->ino,
						 .btime_nsec = e->btime_nsec,
						 .type = e->mode & S_IFMT };

		if (!entry_goes(e))
			continue;
		(void)fwrite(&h, sizeof(h), 1, f);
		(void)fwrite(e->name, 1, strlen(e->name) + 1, f);
	}
}

static int list_append(sd_bus_message *m, const struct policy_preview *l)
{
	_cleanup_close_ int records = sealed_file(records_write, l);
	const char *path = l->policy->rules.path;
	int r = records < 0 ? records
			    : sd_bus_message_append(m, "a(hh)", 1, l->scan.basefd, records);

	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "{sv}");
	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}", "records", "b", 1);
	if (r >= 0)
		r = option_open(m, "display", "aay");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "ay");
	if (r >= 0)
		r = sd_bus_message_append_array(m, 'y', path, strlen(path));
	return r < 0 ? r : option_close(m, sd_bus_message_close_container(m));
}

static int submit(struct running *u)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m =
		client_message(u->client, MANAGER_PATH, MANAGER_INTERFACE, "SubmitLists");
	int r = m ? list_append(m, &u->look) : 0;

	if (!m)
		return EXIT_FAILED;
	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}{sv}", "origin", "s", u->origin,
					  "undo-usec", "t", u->look.policy->undo_usec, "bytes", "t",
					  u->look.plan.deleted.bytes, "dry-run", "b",
					  (int)u->o->dry_run);
	/* What is put into one of them from now on stays, and so does that one. */
	if (r >= 0 && u->look.policy->rules.kind == POLICY_EMPTY_DIRECTORIES)
		r = sd_bus_message_append(m, "{sv}", "rmdir", "b", 1);
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	/* As with submit, no time is too long. */
	if (!u->o->dry_run)
		interrupt_says_jobs(NULL, 0, /* answered= */ false);
	r = client_send(u->client, m, UINT64_MAX, &reply);
	if (r)
		return r;
	if (!u->o->dry_run)
		interrupt_says("what was handed over goes on: see reclaimctl list");
	r = sd_bus_message_read(reply, "tott", &u->job, NULL, &u->accepted, &u->missing);
	return r < 0 ? client_broken(r) : 0;
}

/* Is this the directory of a policy on the same filesystem? */
static bool is_near(const struct running *u, const char *origin)
{
	struct stat here, there;

	for (size_t i = 0; i < u->config->n_policies; i++) {
		const struct config_policy *p = &u->config->policies[i];
		const char *name = policy_of_origin(origin);

		if (name && strcmp(name, p->name) == 0)
			return fstat(u->look.scan.basefd, &here) >= 0 &&
			       stat(p->rules.path, &there) >= 0 && here.st_dev == there.st_dev;
	}
	return false;
}

/* What a job has taken out of the way frees nothing before it is done, and would be made up for by
 * what is still there. That of another policy counts if it is about to free it. */
static bool is_coming(const struct running *u, const struct job_line *j)
{
	if (strcmp(j->origin, u->origin) == 0)
		return true;
	return strcmp(j->state, "held") != 0 && strcmp(j->state, "paused") != 0 &&
	       is_near(u, j->origin);
}

/* Returns 0 or an exit status, after having said why. */
static int wait_for_space(struct running *u)
{
	_cleanup_job_list_ struct job_list jobs = { 0 };
	const struct job_wish wish = { 0 };
	int r = job_list_get(u->client, &wish, &jobs);

	for (size_t i = 0; r == 0 && i < jobs.n; i++) {
		if (!is_coming(u, &jobs.v[i]))
			continue;
		tell(u, u->look.policy->name,
		     "job %" PRIu64 " of %s has not ended, so how much space there will be is not "
		     "known: nothing more was deleted",
		     jobs.v[i].id, jobs.v[i].origin);
		r = EXIT_FAILED;
	}
	return r;
}

/* What is to go, and cannot. */
static void tell_refused(struct running *u)
{
	const struct policy_preview *l = &u->look;
	char path[PATH_MAX + NAME_MAX], n[COUNTED_SIZE];
	uint64_t told = 0;

	for (size_t i = 0; i < l->scan.entries.n && told < REFUSED_TOLD; i++) {
		const struct policy_entry *e = &l->scan.entries.v[l->plan.order[i]];

		if (!e->stays || !disposition_refuses((enum disposition)e->disposition))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s",
			       strcmp(l->policy->rules.path, "/") == 0 ? "" : l->policy->rules.path,
			       e->name);
		tell(u, path, "not deleted: %s",
		     disposition_words((enum disposition)e->disposition));
		told++;
	}
	if (l->plan.refused.n > told)
		tell(u, l->policy->name, "%s more cannot be deleted: see reclaimctl policy plan %s",
		     counted_format(n, sizeof(n), l->plan.refused.n - told, "entry", "entries"),
		     l->policy->name);
}

/* Reports unmet limits, and what max-delete keeps. */
static void tell_notes(struct running *u)
{
	json_t *notes = policy_notes(&u->look), *note;
	size_t i;

	json_array_foreach(notes, i, note)
		tell(u, u->look.policy->name, "%s", json_string_value(note));
	json_decref(notes);
}

/* Reports that the last runs gained no space. */
static void tell_stall(struct running *u)
{
	struct safe_text t;

	gain_explain(&t, u->look.scan.basefd, u->result.expected_bytes, u->result.gained_bytes);
	tell(u, u->look.policy->name, "%s%s", t.line,
	     u->result.stalls < STALLS_MOST
		     ? ""
		     : ": the policy stops until more is free, the configuration is read again, or "
		       "a person runs it");
}

/* Returns true if limits delete for the sake of free space. */
static bool is_for_space(const struct policy_plan *p)
{
	return p->dispositions[DISPOSITION_MIN_FREE].n > 0 ||
	       p->dispositions[DISPOSITION_MIN_INODES].n > 0;
}

/* Returns true if the last runs gained no space, and it was not a person who started this one. The
 * daemon starts no further run itself (watermarks.c), so this is about timers. */
static bool is_stalled(const struct running *u)
{
	return u->result.stalls >= STALLS_MOST && getenv("TRIGGER_UNIT") && !u->o->force &&
	       is_for_space(&u->look.plan);
}

/* Counts what limits delete before they do: a crash must not let them delete it twice. */
static void spend(struct running *u)
{
	result_spend(&u->result, &u->look.plan.limited, realtime_usec());
	if (u->look.plan.limited.n > 0)
		record(u, &u->result);
}

/* Hands over what is to go. Returns 0 or an exit status. */
static int hand_over(struct policy_session *s, struct running *u)
{
	struct policy_preview *l = &u->look;
	int r;

	if (l->plan.refused.n > 0)
		tell_refused(u);
	tell_notes(u);
	if (u->result.stalls > 0 && (is_stalled(u) || !is_for_space(&l->plan)))
		tell_stall(u);
	if (is_stalled(u))
		return EXIT_FAILED;
	if (l->plan.deleted.n == 0)
		return 0;
	r = client_open(&u->client, u->o, /* socket_first= */ true);
	if (r == 0 && is_for_space(&l->plan))
		r = wait_for_space(u);
	if (r)
		return r;
	gate("policy-again", l->policy->name);
	u->changed = policy_recheck(s, l);
	if (l->plan.deleted.n == 0)
		return 0;
	qsort_r(l->plan.order, l->scan.entries.n, sizeof(*l->plan.order), by_name,
		l->scan.entries.v);
	gate("policy", l->policy->name);
	u->free_before = gain_free_bytes(l->scan.basefd);
	spend(u);
	return submit(u);
}

/* ---- its end ----------------------------------------------------------------------------------
 */

/* Returns true if entries stayed that were to be deleted, or a limit is not met. */
static bool is_short(const struct running *u)
{
	const struct policy_plan *p = &u->look.plan;

	return p->refused.n > 0 || p->is_over || limits_are_unmet(p) ||
	       u->look.clock_jump_usec != 0;
}

/* Returns the exit status of a run that did what it could. */
static int status_of_plan(const struct running *u)
{
	const struct policy_plan *p = &u->look.plan;

	if (!is_short(u))
		return EXIT_DONE;
	if (u->result.stalls >= STALLS_MOST && u->accepted == 0 && limits_are_unmet(p))
		return EXIT_FAILED;
	/* Only max-delete, or entries that cannot be deleted, were in the way of all of it. */
	return u->accepted == 0 && !limits_are_unmet(p) ? EXIT_FAILED : EXIT_PARTLY;
}

/* Of the run without its job. Returns its exit status. */
static int record_end(struct running *u, int r)
{
	const struct policy_plan *p = &u->look.plan;
	struct client *c = u->client ? u->client : client_try(u->o, /* socket_first= */ false);

	if (r == 0)
		r = status_of_plan(u);
	policy_result_refresh(c, &u->result);
	u->result.job = u->job;
	if (u->job > 0)
		u->result.handed = (struct policy_sum){ u->accepted, p->deleted.bytes };
	u->result.refused = p->refused;
	u->result.excess = p->excess;
	u->result.pinned = p->dispositions[DISPOSITION_PINNED];
	result_note_unmet(&u->result, p);
	if (p->oldest_nsec > 0 && p->oldest_nsec < INT64_MAX && p->matched.n > 0)
		u->result.oldest_usec = (uint64_t)p->oldest_nsec / 1000;
	result_end(&u->result, status_of(r), realtime_usec());
	record(u, &u->result);
	if (c != u->client)
		client_free(c);
	return r;
}

/* Says what the job could not delete, as its unit's log is looked at first. */
static void tell_problems(struct running *u)
{
	json_t *job = NULL, *p;
	size_t i;

	u->client->hushed = true;
	if (job_view_get(u->client, u->job, REFUSED_TOLD, &job) != 0)
		return;
	if (json_text(job, "message")[0])
		tell(u, u->look.policy->name, "job %" PRIu64 ": %s", u->job,
		     json_text(job, "message"));
	json_array_foreach(json_object_get(job, "problems"), i, p) {
		int error = (int)json_number(p, "error");

		if (json_is_true(json_object_get(p, "is_error")))
			tell(u, json_text(p, "path"), "not deleted: %s%s%s", json_text(p, "what"),
			     error ? ": " : "", error ? strerror(error) : "");
	}
	json_decref(job);
}

/* Compares what the job was to free with what the filesystem gained. Returns true if it was next to
 * nothing, and the run deleted for the sake of space. */
static bool has_stalled(struct running *u)
{
	uint64_t expected = u->look.plan.deleted.bytes, stalls = u->result.stalls;

	if (expected < MEASURED_LEAST)
		return false;
	result_measured(&u->result, expected,
			gain_wait(u->look.scan.basefd, u->free_before, expected));
	if (is_for_space(&u->look.plan))
		return u->result.stalls > 0;
	u->result.stalls = stalls;
	return false;
}

/* The job of the run has ended, and no other run has begun since. Returns the exit status of all.
 */
static int run_end(struct running *u, int r, int waited)
{
	if (waited != EXIT_DONE && u->result.status < RESULT_CANCELLED)
		tell_problems(u);
	if (waited == EXIT_DONE && has_stalled(u)) {
		tell_stall(u);
		r = u->result.stalls < STALLS_MOST ? MAX(r, EXIT_PARTLY) : EXIT_FAILED;
		u->result.status = MAX(u->result.status, (uint64_t)status_of(r));
	}
	/* A person has decided that the job is not to be done. */
	return u->result.status >= RESULT_CANCELLED || waited == EXIT_DONE ? r : waited;
}

/* A job that can be taken back is not waited for: that may take days, in which the next runs
 * would have to wait, too. Returns the exit status of all. */
static int job_wait(struct running *u, int r)
{
	struct policy_result now;
	int waited;

	if (u->job == 0 || u->o->wait == WAIT_NOT || u->look.policy->undo_usec > 0)
		return r;
	waited = wait_jobs(u->client, u->o, &u->job, 1);
	if (policy_result_read(options_state_dir(u->o), u->look.policy->name, &now) < 0)
		return waited ? waited : r;
	policy_result_refresh(u->client, &now);
	/* Another run may have begun by now, and has the last word. */
	if (now.job != u->job) {
		record(u, &now);
		return waited ? waited : r;
	}
	u->result = now;
	r = run_end(u, r, waited);
	record(u, &u->result);
	return r;
}

static void print_text(const struct running *u)
{
	char n[COUNTED_SIZE], size[16];

	if (u->accepted == 0) {
		if (!is_short(u))
			(void)printf("%s: nothing to delete\n", u->look.policy->name);
		return;
	}
	if (u->o->dry_run)
		(void)fputs("Would submit ", stdout);
	else
		(void)printf("Job %" PRIu64 ": ", u->job);
	(void)printf("%s of %s, %s", counted_format(n, sizeof(n), u->accepted, "entry", "entries"),
		     u->look.policy->name,
		     size_format(size, sizeof(size), u->look.plan.deleted.bytes));
	if (u->missing > 0)
		(void)printf("; %s gone, replaced or changed meanwhile",
			     count_format(n, sizeof(n), u->missing));
	if (u->look.plan.excess.n > 0 && !u->look.plan.is_over)
		(void)printf(
			"; stopped at max-delete: %s stay for now",
			counted_format(n, sizeof(n), u->look.plan.excess.n, "entry", "entries"));
	(void)putchar('\n');
}

static void print(const struct running *u)
{
	json_t *job = u->job > 0 ? json_integer((json_int_t)u->job) : json_null();
	const struct policy_plan *p = &u->look.plan;

	if (u->o->json != JSON_OFF)
		json_print(json_pack("{sssosIsIsIs{sIsI}s{sIsI}}", "name", u->look.policy->name,
				     "job", job, "entries", (json_int_t)u->accepted, "missing",
				     (json_int_t)u->missing, "bytes", (json_int_t)p->deleted.bytes,
				     "refused", "entries", (json_int_t)p->refused.n, "bytes",
				     (json_int_t)p->refused.bytes, "excess", "entries",
				     (json_int_t)p->excess.n, "bytes", (json_int_t)p->excess.bytes),
			   u->o->json);
	else
		json_decref(job);
	if (u->o->json == JSON_OFF && !u->o->quiet)
		print_text(u);
}

static int preview(struct policy_session *s, struct running *u)
{
	struct policy_preview *l = &u->look;
	_cleanup_close_ int base = scan_base(l->policy->rules.path);

	if (policy_has_min_free(&l->policy->rules) && base >= 0 &&
	    gain_wait_for_subvolumes(base) < 0) {
		tell(u, l->policy->name,
		     "btrfs has not freed the deleted subvolumes yet, so how much space there "
		     "will be is not known: nothing more was deleted");
		return EXIT_FAILED;
	}
	if (policy_preview(s, l) < 0) {
		tell(u, l->policy->name, "%s %s: nothing was deleted", l->where, l->problem);
		return EXIT_FAILED;
	}
	/* It would be so each time. */
	if (l->scan.missing_ages) {
		tell(u, l->policy->name, "%s %s: nothing was deleted, as age-by goes by that",
		     l->policy->rules.path, scan_missing_words(l->scan.missing_ages));
		return EXIT_FAILED;
	}
	if (policy_marks_words(l))
		complain(l->policy->name, "%s %s; ignoring", l->policy->rules.path,
			 policy_marks_words(l));
	if (!s->open_known && l->policy->rules.skip_open && l->plan.deleted.n > 0)
		complain(l->policy->name, "what other processes have open could not be seen in "
					  "full; ignoring");
	return 0;
}

/* Limits need only the order of the entries, so they go on if the clock was set. Returns 0, or
 * EXIT_FAILED if the policy has no limits. */
static int clock_tell(struct running *u)
{
	const struct policy *p = &u->look.policy->rules;
	bool has_limits = p->max_files > 0 || policy_has_marks(p);

	if (u->look.clock_jump_usec == 0)
		return 0;
	tell(u, u->look.policy->name,
	     has_limits ? "the clock was set, so keep and max-age delete nothing, and only the "
			  "limits are applied"
			: "the clock was set: nothing was deleted");
	return has_limits ? 0 : EXIT_FAILED;
}

int policy_run(struct policy_session *s, const struct config_policy *p)
{
	struct running u = { .look = { .policy = p, .scan = SCAN_NONE },
			     .o = &s->o,
			     .config = s->config };
	_cleanup_close_ int turn = -1;
	int r;

	if (geteuid() != 0 && !s->o.user) {
		complain("policy run",
			 "only root may: sudo reclaimctl policy run %s. What it would delete says "
			 "reclaimctl policy plan %s; your own policies run with --user",
			 p->name, p->name);
		return EXIT_NOT_AUTHORIZED;
	}
	(void)snprintf(u.origin, sizeof(u.origin), "%s%s",
		       s->o.user ? USER_POLICY_ORIGIN : POLICY_ORIGIN, p->name);
	turn = policy_turn(&s->o, &u.look.clock_jump_usec, &r);
	record_begin(&u);
	r = turn < 0 ? r : clock_tell(&u);
	if (r == 0)
		r = policy_prepare(s);
	if (r == 0)
		r = preview(s, &u);
	if (r == 0)
		r = hand_over(s, &u);
	u.missing += u.changed;
	if (r != 0 && !u.result.why[0])
		result_say(&u.result, &(struct safe_text){ "failed: its log says why" });
	if (r == 0)
		print(&u);
	r = record_end(&u, r);
	/* Others need not wait for the job. */
	fd_closep(&turn);
	r = job_wait(&u, r);
	client_free(u.client);
	policy_preview_done(&u.look);
	return r;
}
