/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A call that takes more than the caller's own authority, if polkit agrees:
 *
 *   refused --one's own, finished?--> polkit, quietly --it depends--> polkit, with a password
 *                                         |                               |
 *                                         +------------yes----------------+--> begun once more
 *
 * The call has been refused by the operation in the usual way, and nothing was done. With a grant
 * for the jobs that there are it goes the same way again, from the beginning of its message; if it
 * is refused then, it is so for good.
 *
 * A client that is refused must not learn whether there is such a job. So both are asked about, for
 * both the answer is that of the first refusal, and the person who is to give a password is shown
 * only what the caller has said: the agent that shows it is one of the caller's session. Whose job
 * it is, and of what, is only in the quiet question, which only polkit's rules see.
 *
 * polkit is asked while other clients are served, and its answers are never remembered. Yes is only
 * a yes in the form that polkit has for it; anything else, and nothing within its time, is no. When
 * the client leaves the bus meanwhile, polkit is told to forget it, and it is no.
 *
 * The bus's policy lets only polkitd own polkit's name on a system bus, and no process where polkit
 * is not installed; and a bus passes on only answers that were asked for, from the service that was
 * asked. So neither is checked here. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "bus-state.h"
#include "base/escape.h"

#define POLKIT "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE POLKIT ".Authority"
#define ALLOW_USER_INTERACTION 1U
#define MANAGE_OTHERS "org.reclaimd1.manage-others"
#define RESTORE_OTHERS "org.reclaimd1.restore-others"
#define PAUSE_ALL "org.reclaimd1.pause-all"
#define RELOAD "org.reclaimd1.reload"
#define PLAN_POLICY "org.reclaimd1.plan-policy"
#define RUN_POLICY "org.reclaimd1.run-policy"

/* polkit may have to be started first; and a password may need a person who is not at the machine.
 */
#define QUIET_USEC (10 * USEC_PER_SEC)
#define INTERACTIVE_USEC (300 * USEC_PER_SEC)
/* More than a person could read before giving a password. */
#define JOBS_MOST 64
/* With a space between two. */
#define JOBS_SIZE (JOBS_MOST * 21)
#define WORDS_SIZE (JOBS_SIZE + 80)

/* The calls that polkit is asked about. None is about what is the caller's own: that takes no
 * leave, and goes on without polkit. */
static const struct polkit_act {
	const char *member;
	const char *verb;  /* for polkit's rules */
	const char *words; /* for people */
	const char *action;
} acts[] = {
	{ "Cancel", "cancel", "cancel", MANAGE_OTHERS },
	{ "Pause", "pause", "pause", MANAGE_OTHERS },
	{ "Resume", "resume", "resume", MANAGE_OTHERS },
	{ "Restore", "restore", "have back what is held by", RESTORE_OTHERS },
	{ "SetPriority", "set-priority", "change the priority of", MANAGE_OTHERS },
	{ "SetDeadline", "set-deadline", "change the deadline of", MANAGE_OTHERS },
	{ "PauseAll", "pause-all", "let all deletions pause", PAUSE_ALL },
	{ "ResumeAll", "resume-all", "let all deletions go on", PAUSE_ALL },
	{ "Reload", "reload", "have reclaimd read its configuration again", RELOAD },
	{ "Plan", "plan-policy", "see what a retention policy would delete", PLAN_POLICY },
	{ "Run", "run-policy", "have a retention policy run", RUN_POLICY },
};

static const struct polkit_act *act_of(const struct bus_request *q)
{
	for (size_t i = 0; i < ELEMENTSOF(acts); i++)
		if (strcmp(q->call->member, acts[i].member) == 0)
			return &acts[i];
	return NULL;
}

static void refuse(struct bus_request *q)
{
	request_answer(&q->failure, q);
}

/* "3 5 8" */
static void jobs_format(const struct grant *g, char *buf)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < g->n; i++)
		len += (size_t)snprintf(buf + len, JOBS_SIZE - len, "%s%" PRIu64, i > 0 ? " " : "",
					g->jobs[i].id);
}

/* "cancel deletion job 3 of another user" */
static void words_format(const struct bus_request *q, char *buf)
{
	const struct grant *g = q->grant;
	char jobs[JOBS_SIZE];

	jobs_format(g, jobs);
	if (g->everybody)
		(void)snprintf(buf, WORDS_SIZE, "%s", act_of(q)->words);
	else
		(void)snprintf(buf, WORDS_SIZE, "%s deletion job%s %s of %s", act_of(q)->words,
			       g->n == 1 ? "" : "s", jobs,
			       g->n == 1 ? "another user" : "other users");
}

