/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Becoming the submitter, for good. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Takes on uid, gid and groups and gives up everything else: for root, all capabilities but those
 * that deleting (or, for intake, making staging directories) takes; for other users, all of them.
 * Makes sure that there is no way back. Returns 0 or a negative errno, after which the process must
 * end.
 */
int credentials_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups, bool deletes);

/* Keeps the two capabilities that opening a file by its handle takes, and no other. Returns 0 or a
 * negative errno, after which the process must end. */
int credentials_keep_for_last_reference(void);

/* Keeps the capability that FITRIM takes, and no other. System calls only. Returns 0; -EPERM if
 * there is none; or another negative errno, after which the process must end. */
int credentials_keep_for_trim(void);

/* Keeps no capability, whatever user this process has. Returns 0 or a negative errno, after which
 * the process must end. */
int credentials_drop_all(void);

/* Makes CAP_DAC_OVERRIDE effective, which setfsuid(2) has made ineffective. Only for a process that
 * has it permitted. Returns 0 or a negative errno. */
int credentials_override(void);

/* From now on the kernel kills this process when the other end of the pipe is closed:
 * reclaimd need not have the right to send signals to it, nor live. Takes the descriptor over,
 * which stays open. Returns 0; -EPIPE if the other end is closed already; or another negative
 * errno. */
int credentials_die_with_parent(int death_pipe);
