/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hooks: units that root's configuration names for a spool or a policy, and that the service
 * manager starts when a job of it has ended. What became of the job is in a file that such a unit
 * can read with EnvironmentFile=: numbers and words of ours, nothing of a name. They are not waited
 * for. */
#pragma once

struct bus;
struct context;
struct hooks;

/* From now on. c and bus outlive it. Returns 0 or -ENOMEM. */
int hooks_new(struct hooks **ret, struct context *c, struct bus *bus);
/* NULL is accepted; returns NULL. */
struct hooks *hooks_free(struct hooks *h);
