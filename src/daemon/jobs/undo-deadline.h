/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The times that jobs wait for: a job is held until its time of undo is over, and one that was
 * interrupted waits until it is tried again. */
#pragma once

#include "job.h"

/* The time, as context_clock has it. If the clock was set since this was last asked, what is held
 * or waits does so for as long as it would have, and its record says so: a window of an hour is one
 * of an hour, be the clock ahead by ten years. */
uint64_t deadline_clock(struct jobs *jobs);

/* A time of that clock after it was set by so much; 0 is none, and stays so. */
uint64_t deadline_moved(uint64_t usec, int64_t step);

/* Calls jobs->due with the stub once that clock reaches `usec`, unless deadline_remove comes first.
 */
void deadline_wait(struct job_stub *s, uint64_t usec);
void deadline_remove(struct job_stub *s);
/* Returns the time that the stub waits for, by that clock. */
uint64_t deadline_of(const struct job_stub *s);
