/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "answers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/escape.h"
#include "claims.h"
#include "reports.h"
#include "schema.h"
#include "session.h"
#include "statements.h"

/* Between two looks at what has become of this host's jobs. */
#define NEWS_USEC (500 * USEC_PER_MSEC)

static const char *field(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

/* A number that is not negative. */
static int field_number(const PGresult *result, int row, int column, uint64_t *ret)
{
	int64_t n = 0;
	int r = number_read_between(field(result, row, column), 0, INT64_MAX, &n);

	*ret = (uint64_t)n;
	return r;
}

static const char *field_name(const PGresult *result, int row, int column)
{
	const char *text = field(result, row, column);

	return text && fleet_name_is_valid(text) ? text : NULL;
}

static void altered(struct companion *c)
{
	session_refuse(c,
		       "the database answers what was not asked: its schema reclaimd was altered");
}

static void on_settings(struct companion *c, const PGresult *result)
{
	int64_t version = 0;

	if (PQntuples(result) != 1 ||
	    number_read_between(field(result, 0, 0), 0, INT32_MAX, &version) < 0) {
		altered(c);
	} else if (version != SCHEMA_VERSION) {
		char text[256];

		(void)snprintf(text, sizeof(text),
			       "the database has version %" PRIi64
			       " of the schema, and this reclaimd takes version %d: %s",
			       version, SCHEMA_VERSION,
			       version < SCHEMA_VERSION ? "run reclaimctl fleet init"
							: "update this host");
		session_refuse(c, text);
	} else {
		send_listen(c);
	}
}

static void on_join(struct companion *c, const PGresult *result)
{
	const char *life = NULL;

	for (int i = 0; i < PQntuples(result); i++) {
		const char *what = field(result, i, 0);

		if (what && strcmp(what, "life") == 0)
			life = field(result, i, 1);
	}
	if (!life || strlen(life) != LIFE_LEN) {
		altered(c);
		return;
	}
	if (strcmp(c->life, life) != 0) {
		claims_lose(c);
		memcpy(c->life, life, LIFE_LEN + 1);
	}
	c->joined = true;
	c->lost_told = false;
	c->n_retries = 0;
	c->renew_usec = companion_now(c);
	free(c->refused);
	c->refused = NULL;
	shares_begin(c);
	report(c, FLEET_JOINED, NULL);
	for (int i = 0; i < PQntuples(result); i++) {
		const char *what = field(result, i, 0), *name = field_name(result, i, 1),
			   *host = field_name(result, i, 2);
		struct share *s = name ? share_find(c, name) : NULL;
		uint64_t units;

		if (!what || !name)
			continue;
		if (strcmp(what, "wanted") == 0 && s && host &&
		    field_number(result, i, 3, &units) >= 0)
			(void)demand_set(&c->demand, (size_t)(s - c->shares), host,
					 MIN(units, (uint64_t)CLAIMS_MOST));
		else if (strcmp(what, "works") == 0 && s && host)
			(void)demand_set(&c->working, (size_t)(s - c->shares), host, 1);
	}
	for (size_t i = 0; i < c->n_shares; i++) {
		report_demand(c, &c->shares[i]);
		c->shares[i].others = UINT64_MAX;
		report_working(c, &c->shares[i]);
	}
	report_lease(c);
}

/* A problem with a job, as reclaimd has it from its workers. */
static void problem_tell(struct companion *c, const PGresult *result, int row, uint64_t job)
{
	_cleanup_free_ char *path = NULL;
	const char *what = field(result, row, 8);
	size_t len;
	int64_t error = 0;

	if (!what || strlen(what) >= FLEET_TEXT_SIZE || !text_is_safe(what) ||
	    number_read_between(field(result, row, 9), 0, 4095, &error) < 0 ||
	    bytes_read(field(result, row, 7), FLEET_PATH_SIZE, &path, &len) < 0 ||
	    strlen(path) != len) {
		companion_warn(c,
			       "a problem that the database has of job %" PRIu64
			       " is none, ignoring it and further ones",
			       job);
		return;
	}
	report(c, FLEET_PROBLEM,
	       &(struct job_problem){
		       .job = job, .path = path, .what = what, .error = -(int)error });
}

/* All but its number. */
static bool job_read(const PGresult *result, int row, struct job_message *j)
{
	uint64_t *const numbers[] = { &j->open, &j->claimed, &j->entries, &j->bytes, &j->errors };
	uint64_t *const others[] = { &j->others_claimed, &j->others_units, &j->others_entries,
				     &j->others_bytes };

	for (int i = 0; i < (int)ELEMENTSOF(numbers); i++)
		if (field_number(result, row, 2 + i, numbers[i]) < 0)
			return false;
	for (int i = 0; i < (int)ELEMENTSOF(others); i++)
		if (field_number(result, row, 10 + i, others[i]) < 0)
			return false;
	return true;
}

static void news_row_take(struct companion *c, const PGresult *result, int row)
{
	uint64_t token;
	struct job_message j = { .job = 0 };

	if (field_number(result, row, 0, &token) >= 0) {
		struct claim *claim = claim_find(c, token);

		if (token == 0)
			shares_begin(c);
		else if (claim)
			claim_revoke(c, claim, /* lost= */ true);
	} else if (field_number(result, row, 1, &j.job) < 0) {
		companion_warn(
			c, "a row that the database has of this host's jobs is none, ignoring it "
			   "and further ones");
	} else if (field(result, row, 7)) {
		problem_tell(c, result, row, j.job);
	} else if (job_read(result, row, &j)) {
		report(c, FLEET_JOB, &j);
	}
}

static void on_news(struct companion *c, const PGresult *result)
{
	c->heard_usec = companion_now(c);
	for (int i = 0; i < PQntuples(result); i++)
		news_row_take(c, result, i);
}

/* What is claimed but cannot be done: its owner does it in the end. */
static void claim_drop(struct companion *c, uint64_t token)
{
	companion_warn(c, "a unit that the database has is none, ignoring it and further ones");
	if (items_add_ended(&c->items, token) < 0)
		companion_no_memory(c);
}

static void claimed_tell(struct companion *c, const struct claimed_message *m,
			 const struct unit_columns *u)
{
	const char *name = u->names;

	report_begin(c, FLEET_CLAIMED, m);
	for (size_t i = 0; i < u->n_names; i++, name += strlen(name) + 1)
		fleet_put_item(&c->out, &(struct unit_name){ .name = name, .id = u->ids[i] });
	report_end(c);
}

static void claim_row_take(struct companion *c, const PGresult *result, int row)
{
	_cleanup_(unit_columns_done) struct unit_columns u = { 0 };
	const char *owner = field_name(result, row, 2), *name = field_name(result, row, 5);
	struct share *s = name ? share_find(c, name) : NULL;
	struct claimed_message m = { .owner = owner, .filesystem = name };
	struct claim *claim;
	uint64_t uid;
	int r;

	/* Without that nothing can be said of it. */
	if (field_number(result, row, 1, &m.token) < 0 || claim_find(c, m.token))
		return;
	r = unit_columns_read(&u, field(result, row, 6), field(result, row, 7),
			      field(result, row, 8), field(result, row, 9), field(result, row, 10),
			      field(result, row, 11));
	if (r == -ENOMEM) {
		companion_no_memory(c);
		return;
	}
	if (r < 0 || !owner || !s || field_number(result, row, 0, &m.unit) < 0 ||
	    field_number(result, row, 3, &m.job) < 0 || m.job == 0 ||
	    field_number(result, row, 4, &uid) < 0 || uid >= UINT32_MAX) {
		claim_drop(c, m.token);
		for (size_t i = 0; i < c->n_shares; i++)
			c->shares[i].may_claim = true;
		return;
	}
	claim = array_add(&c->claims, &c->n_claims, sizeof(*claim));
	if (!claim) {
		companion_no_memory(c);
		return;
	}
	*claim = (struct claim){
		.unit = m.unit, .token = m.token, .job = m.job, .share = (size_t)(s - c->shares)
	};
	fleet_name_copy(claim->owner, owner);
	s->held++;
	s->wanted -= MIN(s->wanted, (uint64_t)1);
	s->works = true;
	m.uid = (uid_t)uid;
	m.directory = u.directory;
	m.parent = u.parent;
	m.slice = u.slice;
	m.slices = u.slices;
	claimed_tell(c, &m, &u);
}

static void on_claim(struct companion *c, const PGresult *result)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < c->n_shares; i++)
		asked += c->shares[i].asked;
	if ((uint64_t)PQntuples(result) > asked) {
		altered(c);
		return;
	}
	for (int i = 0; i < PQntuples(result); i++)
		claim_row_take(c, result, i);
	/* If it has got all that it asked for, there may be more. */
	for (size_t i = 0; i < c->n_shares; i++) {
		struct share *s = &c->shares[i];

		s->may_claim = s->may_claim || (s->asked > 0 && s->wanted == 0);
		s->asked = 0;
	}
}

