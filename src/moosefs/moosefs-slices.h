/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The snapshot way of MooseFS: its master removes whole trees at once, past the trash, if all that
 * is in them is marked as a snapshot. It does nothing else meanwhile, so a tree goes in slices,
 * subtrees that take no longer than is borne.
 *
 *   list the tree, by inode number --> slices that may go --> mark, look again, remove
 *                                          |
 *                                          +-- what may not, or is too large: left to be unlinked
 *
 * Only as root, which may remove anything: the master believes what it is told. What has other
 * hard links is left: it would keep the mark, and lose its time in the trash. What becomes part of
 * a slice after it was marked has no mark, or takes that of its directory away, and the master
 * removes nothing. */
#pragma once

struct dirlist;
struct identity;
struct engine_job;
struct root_group;

/* Has the master remove what it can of the names of group g; pins are theirs, or NULL. Names that
 * are gone as a whole leave the list; what remains of the others is for the lanes to unlink, and
 * j->unsliced says why. On the thread of engine_run, before the lanes start; errors end the
 * conversation and leave the names to the lanes. */
void moosefs_slices(struct engine_job *j, const struct root_group *g, struct dirlist *names,
		    const struct identity *pins);
