/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lifts the pace of runs for which time or space is short, and lowers it again. Polls every second,
 * or more often where space is nearly short, and only while something runs. */
#pragma once

#include <stdbool.h>

#include "job.h"

/* A run has begun: polls from now on, until none is left. */
void boost_begin(struct jobs *jobs);
/* A job has another deadline. */
void boost_again(struct job *j);
