/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pressure stall information for I/O: how long tasks have waited for it, and whether they have
 * waited much just now. Documentation/accounting/psi.rst. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* some: at least one task waited; full: all that were not idle did. Since boot, or since the cgroup
 * was made. */
struct pressure_sample {
	uint64_t some_usec, full_usec;
	bool triggered; /* since the last such sample, tasks waited for 2 % of a second or more */
};

/* Embedded by its users. */
struct pressure_sensor {
	int fd;
	bool has_trigger; /* the kernel watches; false: it does not let us, the sums are compared */
	uint64_t window_usec, window_some_usec; /* when the comparing began, and the sum then */
};

/* Opens "/proc/pressure/io" or a cgroup's io.pressure. Sets up a trigger where it is allowed to,
 * for which CAP_SYS_RESOURCE is needed. Returns 0 or a negative errno: -ENOENT or -EOPNOTSUPP on
 * kernels without it, -EBADMSG if it is something else. */
int pressure_sensor_open(struct pressure_sensor *s, const char *path);

/* Reads the sums and whether the trigger has fired. Never waits. Returns 0 or a negative errno,
 * then with *ret untouched. */
int pressure_sensor_sample(struct pressure_sensor *s, struct pressure_sample *ret);

/* Closes it, if it is open. */
void pressure_sensor_close(struct pressure_sensor *s);
