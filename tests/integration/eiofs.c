/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filesystem whose directory /bad gives N names and then EIO, as a dying disk does, and which
 * would take an rmdir of it without a murmur. Every removal is written to a log.
 *
 *   eiofs N LOG MOUNTPOINT [NAME [SOURCE]]
 *
 * With NAME, removing what has that path is an EIO too, and so is syncing it. SOURCE is what is
 * said to be mounted.
 *
 * /tree/ok0..ok9, /tree/bad/b00..b19 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OK_FILES 10
#define BAD_FILES 20

static int fails_after, log_fd;
static const char *sticks;
static char ok_gone[OK_FILES], bad_gone[BAD_FILES], bad_dir_gone, tree_gone;

/* The flag of the file with this path, NULL if there is none. */
static char *file_find(const char *path)
{
	unsigned i;
	int end = 0;

	if (sscanf(path, "/tree/ok%1u%n", &i, &end) == 1 && !path[end] && i < OK_FILES)
		return &ok_gone[i];
	if (sscanf(path, "/tree/bad/b%2u%n", &i, &end) == 1 && !path[end] && i < BAD_FILES)
		return &bad_gone[i];
	return NULL;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	char *gone = file_find(path);

	(void)fi;
	memset(st, 0, sizeof(*st));
	st->st_nlink = 1;
	st->st_mode = S_IFREG | 0644;
	if (gone)
		return *gone ? -ENOENT : 0;
	st->st_mode = S_IFDIR | 0755;
	st->st_nlink = 2;
	if (strcmp(path, "/") == 0)
		return 0;
	if (strcmp(path, "/tree") == 0)
		return tree_gone ? -ENOENT : 0;
	if (strcmp(path, "/tree/bad") == 0)
		return bad_dir_gone ? -ENOENT : 0;
	return -ENOENT;
}

static int bad_readdir(void *buf, fuse_fill_dir_t add, off_t at)
{
	char name[16];
	int given = 0;

	for (; at < fails_after && at < BAD_FILES; at++) {
		snprintf(name, sizeof(name), "b%02d", (int)at);
		if (bad_gone[at])
			continue;
		if (add(buf, name, NULL, at + 1, 0))
			break;
		given++;
	}
	return given ? 0 : -EIO; /* an empty answer would mean the end */
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t add, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	char name[16];

	(void)fi;
	(void)flags;
	if (strcmp(path, "/tree/bad") == 0)
		return bad_readdir(buf, add, at);
	if (strcmp(path, "/") == 0)
		return add(buf, "tree", NULL, 0, 0), 0;
	for (int i = 0; i < OK_FILES; i++) {
		snprintf(name, sizeof(name), "ok%d", i);
		if (!ok_gone[i])
			add(buf, name, NULL, 0, 0);
	}
	if (!bad_dir_gone)
		add(buf, "bad", NULL, 0, 0);
	return 0;
}

static int fs_unlink(const char *path)
{
	char *gone = file_find(path);

	dprintf(log_fd, "unlink %s\n", path);
	if (sticks && strcmp(path, sticks) == 0)
		return -EIO;
	if (!gone || *gone)
		return -ENOENT;
	*gone = 1;
	return 0;
}

static int fs_rmdir(const char *path)
{
	dprintf(log_fd, "rmdir %s\n", path);
	*(strcmp(path, "/tree") == 0 ? &tree_gone : &bad_dir_gone) = 1;
	return 0;
}

static int fs_fsyncdir(const char *path, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	(void)fi;
	dprintf(log_fd, "sync %s\n", path);
	return sticks && strcmp(path, sticks) == 0 ? -EIO : 0;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations ops = {
		.getattr = fs_getattr,
		.readdir = fs_readdir,
		.unlink = fs_unlink,
		.rmdir = fs_rmdir,
		.fsyncdir = fs_fsyncdir,
	};
	char source[64];
	char *args[] = { argv[0], (char *)"-f", (char *)"-s", (char *)"-o", source, argv[3], NULL };

	if (argc < 4)
		return 2;
	snprintf(source, sizeof(source), "fsname=%s", argc > 5 ? argv[5] : "eiofs");
	fails_after = atoi(argv[1]);
	sticks = argv[4]; /* NULL if there is none */
	log_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0644);
	return fuse_main(6, args, &ops, NULL);
}
