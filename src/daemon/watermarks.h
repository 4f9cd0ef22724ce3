/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies without a schedule run when the filesystem of their directory has less free than
 * min-free or min-free-inodes says, and, with max-size, when a hundredth of that was written to it
 * since the last run, and every quarter of an hour. Looks the more often the less is free; running
 * is a process's, the policy's unit or reclaimctl, because the daemon itself neither scans nor may
 * see what other processes have open.
 *
 *   less than `below` is free  ->  policy run  ->  a job  ->  `until` is free
 *
 * It is not begun again while a job of it is unfinished, whose space is still to come, nor while
 * another one makes room on the same filesystem. Runs delete no more than max-delete in a
 * period (policy/limits.h). If a run does not help, the next one begins after a while, and then
 * after a longer one. Whether it helps shows in the free space since it began: if programs write
 * quickly, there may be as little at its end. If two runs in a row gain next to no space
 * (policy/result.h), no further run begins until more is free, or the policies are configured
 * again. */
#pragma once

struct jobs;
struct watermarks;

/* Watches nothing yet. jobs outlive them. Returns 0 or -ENOMEM. */
int watermarks_new(struct watermarks **ret, struct jobs *jobs);
/* Watches what the configuration says now. */
void watermarks_configure(struct watermarks *w);
struct watermarks *watermarks_free(struct watermarks *w);
