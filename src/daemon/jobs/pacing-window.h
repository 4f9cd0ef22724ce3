/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pacing window that is in force (config/pacing-windows.h), and what follows from it: its rate
 * for the pacers, or that no job runs. One timer of the clock on the wall, which tells, too, that
 * this was set, or that the machine slept. */
#pragma once

#include "config/pacing-windows.h"
#include "job.h"

struct pacing_window;

/* Returns 0 or a negative errno. */
int pacing_window_new(struct pacing_window **ret, struct jobs *jobs);
/* NULL is accepted; returns NULL. */
struct pacing_window *pacing_window_free(struct pacing_window *w);

/* The configuration is another one; that from before must live during the call. NULL is accepted.
 */
void pacing_window_configure(struct pacing_window *w);

/* What is in force: of NULL, nothing. */
struct window_state pacing_window_state(const struct pacing_window *w);
/* No job begins in it, but where free space is short. */
bool pacing_window_pauses(const struct pacing_window *w);
/* Jobs of this staging area do not run now, because of it. */
bool pacing_window_rests(const struct jobs *jobs, const struct staging_area *area);
