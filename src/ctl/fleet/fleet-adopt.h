/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl fleet adopt: what a host that is gone for good has left becomes jobs of this one. The
 * database is told first, which refuses it for a host that is there; then the daemon does it. */
#pragma once

struct options;

/* Returns an exit status. */
int fleet_adopt_host(const struct options *o, const char *host);