static void allowed(struct bus_request *q)
{
	uid_t uid = q->caller.id.uid;
	char words[WORDS_SIZE];

	words_format(q, words);
	log_user(LOG_NOTICE, uid, SD_ID128_NULL, "polkit lets user %u %s.", (unsigned)uid, words);
	quota_give(q->bus->quota, q->client->account, QUOTA_ASKS, q->asks);
	q->asks = 0;
	q->caller.grant = q->grant;
	q->failure = (struct failure){ 0 };
	request_again(q);
}

enum verdict {
	VERDICT_NO,
	VERDICT_CHALLENGE, /* no, but it might be yes if a person could be asked for a password */
	VERDICT_YES,
};

/* Logged once: every user can cause it, as often as they like. */
static void note(const struct bus_request *q, enum verdict v, const char *trouble)
{
	if (q->bus && trouble && !q->bus->polkit_silent)
		log_line(LOG_NOTICE,
			 "polkit does not say what users may do beyond their own jobs (%s). "
			 "Until it does, the answer is no.",
			 trouble);
	if (q->bus && (trouble || v != VERDICT_NO))
		q->bus->polkit_silent = trouble;
}

/* A password dialog that is open is no longer needed. That this may not arrive is no harm: polkit
 * forgets what it is not waited for. */
static void take_back(struct bus_request *q)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(q->link->conn, &m, POLKIT, POLKIT_PATH,
					       POLKIT_INTERFACE, "CancelCheckAuthorization");

	if (r >= 0)
		r = sd_bus_message_append(m, "s", q->polkit_id);
	if (r >= 0)
		r = sd_bus_message_set_expect_reply(m, false);
	if (r >= 0)
		r = sd_bus_message_set_auto_start(m, false);
	if (r >= 0)
		(void)sd_bus_send(q->link->conn, m, NULL);
}

static int ask(struct bus_request *q, bool person);

/* trouble: why polkit could not be asked or understood, or NULL. */
static void decide(struct bus_request *q, enum verdict v, const char *trouble)
{
	LIST_REMOVE(&q->watch, link);
	q->polkit = sd_bus_slot_unref(q->polkit);
	note(q, v, trouble);
	if (v == VERDICT_YES && q->bus)
		allowed(q);
	else if (v != VERDICT_CHALLENGE || q->asked_person || !q->bus ||
		 sd_bus_message_get_allow_interactive_authorization(q->m) <= 0 || ask(q, true) < 0)
		refuse(q);
}

static int verdict_read(sd_bus_message *m, enum verdict *ret)
{
	int yes = 0, challenge = 0, r;

	if (!sd_bus_message_has_signature(m, "(bba{ss})"))
		return -EBADMSG;
	r = sd_bus_message_enter_container(m, 'r', "bba{ss}");
	if (r >= 0)
		r = sd_bus_message_read(m, "bb", &yes, &challenge);
	if (r < 0)
		return r;
	*ret = yes ? VERDICT_YES : challenge ? VERDICT_CHALLENGE : VERDICT_NO;
	return 0;
}

static int on_verdict(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	struct bus_request *q = userdata;
	enum verdict v = VERDICT_NO;

	(void)error;
	if (e) { /* also that it took too long */
		take_back(q);
		decide(q, VERDICT_NO, e->message ? e->message : e->name);
	} else if (verdict_read(m, &v) < 0) {
		decide(q, VERDICT_NO, "its answer is not to be understood");
	} else {
		decide(q, v, NULL);
	}
	return 0;
}

static void on_left(struct client_watch *w)
{
	struct bus_request *q =
		(struct bus_request *)(void *)((char *)w - offsetof(struct bus_request, watch));

	take_back(q);
	decide(q, VERDICT_NO, NULL);
}

void polkit_cut(struct link *l)
{
	for (struct bus_request *q = LIST_FIRST(&l->bus->requests), *next; q; q = next) {
		next = LIST_NEXT(q, of_bus);
		if (q->link == l && q->polkit)
			decide(q, VERDICT_NO, "the message bus has gone");
	}
}

/* The details are shown to an agent of the caller's session, which may be the caller itself, where
 * a person is asked; otherwise only polkit and its rules see them. */
