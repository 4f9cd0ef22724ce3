/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors are shared as devices are: whoever deletes has time. */
#pragma once

/* From now on the calling thread, and those that it starts, take no processor from anybody who
 * runs, and leave theirs at once to whoever is woken: that may be the thread which finishes a
 * bystander's request. The share of processors stays the same, and so do locks' holders' chances to
 * go on, which with a lower priority they would not. Where the kernel does not let us, all stays as
 * it was. */
void courtesy_show(void);
