/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a mount of MooseFS looks like from outside, upon another directory: each directory has a
 * .masterinfo that says where to speak to it, which readdir does not show.
 *
 *   moosefs-mount DIRECTORY PORT MOUNTPOINT
 *
 * The process that listens on that port of 127.0.0.1 is the master. */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INFO ".masterinfo"
#define INFO_BYTES 14

static int below; /* the directory */
/* Address, port, session, version. */
static uint8_t info[INFO_BYTES] = { 127, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 3, 0, 117 };

static const char *relative(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int is_info(const char *path)
{
	return strcmp(strrchr(path, '/') + 1, INFO) == 0;
}

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	(void)conn;
	cfg->use_ino = 1;
	cfg->entry_timeout = cfg->attr_timeout = cfg->negative_timeout = 0;
	return NULL;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	if (!is_info(path))
		return result(fstatat(below, relative(path), st, AT_SYMLINK_NOFOLLOW));
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG | 0444;
	st->st_nlink = 1;
	st->st_size = INFO_BYTES;
	st->st_ino = 0x7fffffff;
	return 0;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t add, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	int fd = openat(below, relative(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	(void)at;
	(void)fi;
	(void)flags;
	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));)
		(void)add(buf, e->d_name,
			  &(struct stat){ .st_ino = e->d_ino, .st_mode = DTTOIF(e->d_type) }, 0, 0);
	closedir(d);
	return 0;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	return is_info(path) ? 0 : -EACCES;
}

static int fs_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	if (at != 0 || size < INFO_BYTES)
		return 0;
	memcpy(buf, info, INFO_BYTES);
	return INFO_BYTES;
}

static int fs_unlink(const char *path)
{
	return result(unlinkat(below, relative(path), 0));
}

static int fs_rmdir(const char *path)
{
	return result(unlinkat(below, relative(path), AT_REMOVEDIR));
}

int main(int argc, char **argv)
{
	static const struct fuse_operations ops = {
		.init = fs_init,
		.getattr = fs_getattr,
		.readdir = fs_readdir,
		.open = fs_open,
		.read = fs_read,
		.unlink = fs_unlink,
		.rmdir = fs_rmdir,
	};
	char *args[] = { argv[0], "-f", "-o", "fsname=mfs#127.0.0.1:9421", argv[3] };
	uint16_t port;

	if (argc != 4)
		return 2;
	below = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	port = htobe16((uint16_t)atoi(argv[2]));
	memcpy(info + 4, &port, sizeof(port));
	return below < 0 ? 1 : fuse_main(5, args, &ops, NULL);
}
