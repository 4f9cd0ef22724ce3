/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fence.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd.h"

/* The kernel's structure as of ABI 6; headers may be older than the kernel. */
struct ruleset {
	uint64_t fs, net, scoped;
};

/* Rights by the ABI that brought them, see landlock(7). */
#define FS_ABI_1 ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)     /* 2 */
#define FS_TRUNCATE (1ULL << 14)  /* 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* 5 */
#define NET_ALL 3ULL              /* 4: bind and connect */
#define SCOPED_ALL 3ULL           /* 6: abstract sockets and signals */

/* Not fenced: there are the mount table, /proc, and directories on the way to be looked at. */
#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Opening for writing is what a lease and truncation take. */
#define ALLOWED                                                                                    \
	(LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                          \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

static struct ruleset ruleset_for(long abi)
{
	struct ruleset r = { .fs = FS_ABI_1 & ~READING };

	if (abi >= 2)
		r.fs |= FS_REFER;
	if (abi >= 3)
		r.fs |= FS_TRUNCATE;
	if (abi >= 5)
		r.fs |= FS_IOCTL_DEV;
	if (abi >= 4)
		r.net = NET_ALL;
	if (abi >= 6)
		r.scoped = SCOPED_ALL;
	return r;
}

int fence_raise(int fd)
{
	_cleanup_close_ int set = -1;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset r = ruleset_for(abi);
	struct landlock_path_beneath_attr beneath = { .allowed_access = ALLOWED & r.fs,
						      .parent_fd = fd };

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	set = (int)syscall(SYS_landlock_create_ruleset, &r, sizeof(r), 0);
	if (set < 0)
		return -errno;
	if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, set, 0) < 0)
		return -errno;
	return (int)abi;
}
