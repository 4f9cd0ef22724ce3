/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "obstacles.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

void caller_find(struct caller *ret)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	*ret = (struct caller){ .euid = geteuid() };
	if (syscall(SYS_capget, &header, data) == 0)
		ret->fowner = data[CAP_TO_INDEX(CAP_FOWNER)].effective & CAP_TO_MASK(CAP_FOWNER);
}

const char *obstacle_in_directory(int fd, const struct statx *sx)
{
	if (sx->stx_attributes & STATX_ATTR_IMMUTABLE)
		return "is immutable (chattr +i), with the names in it";
	if (sx->stx_attributes & STATX_ATTR_APPEND)
		return "is append-only (chattr +a): names in it can only be added";
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	if (errno == EROFS)
		return "is mounted read-only";
	return errno == EACCES || errno == EPERM
		       ? "is a directory that the caller may not change: nothing in it can go"
		       : "is a directory whose permissions cannot be told";
}

const char *obstacle_of_entry(const struct caller *c, const struct statx *sx, bool sticky,
			      uid_t owner)
{
	if (sx->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return "is a mount point";
	if (sx->stx_attributes & STATX_ATTR_IMMUTABLE)
		return "is immutable (chattr +i)";
	if (sx->stx_attributes & STATX_ATTR_APPEND)
		return "is append-only (chattr +a)";
	if (sticky && !c->fowner && owner != c->euid && sx->stx_uid != c->euid)
		return "belongs to somebody else and lies in a sticky directory";
	return NULL;
}

void obstacles_add(struct obstacles *o, const char *path, const char *reason, int error)
{
	struct obstacle *v = &o->v[o->n];

	if (o->n == OBSTACLES_SHOWN)
		return;
	v->path = strdup(path);
	if (!v->path)
		return;
	(void)snprintf(v->reason, sizeof(v->reason), "%s%s%s", reason, error < 0 ? ": " : "",
		       error < 0 ? strerror(-error) : "");
	o->n++;
}

void obstacles_done(struct obstacles *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->v[i].path);
	*o = (struct obstacles){ 0 };
}
