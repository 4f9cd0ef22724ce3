/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filesystem that lies about who its files are.
 *
 *   liefs KIND LOG LINK MOUNTPOINT
 *
 *   same      all have one inode number and one time of birth
 *   changing  each look at a file shows another number
 *   types     a listing says "directory" of files and "file" of directories
 *   links     what was listed and looked at as a directory is a symbolic link to LINK when opened
 *   names     a listing has names with slashes, dots, and the same name many times
 *   endless   a listing has no end
 *   deep      each directory holds itself
 *   turning   files and directories take turns, from one look to the next, without end
 *
 * There are /tree, with files f0 to f9 and a directory d with the same, and /keep, likewise. Each
 * name that is to be removed is written to LOG, a line each, and is gone (but in the last
 * three). Runs in the foreground. */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind, *log_path, *link_path;
static char *gone[1024];
static size_t n_gone;
static unsigned looks;

static bool is(const char *what)
{
	return strcmp(kind, what) == 0;
}

static bool ends(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_dir(const char *path)
{
	return strcmp(path, "/") == 0 || strcmp(path, "/tree") == 0 || strcmp(path, "/keep") == 0 ||
	       ends(path, "/d");
}

static bool is_gone(const char *path)
{
	for (size_t i = 0; i < n_gone; i++)
		if (strcmp(gone[i], path) == 0)
			return true;
	return false;
}

static bool is_known(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	if (is_gone(path))
		return false;
	if (is_dir(path))
		return true;
	return name[0] == 'f' && (is("endless") || (name[1] >= '0' && name[1] <= '9' && !name[2]));
}

static uint64_t ino_of(const char *path)
{
	uint64_t h = 1469598103934665603u;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 1099511628211u;
	return h | 2;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	bool dir = is_dir(path);

	(void)fi;
	looks++;
	if (!is_known(path))
		return -ENOENT;
	if (is("turning") && path[1] && strrchr(path, '/') != path && looks % 3 == 0)
		dir = !dir;
	memset(st, 0, sizeof(*st));
	st->st_uid = getuid();
	st->st_gid = getgid();
	st->st_nlink = dir ? 2 : 1;
	st->st_mode = dir ? S_IFDIR | 0755 : S_IFREG | 0644;
	st->st_size = 3;
	st->st_ino = is("same") ? 42 : is("changing") ? looks + 100 : ino_of(path);
	/* As a link from the second look on. */
	if (is("links") && ends(path, "/d") && looks % 2 == 0)
		st->st_mode = S_IFLNK | 0777;
	return 0;
}

static int fs_readlink(const char *path, char *buf, size_t size)
{
	(void)path;
	(void)snprintf(buf, size, "%s", link_path);
	return 0;
}

/* Returns true if there is no more room. */
static bool list_one(void *buf, fuse_fill_dir_t add, const char *dir, const char *name, off_t at)
{
	struct stat st = { 0 };
	char path[4096];
	bool as_dir;

	(void)snprintf(path, sizeof(path), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
	if (is_gone(path))
		return false;
	as_dir = is_dir(path) != is("types");
	st.st_mode = as_dir ? S_IFDIR : S_IFREG;
	st.st_ino = is("same") ? 42 : ino_of(path);
	return add(buf, name, &st, at, 0) != 0;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t add, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	static const char *const odd[] = { ".", "..", "..", ".", "f0", "f0", "f0", "f0" };
	static const char *const top[] = { "tree", "keep" };
	char name[32];

	(void)fi;
	(void)flags;
	if (strcmp(path, "/") == 0) {
		for (size_t i = 0; i < 2; i++)
			(void)list_one(buf, add, path, top[i], 0);
		return 0;
	}
	if (is("endless")) {
		do
			(void)snprintf(name, sizeof(name), "f%llu", (unsigned long long)at++);
		while (!list_one(buf, add, path, name, at));
		return 0;
	}
	if (is("names"))
		for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
			(void)list_one(buf, add, path, odd[i], 0);
	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		(void)list_one(buf, add, path, name, 0);
	}
	if (!ends(path, "/d") || is("deep"))
		(void)list_one(buf, add, path, "d", 0);
	if (is("names"))
		(void)list_one(buf, add, path, "../keep/f0", 0);
	return 0;
}

static int fs_remove(const char *path)
{
	FILE *f = fopen(log_path, "ae");

	if (!f)
		return -EIO;
	(void)fprintf(f, "%s\n", path);
	(void)fclose(f);
	if (is("endless") || is("deep") || is("turning"))
		return 0;
	if (n_gone == sizeof(gone) / sizeof(gone[0]) || !(gone[n_gone] = strdup(path)))
		return -ENOSPC;
	n_gone++;
	return 0;
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
	(void)from;
	(void)to;
	(void)flags;
	return -EXDEV;
}

static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	(void)conn;
	cfg->use_ino = cfg->readdir_ino = 1;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = fs_init,
	.getattr = fs_getattr,
	.readlink = fs_readlink,
	.readdir = fs_readdir,
	.unlink = fs_remove,
	.rmdir = fs_remove,
	.rename = fs_rename,
};

int main(int argc, char *argv[])
{
	char foreground[] = "-f", one[] = "-s", option[] = "-o",
	     options[] = "attr_timeout=0,entry_timeout=0";
	char *args[] = {
		argv[0], foreground, one, option, options, argc == 5 ? argv[4] : NULL, NULL
	};

	if (argc != 5)
		return 2;
	kind = argv[1];
	log_path = argv[2];
	link_path = argv[3];
	return fuse_main(6, args, &operations, NULL);
}
