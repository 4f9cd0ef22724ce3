/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One spool; see spool.h for what it does. Embedded nowhere, owned by struct spools. */
#pragma once

#include "spool.h"

struct spool;

/* What all spools have in common; the owner's, and longer-lived than each. */
struct spool_common {
	sd_event *event;
	struct spools_options options;
	char **protect;   /* NULL-terminated, with the state directory */
	uint64_t last_id; /* of batches */
	uint32_t last_part;
};

int spool_new(struct spool **ret, struct spool_common *common, const char *path);
struct spool *spool_free(struct spool *s);

const char *spool_path(const struct spool *s);

/* Sets the times, and checks everything again. */
void spool_configure(struct spool *s, uint64_t settle_usec, uint64_t undo_usec);

/* Checks whether it is still where it was: the mount table has changed. */
void spool_check(struct spool *s);

/* Tries now what was to be tried again later. */
void spool_retry(struct spool *s);

/* False if the batch is not of this spool. */
bool spool_answer(struct spool *s, uint64_t batch, enum spool_outcome outcome);

void spool_view(const struct spool *s, struct spool_view *ret);
