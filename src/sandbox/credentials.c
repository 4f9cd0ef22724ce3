/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

#define BIT(cap) (1ULL << (cap))

/* What root's workers keep, as far as reclaimd has it: what rm run by root would use. SYS_ADMIN is
 * only for btrfs subvolumes, and only there if an administrator's drop-in gave it to reclaimd. */
#define KEPT                                                                                       \
	(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) | BIT(CAP_LEASE) |     \
	 BIT(CAP_SYS_ADMIN))
/* Staging directories are made as their owners. */
#define KEPT_BY_INTAKE (KEPT | BIT(CAP_SETUID) | BIT(CAP_SETGID))

static int caps_get(uint64_t *ret_permitted, uint64_t *ret_effective)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	*ret_permitted = (uint64_t)d[1].permitted << 32 | d[0].permitted;
	*ret_effective = (uint64_t)d[1].effective << 32 | d[0].effective;
	return 0;
}

static int caps_set(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = {
		{ (uint32_t)effective, (uint32_t)permitted, 0 },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), 0 },
	};

	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int credentials_override(void)
{
	uint64_t permitted = 0, effective = 0;
	int r = caps_get(&permitted, &effective);

	return r < 0 ? r : caps_set(permitted, effective | BIT(CAP_DAC_OVERRIDE));
}

int credentials_die_with_parent(int death_pipe)
{
	struct pollfd p = { .fd = death_pipe };

	if (fcntl(death_pipe, F_SETOWN, getpid()) < 0 || fcntl(death_pipe, F_SETSIG, SIGKILL) < 0 ||
	    fcntl(death_pipe, F_SETFL, O_ASYNC) < 0)
		return -errno;
	/* It may have been let go of before. */
	return poll(&p, 1, 0) == 0 ? 0 : -EPIPE;
}

/* What a program started from here could get. Without CAP_SETPCAP it stays as it is; no program is
 * started from here, and if one were, NO_NEW_PRIVS would keep it from getting anything. */
static void bounding_drop(void)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return;
}

static int ids_set(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (setgroups(n_groups, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -errno;
	if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return -errno;
	if (r != uid || e != uid || s != uid || rg != gid || eg != gid || sg != gid)
		return -EPERM;
	return 0;
}

/* Everything that must not work any more. */
static int verify(uid_t uid, uint64_t caps)
{
	uint64_t permitted = 0, effective = 0;
	int r = caps_get(&permitted, &effective);

	if (r < 0)
		return r;
	if (permitted & ~caps)
		return -EPERM;
	if (uid != 0 && (setresuid(0, 0, 0) == 0 || setresuid((uid_t)-1, 0, (uid_t)-1) == 0))
		return -EPERM;
	if (!(caps & BIT(CAP_SETGID)) && setgroups(0, NULL) == 0)
		return -EPERM;
	return 0;
}

/* *ret_kept: those of them that there are. */
static int keep(uint64_t wanted, uint64_t *ret_kept)
{
	uint64_t permitted = 0, effective = 0, caps;
	int r;

	r = caps_get(&permitted, &effective);
	if (r < 0)
		return r;
	caps = permitted & wanted;
	r = caps_set(caps, caps);
	if (r < 0)
		return r;
	*ret_kept = caps;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
			       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			       prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0
		       ? -errno
		       : 0;
}

int credentials_keep_for_last_reference(void)
{
	uint64_t kept;

	bounding_drop();
	return keep(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH), &kept);
}

int credentials_keep_for_trim(void)
{
	uint64_t kept = 0;
	int r;

	bounding_drop();
	r = keep(BIT(CAP_SYS_ADMIN), &kept);
	return r < 0 ? r : kept ? 0 : -EPERM;
}

int credentials_drop_all(void)
{
	uint64_t kept;

	bounding_drop();
	return keep(0, &kept);
}

int credentials_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups, bool deletes)
{
	uint64_t kept = 0;
	int r;

	/* A user's worker has no right to do that any more behind ids_set. */
	bounding_drop();
	r = ids_set(uid, gid, groups, n_groups);
	if (r >= 0)
		r = keep(uid != 0 ? 0 : deletes ? KEPT : KEPT_BY_INTAKE, &kept);
	return r < 0 ? r : verify(uid, kept);
}
