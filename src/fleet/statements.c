/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "statements.h"

#include <assert.h>

#include "base/fd.h"
#include "claims.h"

static void send_statement(struct companion *c, enum statement which, const char *statement,
			   const struct parameters *p)
{
	assert(c->under_way == STATEMENT_NONE);
	c->under_way = which;
	budget_spend(&c->budget, companion_now(c));
	database_send(c->database, statement, p);
}

void send_settings(struct companion *c)
{
	const struct parameters none = { .n = 0 };

	send_statement(
		c, STATEMENT_SETTINGS,
		"SELECT reclaimd.schema_version(), set_config('bytea_output', 'hex', false), "
		"set_config('client_encoding', 'UTF8', false), "
		"set_config('statement_timeout', '20s', false), "
		"set_config('lock_timeout', '10s', false)",
		&none);
}

void send_listen(struct companion *c)
{
	const struct parameters none = { .n = 0 };

	send_statement(c, STATEMENT_LISTEN, "LISTEN reclaimd", &none);
}

void send_join(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };

	parameters_text(&p, c->host);
	parameters_text(&p, c->life[0] ? c->life : NULL);
	parameters_text(&p, c->boot);
	parameters_text(&p, c->uid_space);
	parameters_text(&p, RECLAIM_VERSION);
	parameters_number(&p, (int64_t)c->lease_msec);
	parameters_array(&p);
	for (size_t i = 0; i < c->n_shares; i++)
		parameters_add_text(&p, c->shares[i].name);
	parameters_array_end(&p);
	parameters_array(&p);
	for (size_t i = 0; i < c->n_shares; i++)
		parameters_add_text(&p, c->shares[i].identity);
	parameters_array_end(&p);
	parameters_array(&p);
	for (size_t i = 0; i < c->n_shares; i++)
		parameters_add_text(&p, c->shares[i].path);
	parameters_array_end(&p);
	c->asked_usec = boot_usec();
	send_statement(
		c, STATEMENT_JOIN,
		"SELECT what, name, host, number FROM reclaimd.join_fleet($1, $2, $3, $4, $5, "
		"$6, $7, $8, $9)",
		&p);
}

#define NEWS_COLUMNS                                                                               \
	"token, job, open, claimed, entries, bytes, errors, path, what, error, others_claimed, "   \
	"others_units, others_entries, others_bytes"

void send_renew(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };

	parameters_text(&p, c->life);
	for (int column = 0; column < 3; column++) {
		parameters_array(&p);
		for (size_t i = 0; i < c->n_claims; i++) {
			const struct claim *k = &c->claims[i];

			if (!k->lost)
				parameters_add_number(&p, (int64_t)(column == 0   ? k->token
								    : column == 1 ? k->entries
										  : k->bytes));
		}
		parameters_array_end(&p);
	}
	c->renew_usec = companion_now(c) + c->lease_msec * USEC_PER_MSEC / 3;
	/* It brings them, too. */
	c->news_usec = 0;
	c->asked_usec = boot_usec();
	send_statement(c, STATEMENT_RENEW,
		       "SELECT " NEWS_COLUMNS " FROM reclaimd.renew($1, $2, $3, $4)", &p);
}

void send_news(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };

	parameters_text(&p, c->life);
	c->news_usec = 0;
	send_statement(c, STATEMENT_NEWS, "SELECT " NEWS_COLUMNS " FROM reclaimd.news($1)", &p);
}

void send_claim(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };
	struct share *of[FLEET_FILESYSTEMS];
	size_t n = 0;

	for (size_t i = 0; i < c->n_shares; i++) {
		struct share *s = &c->shares[i];

		if (!share_has_to_claim(c, s))
			continue;
		s->asked = share_wants(c, s);
		s->wanted = s->asked;
		s->works = share_works(s);
		s->rate_had = s->rate;
		/* A notice that comes from now on is of what this statement may not see. */
		s->may_claim = false;
		of[n++] = s;
	}
	parameters_text(&p, c->life);
	parameters_array(&p);
	for (size_t i = 0; i < n; i++)
		parameters_add_text(&p, of[i]->name);
	parameters_array_end(&p);
	for (int column = 0; column < 3; column++) {
		parameters_array(&p);
		for (size_t i = 0; i < n; i++)
			parameters_add_number(&p, (int64_t)(column == 0   ? of[i]->asked
							    : column == 1 ? of[i]->works
									  : of[i]->rate));
		parameters_array_end(&p);
	}
	send_statement(c, STATEMENT_CLAIM,
		       "SELECT unit, token, owner, job, uid, filesystem, directory, parent, slice, "
		       "slices, names, identities FROM reclaimd.claim($1, $2, $3, $4, $5)",
		       &p);
}

void send_leave(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };

	parameters_text(&p, c->life);
	send_statement(c, STATEMENT_LEAVE, "SELECT reclaimd.leave($1)", &p);
}

void send_items(struct companion *c)
{
	_cleanup_parameters_ struct parameters p = { .n = 0 };
	const char *statement = NULL;

	c->n_batch = items_batch(&c->items, c->life, c->host, &statement, &p);
	assert(c->n_batch > 0);
	send_statement(c, STATEMENT_ITEMS, statement, &p);
}
