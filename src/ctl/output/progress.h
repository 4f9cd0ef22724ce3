/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shows how far a run is: a bar that redraws itself on a terminal, a line every few seconds
 * elsewhere. Writes to stderr; stdout is for results. */
#pragma once

#include <stdint.h>

#include "engine/core/engine-options.h"
#include "modes.h"

struct progress;

/* Returns NULL if nothing is to be shown (mode, -q) or memory is out: all verbs accept NULL. */
struct progress *progress_new(enum switch_mode mode, bool quiet);
struct progress *progress_free(struct progress *p);

/* True if a bar is drawn, so that knowing the total is worth something. */
bool progress_wants_total(const struct progress *p);

/* What there is to do in all, as far as is known; may grow. Any thread. */
void progress_total(struct progress *p, uint64_t entries, uint64_t bytes, bool complete);

/* What earlier engines of the same run have done, to be added to each update. */
void progress_base(struct progress *p, uint64_t entries, uint64_t bytes);
void progress_update(struct progress *p, const struct engine_progress *e);

/* The same of work that is bytes alone: "1.2 GiB trimmed"; part: of all, 0 to 1, below 0 where that
 * is not known. */
void progress_share(struct progress *p, const char *what, uint64_t bytes, double part);

/* Clears the bar so that a message can be written; the next update draws it again. */
void progress_pause(struct progress *p);
