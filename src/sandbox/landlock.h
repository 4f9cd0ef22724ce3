/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Landlock: the kernel refuses this process whatever its role does not take. Each returns the ABI
 * that the kernel has, 0 if it has none, or a negative errno. Descriptors that are open stay as
 * useful as they were; signals, abstract sockets and ports are closed to all roles (ABI 4, 6), but
 * ports of others to the reader. */
#pragma once

/* The deleter: removes and truncates beneath the directory fd, and makes nothing anywhere. Where fd
 * is a file, it removes nothing, and truncates only what it has a descriptor of. */
int landlock_restrict_deleter(int fd);

/* The intake role: opens nothing for writing, truncates and runs nothing. It renames, in the
 * submitter's directories: of a directory that is in no tree of ours, as one of a container's,
 * only within that (to the caller, -EXDEV). Nothing before ABI 2, which has no way to allow it. */
int landlock_restrict_intake(void);

/* The proxy: opens nothing. */
int landlock_restrict_proxy(void);

/* The reader: opens files and directories to read them, and connects to ports, not more. */
int landlock_restrict_reader(void);
