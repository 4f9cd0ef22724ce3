/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many statements a host may send to the database: so many a second, however busy it is. A
 * token bucket. Pure. */
#pragma once

#include <stdint.h>

#define STATEMENTS_PER_SEC 50
/* What may be sent at once after a silence. */
#define STATEMENTS_BURST 10

/* All zero is a full one. */
struct statement_budget {
	uint64_t owed_usec; /* until when all that was sent is paid for */
};

/* How long to wait until one may be sent; 0: now. */
uint64_t budget_wait_usec(const struct statement_budget *b, uint64_t now_usec);

/* One is sent now. What cannot wait is paid for later. */
void budget_spend(struct statement_budget *b, uint64_t now_usec);
