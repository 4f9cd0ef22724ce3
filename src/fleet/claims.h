/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The units that this host has, and how many more it would take. */
#pragma once

#include "companion-state.h"

/* NULL: there is none with that token. */
struct claim *claim_find(struct companion *c, uint64_t token);

/* Tells reclaimd, once, to stop it. lost: another host may have it. */
void claim_revoke(struct companion *c, struct claim *claim, bool lost);

/* All of them: another life of this host has none of the claims of the one before. */
void claims_lose(struct companion *c);

void claim_remove(struct companion *c, struct claim *claim);

/* NULL: this host shares no filesystem of that name. */
struct share *share_find(struct companion *c, const char *name);

/* The database knows of nothing that this host wants. */
void shares_begin(struct companion *c);

/* Does this host delete there, or is it about to? */
bool share_works(const struct share *s);

/* How many units this host would take now, by one statement. */
uint64_t share_wants(const struct companion *c, const struct share *s);

/* Is there anything to be claimed, or is what the database has of this host not so any more? */
bool share_has_to_claim(const struct companion *c, const struct share *s);
bool has_to_claim(const struct companion *c);
