/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts what there is to delete, ahead of the deletion, so that a bar can say how far it is. */
#pragma once

#include <stdbool.h>

#include "engine/guard/roots.h"
#include "ctl/output/progress.h"

struct prescan;

/* Starts counting in the background and gives it a moment to finish first. Returns NULL if no bar
 * wants to know, or counting cannot be begun: then there is no total. The roots must have been
 * resolved; they are only read before this returns. */
struct prescan *prescan_start(const struct roots *roots, struct progress *p, bool weigh);

/* Stops counting and frees it. */
void prescan_stop(struct prescan *s);
