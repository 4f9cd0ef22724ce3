/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shows how far many names are on their way to the daemon, which writes that into a file in memory
 * while its answer is waited for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ctl/output/progress.h"

struct hand_over;

/* For a submit of so many names in all. Returns NULL if nothing is to be shown, because they are
 * few or no terminal is there, or memory is out; everything accepts NULL. */
struct hand_over *hand_over_new(bool quiet, size_t names);
struct hand_over *hand_over_free(struct hand_over *h);

/* Shows a call with so many of them, until hand_over_end. dry: they are only checked. Returns the
 * descriptor for the daemon, or -1. */
int hand_over_begin(struct hand_over *h, size_t names, bool dry);
/* Nothing is drawn any more. */
void hand_over_end(struct hand_over *h);
