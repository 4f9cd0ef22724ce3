/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Is a descriptor the last reference to a file that has no name any more? Part of invariant I5.
 *
 * A write lease shows which processes have the file open. A reference can be without that: an
 * O_PATH descriptor, also one in flight in a socket; a mount of the file itself, in any namespace
 * or in none; an overlay that has it in one of its layers. After rm(1) its content could be read
 * through each of them. All of them hold a dentry of the file, so the kernel is asked for that:
 *
 *   1. The inode is pinned by a Landlock rule, which holds no dentry; our descriptor is closed.
 *   2. It is opened again by its file handle. The kernel takes a dentry that is held, by whatever
 *      name it once went, and makes a new one only if there is none.
 *   3. That descriptor is closed under a watch for IN_DELETE_SELF, which comes at once if it was
 *      the last one of its dentry, and not at all if it was not.
 *   4. It is opened once more, for writing, and the pin is let go.
 *
 * The event of step 3 comes for the end of any dentry of the inode, and a file that had several
 * names may have several. So the descriptor of step 2 must be of a dentry that never had a name:
 * the kernel gives one that had a name, if there is any, and none with a name can be added.
 * Step 4 looks for the same.
 *
 * A file without a name gets no new reference but by its handle, which is an open that breaks a
 * lease. Should anything fail, or the process end, the kernel does what it does after rm(1).
 *
 * Takes CAP_DAC_READ_SEARCH in the first user namespace, Landlock (Linux 5.13), and a filesystem
 * with file handles. */
#pragma once

/* Whom the engine asks. */
struct last_reference {
	/* Takes over fd, a regular file open for writing, once no name leads to it; dirfd is the
	 * directory that it was in. Returns another descriptor of the file, open for writing, if
	 * nothing else refers to it; -EBUSY if something does; or another negative errno if that
	 * cannot be told. Safe on any thread. */
	int (*take)(void *userdata, int fd, int dirfd);
	void *userdata;
};

struct last_reference_local;

/* Can this process tell, on the filesystem that the directory dirfd is on? Returns 0; -EPERM: it
 * lacks the capability; -EOPNOTSUPP: the kernel or the filesystem lacks something; or another
 * negative errno. */
int last_reference_check(int dirfd);

/* In this process itself. Returns 0 or a negative errno. */
int last_reference_local_new(struct last_reference_local **ret);
struct last_reference_local *last_reference_local_free(struct last_reference_local *l);

/* Lives as long. */
const struct last_reference *last_reference_local(struct last_reference_local *l);
