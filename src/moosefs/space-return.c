/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "space-return.h"

#include <errno.h>

#include "engine/core/dirlist.h"
#include "moosefs.h"
#include "base/fd.h"

void keeping_of_moosefs(struct moosefs *m, uint64_t inode, struct keeping *ret)
{
	struct master_request q = { .type = MASTER_TRASH_TIME, .inode = (uint32_t)inode };
	union master_values trash, all;

	*ret = (struct keeping){ 0 };
	if (inode > UINT32_MAX || moosefs_ask(m, &q, &trash) < 0)
		return;
	q = (struct master_request){ .type = MASTER_BACKLOG };
	if (moosefs_ask(m, &q, &all) < 0)
		return;
	*ret = (struct keeping){ .has_trash = true,
				 .trash_seconds = trash.trash_seconds,
				 .trash_bytes = all.backlog.trash_bytes,
				 .open_bytes = all.backlog.open_bytes };
}

void keeping_of_cephfs(int fd, struct keeping *ret)
{
	/* Every directory has it; those of the directories above it are in it, too. */
	_cleanup_close_ int snapshots = fd_open_dir(fd, ".snap");
	struct dirlist l = { 0 };
	int64_t cookie;
	int r = snapshots;

	*ret = (struct keeping){ 0 };
	while (r >= 0) {
		r = dirlist_read(&l, snapshots, /* short_is_eof= */ false, NULL, &cookie);
		if (r >= 0)
			ret->snapshots += l.n;
		ret->has_snapshots = r == 1;
		if (r == 1)
			break;
	}
	dirlist_done(&l);
}