static void items_end(struct companion *c, bool published)
{
	uint64_t serial;

	for (; c->n_batch > 0; c->n_batch--)
		if (items_pop(&c->items, &serial))
			report(c, FLEET_PUBLISHED,
			       &(struct published_message){ .serial = serial,
							    .published = published });
}

static void on_items(struct companion *c, const PGresult *result)
{
	const char *text = PQntuples(result) == 1 ? field(result, 0, 0) : NULL;

	items_end(c, text && strcmp(text, "t") == 0);
}

/* How many columns each has; what has others is no answer to it. */
static const int columns[] = {
	[STATEMENT_SETTINGS] = 5, [STATEMENT_LISTEN] = 0, [STATEMENT_JOIN] = 4,
	[STATEMENT_RENEW] = 14,   [STATEMENT_ITEMS] = 1,  [STATEMENT_NEWS] = 14,
	[STATEMENT_CLAIM] = 12,   [STATEMENT_LEAVE] = 1,
};

static void on_answer(struct companion *c, enum statement which, const PGresult *result)
{
	if (PQnfields(result) != columns[which]) {
		altered(c);
		return;
	}
	switch (which) {
	case STATEMENT_NONE:
		break;
	case STATEMENT_SETTINGS:
		on_settings(c, result);
		break;
	case STATEMENT_LISTEN:
		send_join(c);
		break;
	case STATEMENT_JOIN:
		on_join(c, result);
		break;
	case STATEMENT_RENEW:
		/* First what is lost: that has no lease any more. */
		on_news(c, result);
		report_lease(c);
		break;
	case STATEMENT_NEWS:
		on_news(c, result);
		break;
	case STATEMENT_ITEMS:
		on_items(c, result);
		break;
	case STATEMENT_CLAIM:
		on_claim(c, result);
		break;
	case STATEMENT_LEAVE:
		(void)sd_event_exit(c->event, 0);
		break;
	}
}

