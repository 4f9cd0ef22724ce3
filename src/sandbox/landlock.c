/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
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
#define SCOPED_ALL 3ULL           /* 6: abstract sockets and signals */

/* Not restricted: the mount table, /proc and the directories of a path are read. */
#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Opening for writing is what a lease and truncation take. */
#define ALLOWED                                                                                    \
	(LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                          \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

/* What reading a directory and renaming what is in it does not take. MAKE_* and REMOVE_* are asked
 * for by renames, and so cannot be missed. */
#define NOT_FOR_INTAKE (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE)

static long abi_get(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* What this kernel knows of `fs`, and all the rest that it knows. */
static struct ruleset ruleset_for(long abi, uint64_t fs)
{
	struct ruleset r = { .fs = fs };

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

/* Nothing of the set is allowed any more but what `allowed` has, beneath fd (-1: nowhere). */
static int restrict_to(const struct ruleset *r, int fd, uint64_t allowed)
{
	struct landlock_path_beneath_attr beneath = { .allowed_access = allowed & r->fs,
						      .parent_fd = fd };
	_cleanup_close_ int set =
		(int)syscall(SYS_landlock_create_ruleset, r, sizeof(*r), /* flags= */ 0);

	if (set < 0)
		return -errno;
	if (fd >= 0 &&
	    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, set, 0) < 0)
		return -errno;
	return 0;
}

static int none(int error)
{
	return error == ENOSYS || error == EOPNOTSUPP ? 0 : -error;
}

int landlock_restrict_deleter(int fd)
{
	long abi = abi_get();
	struct ruleset set = ruleset_for(abi, FS_ABI_1 & ~READING);
	int r;

	if (abi < 0)
		return none(errno);
	r = restrict_to(&set, fd, ALLOWED);
	return r < 0 ? r : (int)abi;
}

int landlock_restrict_intake(void)
{
	_cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	long abi = abi_get();
	struct ruleset set = ruleset_for(abi, NOT_FOR_INTAKE);
	int r;

	if (abi < 0)
		return none(errno);
	/* ABI 1 allows no rename from one directory to another. */
	if (abi < 2)
		return 0;
	if (root < 0)
		return -errno;
	r = restrict_to(&set, root, FS_REFER);
	return r < 0 ? r : (int)abi;
}

int landlock_restrict_proxy(void)
{
	long abi = abi_get();
	struct ruleset set = ruleset_for(abi, FS_ABI_1);
	int r;

	if (abi < 0)
		return none(errno);
	r = restrict_to(&set, -1, 0);
	return r < 0 ? r : (int)abi;
}
