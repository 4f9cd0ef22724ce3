/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pressure stall information for I/O: how long tasks have waited for it.
 * Documentation/accounting/psi.rst. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* some: at least one task waited; full: all that were not idle did. Since boot, or since the cgroup
 * was made. */
struct pressure_sample {
	uint64_t some_usec, full_usec;
	bool recent; /* some waited within the last 10 s, by the kernel's own mean */
};

/* Reads "/proc/pressure/io" or a cgroup's io.pressure. Never waits. Returns 0 or a negative errno:
 * -ENOENT or -EOPNOTSUPP on kernels without it, -EBADMSG if it is something else. */
int pressure_sample(const char *path, struct pressure_sample *ret);
