/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The kernel's fence around a process that deletes (I9): Landlock. */
#pragma once

/* From here on this process, and every thread and ring it makes, can unlink, truncate and write
 * only beneath the directory fd, and can make, rename, link and execute nothing at all, nor use the
 * network. Reading stays as it is. Only once, before there are threads. Returns the ABI that the
 * kernel speaks (1 or more), 0 if it has no Landlock, or a negative errno. */
int fence_raise(int fd);
