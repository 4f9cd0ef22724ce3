/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A name is moved into its job's directory in staging, and back. What has been made in its place
 * meanwhile must not be lost by that: a rename that never replaces (RENAME_NOREPLACE) does it.
 *
 * mfsmount(8) of MooseFS has none (EINVAL). There a directory can be moved all the same, to where
 * nothing is: of what comes there in that very moment, the kernel lets a directory replace nothing
 * but a directory that is empty. Not so a file: a link would do, and an intake worker may make
 * none.
 *
 * Both return 0 or a negative errno, and then it is where it was. -EEXIST: something is there. */
#pragma once

#include <stdbool.h>

/* always: a directory also without RENAME_NOREPLACE; else that is -EINVAL. */
int move_out(int from_dir, const char *from, int to_dir, const char *to, bool always);

int move_back(int from_dir, const char *from, int to_dir, const char *to);
