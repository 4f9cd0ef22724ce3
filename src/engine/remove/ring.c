/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

static int restrict_ring(struct io_uring *ring, unsigned operation)
{
	struct io_uring_restriction allowed[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = (uint8_t)operation },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_REGISTER_IOWQ_MAX_WORKERS },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_REGISTER_ENABLE_RINGS },
	};

	/* By system call, because liburing 2.3 declares the two functions and does not export them.
	 */
	if (syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_RESTRICTIONS, allowed,
		    ELEMENTSOF(allowed)) < 0)
		return -errno;
	if (syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) <
	    0)
		return -errno;
	return 0;
}

int ring_new(struct io_uring *ret, unsigned entries, unsigned operation)
{
	struct io_uring_params p = { .flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP };
	struct io_uring_probe *probe;
	int r = io_uring_queue_init_params(entries, ret, &p);

	if (r < 0)
		return r;
	probe = io_uring_get_probe_ring(ret);
	r = probe && io_uring_opcode_supported(probe, (int)operation) ? 0 : -EOPNOTSUPP;
	io_uring_free_probe(probe);
	if (r >= 0)
		r = restrict_ring(ret, operation);
	if (r < 0)
		io_uring_queue_exit(ret);
	return r;
}
