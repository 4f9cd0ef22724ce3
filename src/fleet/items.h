/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimd wants to have done in the database, in the order in which it said so: parts of a
 * unit are published before the unit itself is finished. Several become one statement. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parameters.h"
#include "unit-columns.h"

#define ITEMS_BATCH 64
/* As numbers of PostgreSQL have a sign, and sums of them should not end. */
#define ITEMS_NUMBER_MOST (1LL << 50)

struct item;

/* All zero is empty. */
struct items {
	struct item *first, *last;
	size_t n;
};

/* Reads what is behind the header of a message and adds it. Returns 0, -EBADMSG or -ENOMEM. */
int items_add_publish(struct items *q, const struct publish_message *m, struct wire_in *in);
int items_add_finish(struct items *q, const struct finish_message *m, struct wire_in *in);
int items_add_recall(struct items *q, uint64_t job);
int items_add_forget(struct items *q, uint64_t job);
/* Ends a claim of which nothing was done. */
int items_add_ended(struct items *q, uint64_t token);

/* Makes a statement of the first ones, and its parameters, which point into them. life and host:
 * this host's. Returns how many they are; 0: there are none. */
size_t items_batch(const struct items *q, const char *life, const char *host,
		   const char **ret_statement, struct parameters *p);

/* Takes the first one away. Of one that was to be published its serial is told. */
bool items_pop(struct items *q, uint64_t *ret_serial);

/* Takes away all that is to be published, or finished. */
void items_drop_publishes(struct items *q);
void items_drop_finishes(struct items *q);

void items_done(struct items *q);
