/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "statement-budget.h"

#include "base/macros.h"

/* In any second there are a burst, and what is paid for meanwhile. */
#define STATEMENT_USEC (USEC_PER_SEC / (STATEMENTS_PER_SEC - STATEMENTS_BURST))
#define AHEAD_USEC ((STATEMENTS_BURST - 1) * STATEMENT_USEC)

uint64_t budget_wait_usec(const struct statement_budget *b, uint64_t now_usec)
{
	uint64_t from = b->owed_usec > AHEAD_USEC ? b->owed_usec - AHEAD_USEC : 0;

	return from > now_usec ? from - now_usec : 0;
}

void budget_spend(struct statement_budget *b, uint64_t now_usec)
{
	b->owed_usec = MAX(b->owed_usec, now_usec) + STATEMENT_USEC;
}
