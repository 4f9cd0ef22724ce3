/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What tells a filesystem that hosts share from all others: the name of the one directory in
 * <mount>/.reclaim/id, 32 random digits. The host that asks first makes it, aside, and renames it
 * to its place, which fails if another was quicker. Device and inode numbers will not do: each host
 * has its own, and other filesystems of the kind have the same. */
#include "intake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/staging-dir.h"
#include "wire/protocol.h"

#define ID_DIR "id"

static int id_make(int top)
{
	char aside[64], id[33], in_it[128];
	uint64_t random[2];
	int r;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	(void)snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	(void)snprintf(aside, sizeof(aside), ID_DIR ".%s", id);
	(void)snprintf(in_it, sizeof(in_it), "%s/%s", aside, id);
	if (mkdirat(top, aside, 0700) < 0)
		return -errno;
	r = mkdirat(top, in_it, 0700) < 0 ? -errno : 0;
	if (r >= 0 && renameat(top, aside, top, ID_DIR) == 0)
		return 0;
	if (r >= 0 && errno != ENOTEMPTY && errno != EEXIST)
		r = -errno;
	(void)unlinkat(top, in_it, AT_REMOVEDIR);
	(void)unlinkat(top, aside, AT_REMOVEDIR);
	return r;
}

/* Opens .reclaim/id, made if it is not there. */
static int id_open(const struct filesystem_id_message *m)
{
	_cleanup_close_ int root = -1, top = -1;
	uint64_t mnt_id;
	int fd, r;

	root = staging_mount_open(m->mount_path, m->mnt_id, &mnt_id);
	if (root < 0)
		return root;
	top = staging_root_dir(root, STAGING_DIR, 0711, mnt_id, /* make= */ true);
	if (top < 0)
		return top;
	fd = staging_root_dir(top, ID_DIR, 0700, mnt_id, /* make= */ false);
	if (fd != -ENOENT)
		return fd;
	r = id_make(top);
	return r < 0 ? r : staging_root_dir(top, ID_DIR, 0700, mnt_id, /* make= */ false);
}

static int names_tell(struct serving *s, DIR *d)
{
	struct wire_out *o = answer_begin(s, ANSWER_LISTING);
	struct lasting_identity id;
	const struct dirent *e;
	unsigned n = 0;

	/* More than one say that it is damaged. */
	while (n < 2 && (errno = 0, e = readdir(d)))
		if (is_component(e->d_name) && lasting_at(dirfd(d), e->d_name, &id) == 0) {
			protocol_put_item(o, &(struct listing_item){ e->d_name, id });
			n++;
		}
	if (errno)
		return errno;
	return n > 0 ? answer_send(s) : ENODATA;
}

int filesystem_id_tell(struct serving *s)
{
	int fd = id_open(&s->m.filesystem_id_message), r = MIN(fd, 0);
	DIR *d = r >= 0 ? fdopendir(fd) : NULL;

	if (r >= 0 && !d) {
		r = -errno;
		fd_closep(&fd);
	} else if (d) {
		r = names_tell(s, d);
		(void)closedir(d);
		/* A positive one is that of listing. */
		if (r < 0)
			return r;
		r = -r;
	}
	return answer(s, ANSWER_DONE, &(struct done_message){ r });
}
