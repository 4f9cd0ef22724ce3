/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors are shared as devices are: deleting has time. */
#pragma once

/* From now on the calling thread, and those that it starts, take no processor from a thread that
 * runs, and leave theirs at once to a thread that wakes up: that may be the one which finishes a
 * foreground request. The share of processors stays the same, and so do locks' holders' chances to
 * go on, which with a lower priority they would not. Where the kernel does not let us, all stays as
 * it was. */
void courtesy_show(void);
