/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the kernel does for this process at all: a seccomp filter. Landlock says where it may
 * delete, this says what it never does anywhere. */
#pragma once

#include <stdbool.h>

/* From here on this process, and every thread it makes, starts no program and no process, mounts,
 * traces and links nothing, gives nothing away, and speaks to no network: such a call fails with
 * EPERM. One that does not delete removes nothing but empty directories and makes no ring, which
 * the filter could not look into. Needs NO_NEW_PRIVS, and comes before there are threads. Returns
 * 1; 0 if the kernel has no filters, or this architecture none yet; or a negative errno. */
int seccomp_restrict(bool deletes);

/* The same for last-reference-process.c: nothing is left but what it takes. */
int seccomp_restrict_last_reference(void);

/* The same for what trims free space: of ioctl(2) FITRIM, and what tells what is free (GETFSMAP);
 * no call that opens or removes anything. */
int seccomp_restrict_trim(void);

/* The same for reclaim-moosefs, once it is connected. */
int seccomp_restrict_moosefs(void);

/* The same as for intake, for reclaim-fleet, but that it speaks to the network. */
int seccomp_restrict_network(void);
