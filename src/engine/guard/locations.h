/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Places (see mount_location) that are protected, found quickly by a place that is the same,
 * around, or beneath. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct location;
struct protected_location;

struct locations {
	struct protected_location *v;
	size_t n;
};

/* With content: everything beneath it, too. The reason is static. Returns 0 or -ENOMEM. */
int locations_add(struct locations *p, const struct location *at, bool content, const char *reason);

/* After the last was added, before the first is looked for. */
void locations_sort(struct locations *p);
void locations_done(struct locations *p);

/* Why something at this very place is protected, or NULL. */
const char *locations_at(const struct locations *p, const struct location *at);

/* Why something in a directory at this place is protected by it or one around it, or NULL. */
const char *locations_around(const struct locations *p, const struct location *at);

/* Is something protected beneath this place? */
bool locations_beneath(const struct locations *p, const struct location *at);
