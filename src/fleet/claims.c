/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "claims.h"

#include <assert.h>
#include <string.h>

#include "reports.h"

/* Of one statement. */
#define CLAIM_BATCH 64

struct claim *claim_find(struct companion *c, uint64_t token)
{
	for (size_t i = 0; i < c->n_claims; i++)
		if (c->claims[i].token == token)
			return &c->claims[i];
	return NULL;
}

void claim_revoke(struct companion *c, struct claim *claim, bool lost)
{
	if (claim->lost || (claim->revoked && !lost))
		return;
	claim->lost = claim->lost || lost;
	claim->revoked = true;
	report(c, FLEET_REVOKED,
	       &(struct revoked_message){
		       .unit = claim->unit, .token = claim->token, .lost = claim->lost });
}

void claims_lose(struct companion *c)
{
	items_drop_finishes(&c->items);
	for (size_t i = 0; i < c->n_claims; i++)
		claim_revoke(c, &c->claims[i], /* lost= */ true);
}

void claim_remove(struct companion *c, struct claim *claim)
{
	assert(c->shares[claim->share].held > 0);
	c->shares[claim->share].held--;
	*claim = c->claims[--c->n_claims];
}

struct share *share_find(struct companion *c, const char *name)
{
	for (size_t i = 0; i < c->n_shares; i++)
		if (strcmp(c->shares[i].name, name) == 0)
			return &c->shares[i];
	return NULL;
}

void shares_begin(struct companion *c)
{
	for (size_t i = 0; i < c->n_shares; i++) {
		c->shares[i].may_claim = true;
		c->shares[i].wanted = 0;
		c->shares[i].works = false;
		c->shares[i].rate_had = 0;
	}
}

bool share_works(const struct share *s)
{
	return s->busy || s->held > 0;
}

uint64_t share_wants(const struct companion *c, const struct share *s)
{
	uint64_t room = c->n_claims < CLAIMS_MOST ? CLAIMS_MOST - c->n_claims : 0;
	uint64_t left = s->capacity > s->held ? s->capacity - s->held : 0;

	return MIN(MIN(left, room), (uint64_t)CLAIM_BATCH);
}

bool share_has_to_claim(const struct companion *c, const struct share *s)
{
	uint64_t wants = share_wants(c, s);

	return wants != s->wanted || (wants > 0 && s->may_claim) || share_works(s) != s->works ||
	       s->rate != s->rate_had;
}

bool has_to_claim(const struct companion *c)
{
	for (size_t i = 0; i < c->n_shares; i++)
		if (share_has_to_claim(c, &c->shares[i]))
			return true;
	return false;
}
