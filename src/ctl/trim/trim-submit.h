/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl trim --submit: has the daemon trim.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   jobs          their ids, of those that were there already, too
 *   filesystems   [{path, mount, job, why}]: job is null, and why says it, where there is none
 */
#pragma once

struct options;

/* Returns an exit status. */
int trim_submit_paths(const struct options *o);
