/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session.h"

#include <string.h>
#include <sys/random.h>

#include "base/debug.h"
#include "base/escape.h"
#include "claims.h"
#include "reports.h"
#include "statements.h"

/* The first wait before it connects again, which doubles up to the lease, or this. */
#define RETRY_USEC (200 * USEC_PER_MSEC)
#define RETRY_USEC_MOST (30 * USEC_PER_SEC)

/* When there is something to do that no other source of the loop would begin. */
static void wakeup_set(struct companion *c)
{
	uint64_t at = UINT64_MAX;

	if (c->retry_usec > 0)
		at = c->retry_usec;
	if (c->joined && c->under_way == STATEMENT_NONE) {
		uint64_t budget = companion_now(c) + budget_wait_usec(&c->budget, companion_now(c));

		at = MIN(at, c->renew_usec);
		if (c->news_usec > 0)
			at = MIN(at, c->news_usec);
		if (c->items.n > 0 || has_to_claim(c) || c->leaving)
			at = MIN(at, budget);
		at = MAX(at, budget);
	}
	(void)sd_event_source_set_time(c->wakeup, at);
	(void)sd_event_source_set_enabled(c->wakeup,
					  at == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/* A number below `most`. */
static uint64_t jitter(uint64_t most)
{
	uint64_t n = 0;

	return getrandom(&n, sizeof(n), GRND_NONBLOCK) < 0 ? 0 : n % most;
}

/* It is tried again, later each time. Not all hosts come at the same moment after the database was
 * restarted. */
static void retry_later(struct companion *c)
{
	uint64_t most = MIN(c->lease_msec * USEC_PER_MSEC, RETRY_USEC_MOST),
		 wait = RETRY_USEC << MIN(c->n_retries, 16U);

	database_close(c->database);
	c->under_way = STATEMENT_NONE;
	c->joined = false;
	c->n_retries++;
	wait = MIN(wait, most);
	c->retry_usec = companion_now(c) + wait / 2 + jitter(wait / 2 + 1);
	if (c->requests)
		(void)sd_event_source_set_enabled(c->requests, SD_EVENT_ON);
	wakeup_set(c);
}

/* What is not so any more without the database. */
static void forget(struct companion *c)
{
	demand_done(&c->demand);
	demand_done(&c->working);
	for (size_t i = 0; i < c->n_shares; i++)
		c->shares[i].demand = 0;
	items_drop_publishes(&c->items);
}

void session_lose(struct companion *c, const char *why)
{
	struct safe_text text;

	forget(c);
	if (!c->lost_told) {
		/* Some messages of the library have several lines; the first says it. */
		safe_text_format(&text, "%.*s", (int)strcspn(why, "\n"), why);
		report(c, FLEET_LOST, &(struct lost_message){ .text = text.line });
	}
	c->lost_told = true;
	retry_later(c);
	if (c->leaving)
		(void)sd_event_exit(c->event, 0);
}

void session_lost(const char *text, void *userdata)
{
	struct companion *c = userdata;

	debug_log("the database is lost: %s", text);
	session_lose(c, text);
}

void session_refuse(struct companion *c, const char *text)
{
	report_refused(c, "%s", text);
	c->lost_told = false;
	forget(c);
	retry_later(c);
	if (c->leaving)
		(void)sd_event_exit(c->event, 0);
}

void session_go_on(struct companion *c)
{
	uint64_t usec = companion_now(c);

	if (c->joined && database_is_idle(c->database) && c->under_way == STATEMENT_NONE &&
	    budget_wait_usec(&c->budget, usec) == 0) {
		bool claims = !c->leaving && has_to_claim(c);

		if (usec >= c->renew_usec)
			send_renew(c);
		/* In turns, so that neither waits for ever. */
		else if (c->items.n > 0 && !(claims && c->claims_next)) {
			c->claims_next = true;
			send_items(c);
		} else if (c->leaving)
			send_leave(c);
		else if (c->news_usec > 0 && usec >= c->news_usec)
			send_news(c);
		else if (claims) {
			c->claims_next = false;
			send_claim(c);
		}
	}
	wakeup_set(c);
}

int session_wakeup(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct companion *c = userdata;

	(void)s;
	(void)usec;
	if (c->retry_usec > 0 && companion_now(c) >= c->retry_usec) {
		c->retry_usec = 0;
		database_connect(c->database, c->string, c->host);
	}
	session_go_on(c);
	return 0;
}
