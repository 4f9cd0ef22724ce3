/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A host of a fleet in a world of jobs (job-world.h): it is called "a", and its tmpfs is what the
 * fleet calls "shared". The test is its reclaim-fleet: it says what that would say, of any make,
 * and hears what reclaimd says to it, in the test's own process. */
#pragma once

#include <stdbool.h>

#include "daemon/fleet/fleet.h"
#include "job-world.h"
#include "wire/fleet-messages.h"

/* What reclaimd has said; texts live until the end of the fleet's world. */
struct heard {
	enum fleet_request type;
	bool taken;
	union fleet_record is;
	size_t n_items;
	struct wire_out out;
};

/* In a world of jobs that is open; the host has joined when it returns. */
void fleet_world_begin(struct job_world *w);
/* Nothing that was begun is under way when it returns. */
void fleet_world_end(void);
/* As when the configuration has no fleet any more. */
void fleet_world_leave(void);

/* reclaim-fleet says something. Returns what it is taken for: 0 or -EBADMSG. */
int fleet_says(enum fleet_report type, const void *once);
int fleet_says_claimed(const struct claimed_message *m, const struct unit_name *names, size_t n);
/* Of such a message, only so many bytes, or with as many more. */
int fleet_says_cut(const struct claimed_message *m, const struct unit_name *names, size_t n,
		   size_t len);
/* A message of that type with these bytes behind its header. */
int fleet_says_bytes(uint32_t type, const uint8_t *data, size_t len);
/* How many bytes a message has behind its header. */
size_t fleet_claimed_size(const struct claimed_message *m, const struct unit_name *names, size_t n);

/* The oldest message of that type that was not taken yet: it is taken. NULL: there is none. */
const struct heard *fleet_heard(enum fleet_request type);
/* The same, waited for. */
const struct heard *fleet_wait_heard(enum fleet_request type);

/* What is at that path, as other hosts know it. */
struct lasting_identity fleet_identity(const char *path);
