/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last trim of each filesystem: one small JSON file per mount point in the state directory.
 * `reclaimctl trim` writes them; `status`, `metrics` and the page in Cockpit show them.
 *
 *   mount                 mount point
 *   finished_usec         time of the end, by CLOCK_REALTIME
 *   outcome, why          as `reclaimctl trim --json` prints them
 *   trimmed_bytes, steps, elapsed_usec, longest_step_usec
 */
#pragma once

#include <jansson.h>

struct trim_path;

/* Records the result of `p`, whose filesystem is mounted at `mount`, in the directory `dir`.
 * `outcome` is its name in JSON. Returns 0 or a negative errno. */
int trim_state_write(const char *dir, const struct trim_path *p, const char *mount,
		     const char *outcome);

/* Returns an array with the last trims, sorted by mount point; the caller releases it. The array is
 * empty if there are none or the directory cannot be read. */
json_t *trim_state_read(const char *dir);
