/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "path-intake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void target_done(struct target *t)
{
	fd_closep(&t->dirfd);
	free(t->dir);
	t->dir = NULL;
}

/* Every component must be one that can mean only what it says. */
static int components_check(const char *path, const char **ret_why)
{
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			*ret_why = "contains '..', which may mean another directory than it seems: "
				   "give the path without it";
			return -EINVAL;
		}
		if (n > NAME_MAX) {
			*ret_why = "has a component of more than 255 bytes";
			return -ENAMETOOLONG;
		}
		p += n;
		p += strspn(p, "/");
	}
	return 0;
}

int intake_split(const char *path, char **ret_dir, char *name, bool *ret_slash,
		 const char **ret_why)
{
	size_t len = strlen(path), start;
	int r;

	if (len == 0) {
		*ret_why = "is empty";
		return -EINVAL;
	}
	if (len >= PATH_MAX) {
		*ret_why =
			"is longer than the 4,095 bytes a path may have: change into a directory "
			"on the way and give the rest";
		return -ENAMETOOLONG;
	}
	r = components_check(path, ret_why);
	if (r < 0)
		return r;
	*ret_slash = path[len - 1] == '/';
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (len == 0) {
		*ret_why = "is the root of everything";
		return -EPERM;
	}
	start = len;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (len - start == 1 && path[start] == '.') {
		*ret_why = "ends in '.', which cannot be removed: give the directory's own name";
		return -EINVAL;
	}
	memcpy(name, path + start, len - start);
	name[len - start] = '\0';
	*ret_dir = strndup(path, start > 1 && path[start - 1] == '/' ? start - 1 : start);
	if (*ret_dir)
		return 0;
	*ret_why = "cannot be taken in: out of memory";
	return -ENOMEM;
}

const char *intake_words(int error)
{
	switch (-error) {
	case ELOOP:
		return "has a symbolic link on the way to its last component, which a user might "
		       "change: give the path that realpath(1) prints for its directory";
	case ENOENT:
		return "does not exist";
	case ENOTDIR:
		return "leads through something that is no directory";
	case EACCES:
		return "cannot be reached: permission denied";
	case ENOSYS:
		return "cannot be opened safely: this kernel or sandbox has no openat2(2)";
	default:
		return strerror(-error);
	}
}

int intake_open_dir(const char *dir, const char **ret_why)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, AT_FDCWD, dir[0] ? dir : ".", &how, sizeof(how));
	int r = fd < 0 ? -errno : (int)fd;

	if (r < 0)
		*ret_why = intake_words(r);
	return r;
}

int intake_look(const struct protect *p, int dirfd, const char *name, bool slash,
		struct identity *ret, const char **ret_why)
{
	int r = fd_identity(dirfd, name, ret);

	if (r >= 0 && slash && !S_ISDIR(ret->mode)) {
		*ret_why = S_ISLNK(ret->mode) ? "is a symbolic link, and the slash behind it would "
						"mean what it points to: leave the slash out"
					      : "is no directory, but has a slash behind it";
		return -ENOTDIR;
	}
	if (r >= 0) {
		*ret_why = protect_check(p, dirfd, name, ret, /* staged= */ false);
		if (!*ret_why)
			return 0;
		/* Another process may have removed it meanwhile. */
		if (fd_identity(dirfd, name, ret) != -ENOENT)
			return -EPERM;
		r = -ENOENT;
	}
	*ret_why = intake_words(r);
	return r;
}

int intake(const struct protect *p, const char *path, struct target *ret, const char **ret_why)
{
	struct target t = { .dirfd = -1 };
	bool slash;
	int r = intake_split(path, &t.dir, t.name, &slash, ret_why);

	if (r >= 0)
		r = t.dirfd = intake_open_dir(t.dir, ret_why);
	if (r >= 0)
		r = intake_look(p, t.dirfd, t.name, slash, &t.id, ret_why);
	if (r < 0) {
		target_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}
