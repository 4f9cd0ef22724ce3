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
 * it is, and of what, is only in the quiet question, which only polkit's rules see. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "bus-state.h"
#include "base/escape.h"

#define MANAGE_OTHERS "org.reclaimd1.manage-others"
/* More than a person could read before giving a password. */
#define JOBS_MOST 64
/* With a space between two. */
#define JOBS_SIZE (JOBS_MOST * 21)
#define WORDS_SIZE (JOBS_SIZE + 80)

/* The calls that polkit is asked about. */
static const struct polkit_act {
	const char *member;
	const char *verb;  /* for polkit's rules */
	const char *words; /* for people */
} acts[] = {
	{ "Cancel", "cancel", "cancel" },
	{ "Pause", "pause", "pause" },
	{ "Resume", "resume", "resume" },
	{ "Restore", "restore", "have back what is held by" },
	{ "PauseAll", "pause-all", "let all deletions pause" },
	{ "ResumeAll", "resume-all", "let all deletions go on" },
	{ "Reload", "reload", "have reclaimd read its configuration again" },
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

/* Logged once: every user can cause it, as often as they like. */
static void note(const struct bus_request *q, enum verdict v, const char *trouble)
{
	if (q->bus && trouble && !q->bus->polkit_silent)
		log_line(LOG_NOTICE,
			 "polkit does not say whether users may act on others' jobs (%s). Until it "
			 "does, the answer is no.",
			 trouble);
	if (q->bus && (trouble || v != VERDICT_NO))
		q->bus->polkit_silent = trouble;
}

static void on_verdict(enum verdict v, const char *trouble, void *userdata);

/* Of a person, for a password, or else quietly. */
static int ask(struct bus_request *q, bool person)
{
	const struct grant *g = q->grant;
	_cleanup_free_ char *path = g->path ? escape_name(g->path) : NULL;
	char jobs[JOBS_SIZE], owner[16], words[WORDS_SIZE], message[WORDS_SIZE + 40];
	struct polkit_detail details[4] = { { "verb", act_of(q)->verb } };
	struct question question = { .caller = q->client,
				     .action = MANAGE_OTHERS,
				     .details = details,
				     .n_details = 1,
				     .interactive = person };

	if (g->path && !path)
		return -ENOMEM;
	if (!q->link->authority) /* the bus has gone meanwhile */
		return -ENOTCONN;
	if (q->client->unwatched) {
		note(q, VERDICT_NO, "the message bus does not tell when the caller leaves it");
		return -EOPNOTSUPP;
	}
	jobs_format(g, jobs);
	words_format(q, words);
	(void)snprintf(owner, sizeof(owner), "%u", (unsigned)g->owner);
	(void)snprintf(message, sizeof(message), "Authentication is required to %s.", words);
	if (!g->everybody)
		details[question.n_details++] = (struct polkit_detail){ "jobs", jobs };
	if (person)
		details[question.n_details++] = (struct polkit_detail){ "polkit.message", message };
	if (!person && g->one_owner)
		details[question.n_details++] = (struct polkit_detail){ "owner", owner };
	if (!person && path)
		details[question.n_details++] = (struct polkit_detail){ "path", path };
	q->asked_person = person;
	return authority_ask(q->link->authority, &question, on_verdict, q);
}

static void on_verdict(enum verdict v, const char *trouble, void *userdata)
{
	struct bus_request *q = userdata;

	note(q, v, trouble);
	if (v == VERDICT_YES && q->bus)
		allowed(q);
	else if (v != VERDICT_CHALLENGE || q->asked_person || !q->bus ||
		 sd_bus_message_get_allow_interactive_authorization(q->m) <= 0 || ask(q, true) < 0)
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
	r = grant_new(&q->grant, q->bus->operations, &q->caller, q->ids, q->n_ids);
	if (r >= 0 && !q->grant->everybody && q->grant->n == 0)
		r = -ENOENT;
	if (r >= 0)
		r = ask(q, false);
	if (r < 0)
		refuse(q);
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

	if (!f || !f->others || q->asked || !q->bus || !q->link->authority || !q->caller.bus_name) {
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