static int append_details(sd_bus_message *m, const struct bus_request *q, bool person)
{
	const struct grant *g = q->grant;
	_cleanup_free_ char *path = g->path ? escape_name(g->path) : NULL;
	char jobs[JOBS_SIZE], owner[16], words[WORDS_SIZE], message[WORDS_SIZE + 40];
	int r;

	if (g->path && !path)
		return -ENOMEM;
	jobs_format(g, jobs);
	words_format(q, words);
	(void)snprintf(owner, sizeof(owner), "%u", (unsigned)g->owner);
	(void)snprintf(message, sizeof(message), "Authentication is required to %s.", words);
	r = sd_bus_message_open_container(m, 'a', "{ss}");
	if (r >= 0)
		r = sd_bus_message_append(m, "{ss}", "verb", act_of(q)->verb);
	if (r >= 0 && !g->everybody)
		r = sd_bus_message_append(m, "{ss}", "jobs", jobs);
	if (r >= 0 && person)
		r = sd_bus_message_append(m, "{ss}", "polkit.message", message);
	if (r >= 0 && !person && g->one_owner)
		r = sd_bus_message_append(m, "{ss}", "owner", owner);
	if (r >= 0 && !person && path)
		r = sd_bus_message_append(m, "{ss}", "path", path);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* Of a person, for a password, or else quietly. */
static int ask(struct bus_request *q, bool person)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r;

	if (!q->link->bus || q->client->gone)
		return -ENOTCONN;
	if (q->client->unwatched) {
		note(q, VERDICT_NO, "the message bus does not tell when the caller leaves it");
		return -EOPNOTSUPP;
	}
	q->asked_person = person;
	(void)snprintf(q->polkit_id, sizeof(q->polkit_id), "reclaimd-%" PRIu64,
		       ++q->bus->questions);
	r = sd_bus_message_new_method_call(q->link->conn, &m, POLKIT, POLKIT_PATH, POLKIT_INTERFACE,
					   "CheckAuthorization");
	if (r >= 0)
		r = sd_bus_message_append(m, "(sa{sv})s", "system-bus-name", 1, "name", "s",
					  q->caller.bus_name, act_of(q)->action);
	if (r >= 0)
		r = append_details(m, q, person);
	if (r >= 0)
		r = sd_bus_message_append(m, "us", person ? ALLOW_USER_INTERACTION : 0U,
					  q->polkit_id);
	if (r >= 0)
		r = sd_bus_call_async(q->link->conn, &q->polkit, m, on_verdict, q,
				      person ? INTERACTIVE_USEC : QUIET_USEC);
	if (r < 0)
		return r;
	q->watch.left = on_left;
	LIST_INSERT_HEAD(&q->client->watches, &q->watch, link);
	return 0;
}

static void on_grant(int r, struct grant *g, void *userdata)
{
	struct bus_request *q = userdata;

	q->grant = g;
	if (r >= 0 && !q->bus)
		r = -ECANCELED; /* the daemon ends */
	if (r >= 0 && !g->everybody && g->n == 0)
		r = -ENOENT;
	if (r >= 0)
		r = ask(q, false);
	if (r < 0)
		refuse(q);
}

static void begin(struct bus_request *q)
{
	int r = quota_take(q->bus->quota, q->client->account, QUOTA_ASKS, 1);

	if (r < 0) {
		(void)request_refuse(q, ERROR_LIMIT_EXCEEDED,
				     "polkit is thinking about too many calls already: go on when "
				     "some of them have been answered");
		refuse(q);
		return;
	}
	q->asks = 1;
	grant_make(q->bus->operations, &q->caller, q->ids, q->n_ids, on_grant, q);
}

/* ---- one's own ---------------------------------------------------------------------------- */

static void count_own(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;

	(void)r;
	q->n_own++;
}

static void on_own(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	(void)f; /* what cannot be looked up is asked about */
	if (q->n_own == q->n_ids || !q->bus)
		refuse(q);
	else
		begin(q);
}

void request_decide(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;
	struct job_query query = { .finished = true, .ids = q->ids, .n_ids = q->n_ids };

	if (!f || !f->others || q->asked || !q->bus || !q->caller.bus_name) {
		request_answer(f, q);
		return;
	}
	q->asked = true;
	q->failure = *f;
	if (q->n_ids == 0) {
		begin(q);
	} else if (q->n_ids > JOBS_MOST) {
		refuse(q);
	} else {
		/* Those that have finished are no others', and nothing to be asked about. */
		operation_list(q->bus->operations, &q->caller, &query, count_own, on_own, q);
	}
}
