/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lifts the pace of runs for which time or space is short, and lowers it again; and lets jobs run
 * in a pacing window that pauses, where space is short. Polls every second, or more often where
 * space is nearly short, and only while something runs, or waits for the end of such a window. */
#pragma once

#include <stdbool.h>

#include "job.h"

/* A run has begun, or waits for a pacing window: polls from now on, until none is left. */
void boost_begin(struct jobs *jobs);
/* A job has another deadline. */
void boost_again(struct job *j);
