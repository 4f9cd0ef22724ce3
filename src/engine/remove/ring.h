/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A ring of io_uring of which nothing but one operation can be asked, even by code that should not
 * have it (I9 of SECURITY.md). */
#pragma once

#include <liburing.h>

/* operation: IORING_OP_... Returns 0 or the reason why this kernel or this process may have no such
 * ring (-ENOSYS, -EPERM, -EOPNOTSUPP...); after 0 *ret is the caller's, for io_uring_queue_exit. */
int ring_new(struct io_uring *ret, unsigned entries, unsigned operation);