/* Is it no more than the moment, as with a lock or a deadlock? */
static bool passes(const char *code)
{
	return strncmp(code, "40", 2) == 0 || strncmp(code, "55", 2) == 0 ||
	       strcmp(code, "57014") == 0;
}

/* Is it about the server, not about what it was asked? */
static bool is_of_server(const char *code)
{
	return strncmp(code, "08", 2) == 0 || strncmp(code, "53", 2) == 0 ||
	       strncmp(code, "57", 2) == 0 || strncmp(code, "58", 2) == 0 ||
	       strncmp(code, "XX", 2) == 0 || strncmp(code, "25", 2) == 0;
}

/* In words for a person why the database will not have this host. */
static const char *refusal(enum statement which, const PGresult *result, char *buf, size_t size)
{
	const char *code = database_error_code(result), *text = database_error_text(result);

	if (which == STATEMENT_SETTINGS &&
	    (strcmp(code, "3F000") == 0 || strcmp(code, "42883") == 0))
		return "the database has no schema reclaimd: run reclaimctl fleet init";
	if (strcmp(code, "42501") != 0)
		return text;
	(void)snprintf(buf, size, "%s: expected a role that is in reclaimd_host", text);
	return buf;
}

/* The same again; its place in the budget is what it waits for. What is to be done in order is
 * still there. */
static void again(struct companion *c, enum statement which)
{
	if (which == STATEMENT_RENEW)
		c->renew_usec = companion_now(c);
	if (which == STATEMENT_NEWS)
		c->news_usec = companion_now(c);
	for (size_t i = 0; which == STATEMENT_CLAIM && i < c->n_shares; i++) {
		c->shares[i].may_claim = true;
		c->shares[i].wanted = UINT64_MAX;
	}
}

