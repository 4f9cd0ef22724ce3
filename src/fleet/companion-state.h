/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of the companion share: what reclaimd has said, what is claimed, and how far the
 * conversation with the database has come. Private to this folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/macros.h"
#include "database.h"
#include "demand.h"
#include "items.h"
#include "statement-budget.h"
#include "wire/fleet-messages.h"

/* Units of all filesystems at the same time. */
#define CLAIMS_MOST 4096

/* With so much to be done, no more is read of what reclaimd says. */
#define ITEMS_ENOUGH 1024

#define LIFE_LEN 36

enum statement {
	STATEMENT_NONE,
	STATEMENT_SETTINGS,
	STATEMENT_LISTEN,
	STATEMENT_JOIN,
	STATEMENT_RENEW,
	STATEMENT_ITEMS,
	STATEMENT_NEWS,
	STATEMENT_CLAIM,
	STATEMENT_LEAVE,
};

/* A filesystem of this host's. */
struct share {
	char name[FLEET_NAME_SIZE];
	char *identity, *path;
	uint64_t capacity; /* units at the same time */
	bool busy;         /* with a job of this host's own */
	uint64_t rate;     /* of all hosts together; 0: unlimited */
	uint64_t held;     /* claims of it */
	uint64_t wanted;   /* as the database has it */
	bool works;        /* the same */
	uint64_t rate_had; /* the same */
	uint64_t asked;    /* by the statement under way */
	uint64_t demand;   /* as reclaimd was told */
	uint64_t others;   /* the same: hosts that work there */
	bool may_claim;    /* there may be units that no host has */
};

struct claim {
	uint64_t unit, token, job;
	char owner[FLEET_NAME_SIZE];
	size_t share;
	uint64_t entries, bytes;
	bool lost, revoked; /* reclaimd was told */
};

struct companion {
	int sock;
	sd_event *event;
	sd_event_source *requests, *wakeup;
	struct wire_in in;
	struct wire_out out;

	/* as reclaimd said */
	char *string, host[FLEET_NAME_SIZE], *boot, *uid_space;
	uint64_t lease_msec;
	struct share *shares;
	size_t n_shares;

	struct database *database;
	struct statement_budget budget;
	enum statement under_way;
	size_t n_batch; /* STATEMENT_ITEMS */
	char life[LIFE_LEN + 1];
	bool joined;
	uint64_t renew_usec, news_usec, retry_usec; /* when; 0: not */
	uint64_t heard_usec;                        /* when the last news came */
	uint64_t asked_usec; /* when the lease was asked for last, by boot_usec */
	unsigned n_retries;
	bool leaving, claims_next;

	struct items items;
	struct claim *claims;
	size_t n_claims;
	struct demand demand;
	struct demand working; /* other hosts, as one unit each */
	char *refused;         /* as reclaimd was told last */
	bool lost_told, warned;
	int error;
};

/* Microseconds of CLOCK_MONOTONIC, as of this turn of the event loop. */
static inline uint64_t companion_now(const struct companion *c)
{
	uint64_t usec = 0;

	(void)sd_event_now(c->event, CLOCK_MONOTONIC, &usec);
	return usec;
}
