/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What `trim` prints on standard output.
 *
 * With --json, one object. Keys are only ever added. Times are in microseconds, sizes in bytes.
 *
 *   filesystems           [{path, type, device, outcome, why, size_bytes, free_bytes, bound,
 *                         backing_file, trimmed_bytes, steps, calls, elapsed_usec,
 *                         longest_step_usec}]: outcome is trimmed, stopped, skipped, failed, or
 *                         planned with --dry-run; why is null where nothing is in the way; bound
 *                         says what a step can be: by-size, by-run, by-group, by-chunk,
 *                         unbounded
 *   trimmed_bytes, steps, elapsed_usec, longest_step_usec
 *                         of all
 *   errors                filesystems that failed, and paths that cannot be opened
 *   skipped               filesystems on which there is nothing to be done
 *   dry_run               whether nothing was trimmed on purpose
 */
#pragma once

#include <stdbool.h>

struct options;
struct trim_path;
struct trim_paths;

/* Returns the name of the outcome of `p` in JSON. */
const char *trim_outcome_name(const struct trim_path *p, bool dry_run);

/* Prints the results. `stopped` is true if a signal ended the run early. */
void trim_print(const struct trim_paths *p, const struct options *o, bool stopped);
