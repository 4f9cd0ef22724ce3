/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A user's filesystem that hangs: once a file of that name exists, no call of the kind is answered
 * any more.
 *
 *   hangfs flush|look|read|root|unlink FILE MOUNTPOINT
 *
 * flush: closing a file; look: everything but reading; read: reading; root: as look, but only if
 * root asks; unlink: deleting. Runs in the foreground. There are /tree/f0 to f9, and /names: a list
 * of names in /tree. */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char names[] = "f0\0f1";
static const char *kind, *trigger;

static void hang(const char *call)
{
	bool hangs = strcmp(kind, "root") == 0
			     ? strcmp(call, "look") == 0 && fuse_get_context()->uid == 0
			     : strcmp(call, kind) == 0;

	while (hangs && access(trigger, F_OK) == 0)
		pause();
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	hang("look");
	memset(st, 0, sizeof(*st));
	st->st_uid = getuid();
	st->st_gid = getgid();
	st->st_nlink = 2;
	st->st_mode = S_IFDIR | 0755;
	if (strcmp(path, "/") == 0 || strcmp(path, "/tree") == 0)
		return 0;
	st->st_nlink = 1;
	st->st_mode = S_IFREG | 0644;
	st->st_size = sizeof(names);
	return strncmp(path, "/tree/f", 7) == 0 || strcmp(path, "/names") == 0 ? 0 : -ENOENT;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t add, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	char name[3] = "f0";

	(void)at;
	(void)fi;
	(void)flags;
	hang("look");
	if (strcmp(path, "/") == 0)
		return add(buf, "tree", NULL, 0, 0) || add(buf, "names", NULL, 0, 0);
	for (; name[1] <= '9'; name[1]++)
		(void)add(buf, name, NULL, 0, 0);
	return 0;
}

static int fs_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	hang("read");
	if (at < 0 || (size_t)at >= sizeof(names))
		return 0;
	if (size > sizeof(names) - (size_t)at)
		size = sizeof(names) - (size_t)at;
	memcpy(buf, names + at, size);
	return (int)size;
}

static int fs_flush(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	hang("flush");
	return 0;
}

static int fs_unlink(const char *path)
{
	(void)path;
	hang("look");
	hang("unlink");
	return -EPERM;
}

static const struct fuse_operations operations = {
	.getattr = fs_getattr,
	.readdir = fs_readdir,
	.read = fs_read,
	.flush = fs_flush,
	.unlink = fs_unlink,
	.rmdir = fs_unlink,
};

int main(int argc, char *argv[])
{
	char foreground[] = "-f", option[] = "-o", timeouts[] = "attr_timeout=0,entry_timeout=0";
	char *args[] = { argv[0], foreground, option, timeouts, argc == 4 ? argv[3] : NULL, NULL };

	if (argc != 4)
		return 2;
	kind = argv[1];
	trigger = argv[2];
	return fuse_main(5, args, &operations, NULL);
}