static void on_error(struct companion *c, enum statement which, const PGresult *result)
{
	const char *code = database_error_code(result), *text = database_error_text(result);
	char words[SAFE_TEXT_SIZE];

	debug_log("the database answers %s: %s", code, text);
	if (strcmp(code, "RC003") == 0 && which > STATEMENT_JOIN) {
		/* An administrator removed this host, or the database is another one. */
		c->joined = false;
		c->life[0] = '\0';
		send_join(c);
	} else if (passes(code) && which > STATEMENT_JOIN) {
		again(c, which);
	} else if (passes(code) || is_of_server(code)) {
		session_lose(c, text);
	} else if (which == STATEMENT_ITEMS && strncmp(code, "RC", 2) != 0 &&
		   strcmp(code, "42501") != 0) {
		companion_warn(c, "the database does not take what a job says, ignoring: %s", text);
		items_end(c, /* published= */ false);
	} else {
		session_refuse(c, refusal(which, result, words, sizeof(words)));
	}
}

void answers_take(const PGresult *result, void *userdata)
{
	struct companion *c = userdata;
	ExecStatusType status = PQresultStatus(result);
	enum statement which = c->under_way;

	c->under_way = STATEMENT_NONE;
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		on_answer(c, which, result);
	else if (status == PGRES_FATAL_ERROR)
		on_error(c, which, result);
	else
		altered(c);
	if (c->requests)
		(void)sd_event_source_set_enabled(
			c->requests, c->items.n < ITEMS_ENOUGH ? SD_EVENT_ON : SD_EVENT_OFF);
	session_go_on(c);
}

void answers_begin(void *userdata)
{
	struct companion *c = userdata;

	c->under_way = STATEMENT_NONE;
	send_settings(c);
}

/* ---- notices: from any session of the database, so no more than hints ------------------------ */

static void news_soon(struct companion *c)
{
	if (c->news_usec == 0)
		c->news_usec = MAX(companion_now(c), c->heard_usec + NEWS_USEC);
}

static void on_revoke(struct companion *c, const char *owner, uint64_t job)
{
	for (size_t i = 0; i < c->n_claims; i++)
		if (c->claims[i].job == job && strcmp(c->claims[i].owner, owner) == 0)
			claim_revoke(c, &c->claims[i], /* lost= */ false);
}

static void on_wanted(struct companion *c, struct share *s, const char *host, uint64_t units)
{
	if (strcmp(host, c->host) == 0)
		return;
	(void)demand_set(&c->demand, (size_t)(s - c->shares), host,
			 MIN(units, (uint64_t)CLAIMS_MOST));
	report_demand(c, s);
}

static void on_works(struct companion *c, struct share *s, const char *host, bool works)
{
	if (strcmp(host, c->host) == 0)
		return;
	(void)demand_set(&c->working, (size_t)(s - c->shares), host, works);
	report_working(c, s);
}

void answers_notice(const char *payload, void *userdata)
{
	struct companion *c = userdata;
	char words[4][FLEET_NAME_SIZE + 1] = { { 0 } };
	struct share *s;
	int64_t n = 0;
	int count;

	if (!c->joined)
		return;
	count = sscanf(payload, "%64s %64s %64s %64s", words[0], words[1], words[2], words[3]);
	s = count >= 2 ? share_find(c, words[1]) : NULL;
	if (strcmp(words[0], "open") == 0 && s)
		s->may_claim = true;
	else if (strcmp(words[0], "wanted") == 0 && s && fleet_name_is_valid(words[2]) &&
		 number_read_between(words[3], 0, INT32_MAX, &n) >= 0)
		on_wanted(c, s, words[2], (uint64_t)n);
	else if (strcmp(words[0], "works") == 0 && s && fleet_name_is_valid(words[2]) &&
		 number_read_between(words[3], 0, 1, &n) >= 0)
		on_works(c, s, words[2], n);
	else if (strcmp(words[0], "job") == 0 && strcmp(words[1], c->host) == 0)
		news_soon(c);
	else if (strcmp(words[0], "revoke") == 0 &&
		 number_read_between(words[2], 1, INT64_MAX, &n) >= 0)
		on_revoke(c, words[1], (uint64_t)n);
	session_go_on(c);
}
