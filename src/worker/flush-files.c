/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "flush-files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "pace.h"
#include "wire/remote-pace.h"
#include "serving.h"
#include "base/btrfs.h"
#include "base/fd.h"
#include "base/gate.h"

/* Filesystems that cannot flush a directory, or a server that has none any more, have no say in it.
 * All else was in vain: nothing could be opened, or a commit has failed (EROFS after that). */
static bool is_lost(int error)
{
	return error < 0 && error != -EINVAL && error != -EOPNOTSUPP && error != -ENOSYS &&
	       error != -ENOTTY && error != -ENOENT && error != -ESTALE;
}

static int flush_name(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* A process has moved or removed it: that is durable with the directory it was in. */
	if (fd < 0 && errno == ENOENT)
		return fd_sync_dir(dirfd);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int flush_dir(int dirfd)
{
	int k = btrfs_has(dirfd) ? btrfs_commit(dirfd) : fd_sync_dir(dirfd);

	/* A user's own, which may be written and not read: only root can flush it. */
	return k == -EACCES ? 0 : k;
}

static int flush_all(const struct flush *f)
{
	int k = 0;

	if (f->n == 0)
		return flush_dir(f->dirfd);
	if (btrfs_has(f->dirfd))
		return btrfs_commit(f->dirfd);
	/* The last first: with a journal its commit takes all the others along, which then have
	 * none of their own to wait for. Without one each counts. */
	for (size_t i = f->n; i-- > 0 && !is_lost(k);)
		k = flush_name(f->dirfd, f->names[i]);
	return k;
}

int flush_make(struct serving *s, const struct flush *f, const _Atomic bool *cancelled)
{
	const struct pace *pace = s->pace ? remote_pace(s->pace) : NULL;
	struct pace_budget budget;
	/* A worker that was told to stop, or is not paced any more, flushes all the same. */
	bool paced = pace && pace->begin(pace->userdata, cancelled, &budget);
	uint64_t began = now_usec();
	int k;

	gate("flush", f->n > 0 ? "jobs" : "job");
	k = flush_all(f);
	if (paced)
		pace->synced(pace->userdata, now_usec() - began);
	return is_lost(k) ? k : 0;
}
