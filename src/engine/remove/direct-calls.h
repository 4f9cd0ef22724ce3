/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* System calls for loops that do little else.
 *
 * Where the kernel makes its returns safe against speculation (AMD, "Safe RET" in
 * /sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow), the processor knows no callers of
 * a program any more after a system call: the next return from a function that was entered before
 * takes 0.55 µs longer (measured: EPYC, Linux 6.18). To remove an empty file takes some 5 µs. So
 * the calls are made in the loop itself, from which nothing returns.
 *
 * Tests replace the calls of the library, which builds with gates make. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define DIRECT_CALLS 1

/* As unlink_call. */
static inline int unlink_direct(int dirfd, const char *name, int flags)
{
	long r = SYS_unlinkat;

	__asm__ volatile("syscall"
			 : "+a"(r)
			 : "D"((long)dirfd), "S"(name), "d"((long)flags)
			 : "rcx", "r11", "memory");
	return (int)r;
}

/* As statx_call. */
static inline int statx_direct(int dirfd, const char *name, struct statx *ret)
{
	register long mask __asm__("r10") = IDENTITY_MASK;
	register struct statx *sx __asm__("r8") = ret;
	long r = SYS_statx;

	__asm__ volatile("syscall"
			 : "+a"(r)
			 : "D"((long)dirfd), "S"(name), "d"((long)IDENTITY_FLAGS), "r"(mask),
			   "r"(sx)
			 : "rcx", "r11", "memory");
	return (int)r;
}
#endif

/* 0 or negative errno; errno itself is not set. */
static inline int unlink_call(int dirfd, const char *name, int flags)
{
#if defined(DIRECT_CALLS) && !defined(RECLAIM_TEST_GATES)
	return unlink_direct(dirfd, name, flags);
#else
	return unlinkat(dirfd, name, flags) < 0 ? -errno : 0;
#endif
}

/* The same, of what fd_identity asks for. */
static inline int statx_call(int dirfd, const char *name, struct statx *ret)
{
#if defined(DIRECT_CALLS) && !defined(RECLAIM_TEST_GATES)
	return statx_direct(dirfd, name, ret);
#else
	return statx(dirfd, name, IDENTITY_FLAGS, IDENTITY_MASK, ret) < 0 ? -errno : 0;
#endif
}
