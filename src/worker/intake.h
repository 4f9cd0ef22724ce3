/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The requests of the intake role. Each function answers one, whose content is s->m, and returns 0,
 * or a negative errno only if it could not be answered: then the worker ends. ADD_GROUPS has no
 * answer: that to VALIDATE tells what is wrong with groups. */
#pragma once

#include "serving.h"

/* name-check.c: what is submitted is resolved, once, as the submitter; its identity is recorded;
 * and it is told whether it may be deleted at all. Nothing is changed. */
int validate_groups_add(struct serving *s);
int validate(struct serving *s);

/* stage-names.c: what was validated is moved out of the way: each name becomes a number in the
 * job's own directory in staging. All of it, or none. */
int stage(struct serving *s);

/* staging-entry.c: the staging directories themselves, and single things put back. */
int staging_make(struct serving *s);
int staging_list(struct serving *s);
int staging_remove(struct serving *s);
int staging_restore(struct serving *s);
int staging_open_dir(struct serving *s);

/* filesystem-id.c. Root's worker only. */
int filesystem_id_tell(struct serving *s);

/* marks.c: which jobs of a host other hosts may help with. Root's worker only. */
int mark_write(struct serving *s);
int mark_read(struct serving *s);
int mark_withdraw(struct serving *s);
int mark_remove(struct serving *s);

/* staging-entry.c, for marks.c: opens the root of a mount (mnt_id 0: whichever is there), or
 * -EXDEV. */
int staging_mount_open(const char *mount_path, uint64_t mnt_id, uint64_t *ret_mnt_id);
/* Is what is in this directory that daemon's (base/lock-holder.h)? 0, or -EBUSY if not. */
int staging_held_check(int top_fd, uint64_t mnt_id, const char *holder);
/* Opens a directory that must be exactly as root would have made it, or makes it. -EPERM if it is
 * another. */
int staging_root_dir(int parent, const char *name, mode_t mode, uint64_t mnt_id, bool make);
