/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many units other hosts would take of each filesystem now, as they have said. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/fleet-name.h"

/* Hosts of a fleet; what more of them say is left out. */
#define DEMAND_HOSTS 4096

struct demand_entry {
	char host[FLEET_NAME_SIZE];
	size_t filesystem;
	uint64_t units;
};

/* All zero is none. */
struct demand {
	struct demand_entry *v;
	size_t n;
};

/* host is valid as a name. Returns 0, -E2BIG or -ENOMEM. */
int demand_set(struct demand *d, size_t filesystem, const char *host, uint64_t units);

uint64_t demand_sum(const struct demand *d, size_t filesystem);

void demand_done(struct demand *d);
