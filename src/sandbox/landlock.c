/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

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
#define NET_BIND 1ULL
#define SCOPED_ALL 3ULL /* 6: abstract sockets and signals */

/* Not restricted: the mount table, /proc and the directories of a path are read. */
#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Opening for writing is what a lease and truncation take. */
#define ALLOWED                                                                                    \
	(LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                          \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

/* What reading a directory and renaming what is in it does not take. MAKE_* and REMOVE_* are asked
 * for by renames, and so cannot be missed. */
#define NOT_FOR_INTAKE (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE)

/* Nothing of `fs`, of `net` and of all the rest that this kernel knows, is allowed any more but
 * what `allowed` has, beneath fd (-1: nowhere). Returns as the functions of landlock.h; 0 also with
 * an ABI before `least`. */
static int restrict_all(uint64_t fs, uint64_t net, long least, int fd, uint64_t allowed)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset rules = { .fs = fs | (abi >= 2 ? FS_REFER : 0) |
				       (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0),
				 .net = abi >= 4 ? net : 0,
				 .scoped = abi >= 6 ? SCOPED_ALL : 0 };
	struct landlock_path_beneath_attr beneath = { .allowed_access = allowed & rules.fs,
						      .parent_fd = fd };
	_cleanup_close_ int set = -1;

	if (abi < 0 && errno != ENOSYS && errno != EOPNOTSUPP)
		return -errno;
	if (abi < least)
		return 0;
	set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), /* flags= */ 0);
	if (set < 0)
		return -errno;
	if (fd >= 0 &&
	    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, set, 0) < 0)
		return -errno;
	return (int)abi;
}

static int restrict_to(uint64_t fs, long least, int fd, uint64_t allowed)
{
	return restrict_all(fs, NET_ALL, least, fd, allowed);
}

int landlock_restrict_deleter(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return restrict_to(FS_ABI_1 & ~READING, 1, -1, 0);
	return restrict_to(FS_ABI_1 & ~READING, 1, fd, ALLOWED);
}

int landlock_restrict_intake(void)
{
	_cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	/* ABI 1 allows no rename from one directory to another. */
	return root < 0 ? -errno : restrict_to(NOT_FOR_INTAKE, 2, root, FS_REFER);
}

int landlock_restrict_proxy(void)
{
	return restrict_to(FS_ABI_1, 1, -1, 0);
}

int landlock_restrict_reader(void)
{
	return restrict_all(FS_ABI_1 & ~READING, NET_BIND, 1, -1, 0);
}
