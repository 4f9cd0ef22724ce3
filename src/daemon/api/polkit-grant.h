/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a caller may do beyond its own authority, because polkit has said so (dbus/bus-polkit.c):
 * one operation, once. What it is for is written down before polkit is asked, so that a yes covers
 * the jobs that were there then, and none that has come since. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct caller;
struct job_record;
struct operations;

struct granted {
	uint64_t id;
	bool there; /* or else it is a number like any other */
	uint8_t uuid[16];
};

struct grant {
	bool everybody; /* for no jobs, but for what concerns the jobs of all users, or the machine
			 */
	bool one_owner; /* all jobs are there, and of `owner` */
	uid_t owner;
	char *path; /* of the job, if it is one and there; or NULL */
	size_t n;
	struct granted jobs[]; /* that the caller may not see */
};

/* Makes a grant for these jobs, or with n 0 for what concerns the jobs of all users. Calls `made`,
 * in this call or later, with r 0 and the grant, which is the callback's, or with a negative errno
 * and NULL. The caller and the ids stay where they are until then. */
void grant_make(const struct operations *o, const struct caller *c, const uint64_t *ids, size_t n,
		void (*made)(int r, struct grant *g, void *userdata), void *userdata);
/* NULL is accepted; returns NULL. */
struct grant *grant_free(struct grant *g);

/* Whether it is for this job; NULL is for none. */
bool grant_covers(const struct grant *g, const struct job_record *r);
