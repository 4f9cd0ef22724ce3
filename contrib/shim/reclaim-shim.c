/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For LD_PRELOAD: unlink(2), unlinkat(2) and remove(3) of large files are handed over to reclaimd,
 * for programs that cannot be changed. See reclaim(3).
 *
 *   RECLAIM_SHIM_PATHS    directories, separated by colons, beneath which that is done; without it
 *                         nothing is done
 *   RECLAIM_SHIM_SIZE     how much a file has to take up (1G)
 *   RECLAIM_SHIM_TIMEOUT  how long the daemon may take (1s)
 *   RECLAIM_SHIM_HELPER   the program that hands over, instead of the installed one
 *
 * In any doubt the real function is called. What is decided here about a file is decided again by
 * the daemon, by who the file is (reclaim.h): this has no rights, and does nothing that the program
 * could not do. As unlink may be called from anywhere, nothing here allocates, locks or waits for a
 * lock, and errno comes out as the real function would have left it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helper.h"
#include "base/fd.h"
#include "base/units.h"

#define DEPTH_MOST 256
#define TIMEOUT_USEC_MOST (60 * USEC_PER_SEC)

/* Filled before main, from then on only read. */
static struct {
	bool on;
	char paths[PATH_MAX]; /* with a NUL in place of each colon, and one more at the end */
	char helper[PATH_MAX];
	char runtime[PATH_MAX + 32]; /* NAME=VALUE */
	uint64_t size_bytes, timeout_usec;
	char timeout[24]; /* in digits */
	int (*unlink)(const char *path);
	int (*unlinkat)(int dirfd, const char *path, int flags);
	int (*remove)(const char *path);
} shim;

static bool text_take(char *to, size_t size, const char *prefix, const char *value)
{
	return (size_t)snprintf(to, size, "%s%s", prefix, value) < size;
}

static bool settings_read(void)
{
	static const char runtime[] = "RECLAIMD_RUNTIME_DIRECTORY";
	const char *paths = secure_getenv("RECLAIM_SHIM_PATHS");
	const char *size = secure_getenv("RECLAIM_SHIM_SIZE");
	const char *timeout = secure_getenv("RECLAIM_SHIM_TIMEOUT");
	const char *helper = secure_getenv("RECLAIM_SHIM_HELPER");
	const char *dir = secure_getenv(runtime);

	if (!paths || !paths[0] || !text_take(shim.paths, sizeof(shim.paths) - 1, "", paths))
		return false;
	for (char *p = shim.paths; (p = strchr(p, ':'));)
		*p++ = '\0';
	shim.paths[strlen(paths) + 1] = '\0';
	if (size_parse(size ? size : "1G", &shim.size_bytes) < 0 ||
	    timespan_parse(timeout ? timeout : "1s", &shim.timeout_usec) < 0 ||
	    shim.timeout_usec > TIMEOUT_USEC_MOST)
		return false;
	if (dir &&
	    !text_take(shim.runtime, sizeof(shim.runtime), "RECLAIMD_RUNTIME_DIRECTORY=", dir))
		return false;
	(void)snprintf(shim.timeout, sizeof(shim.timeout), "%" PRIu64, shim.timeout_usec);
	return text_take(shim.helper, sizeof(shim.helper), "",
			 helper ? helper : RECLAIM_LIBEXECDIR "/reclaim-hand-over");
}

__attribute__((constructor)) static void start(void)
{
	int saved = errno;

	shim.unlink = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
	shim.unlinkat = (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
	shim.remove = (int (*)(const char *))dlsym(RTLD_NEXT, "remove");
	shim.on = settings_read();
	errno = saved;
}

static int real_unlinkat(int dirfd, const char *path, int flags)
{
	/* A constructor of another library may come before ours. */
	return shim.unlinkat ? shim.unlinkat(dirfd, path, flags)
			     : (int)syscall(SYS_unlinkat, dirfd, path, flags);
}

/* Who asks the kernel must be who the helper would be. */
static bool is_itself(void)
{
	uid_t uid = getuid();
	gid_t gid = getgid();

	return geteuid() == uid && getegid() == gid && (uid_t)setfsuid((uid_t)-1) == uid &&
	       (gid_t)setfsgid((gid_t)-1) == gid;
}

static bool is_named(const struct stat *dir)
{
	struct stat st;

	for (const char *p = shim.paths; *p; p += strlen(p) + 1)
		if (p[0] == '/' && stat(p, &st) == 0 && st.st_dev == dir->st_dev &&
		    st.st_ino == dir->st_ino)
			return true;
	return false;
}

/* Would the kernel let us remove something there? The daemon does it with the rights that our user
 * has; this process may have fewer: root without its capabilities, a mount that is read-only here.
 * With the sticky bit only what is our user's own is handed over.
 *
 * What the kernel answers here leaves out the rules of Landlock, and may leave out those of SELinux
 * and AppArmor about removing. Without privileges a process can only be under Landlock, or have a
 * filter of system calls, after it has given up new ones, which can be asked. */
static bool is_allowed(int dirfd, const char *name)
{
	uid_t uid = geteuid();
	struct stat dir, st;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
		return false;
	if (faccessat(dirfd, ".", W_OK | X_OK, AT_EACCESS) < 0 || fstat(dirfd, &dir) < 0)
		return false;
	return !(dir.st_mode & S_ISVTX) || dir.st_uid == uid ||
	       (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid);
}

/* Is the directory, or one above it, among those of the setting? */
static bool is_beneath(int dirfd)
{
	_cleanup_close_ int at = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	struct stat st, last = { .st_ino = 0 };

	for (unsigned i = 0; at >= 0 && i < DEPTH_MOST; i++) {
		int up;

		if (fstat(at, &st) < 0 || (st.st_dev == last.st_dev && st.st_ino == last.st_ino))
			return false;
		if (is_named(&st))
			return true;
		last = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd_closep(&at);
		at = up;
	}
	return false;
}

/* Opens the directory that a path ends in, as the kernel would go there, at a descriptor that is
 * not of standard input or output, and cuts off the name. */
static int parent_open(int dirfd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_close_ int fd = -1;
	char dir[PATH_MAX];

	*ret_name = slash ? slash + 1 : path;
	if (!slash) {
		memcpy(dir, ".", sizeof("."));
	} else if ((size_t)(slash - path) + 2 > sizeof(dir)) {
		return -1;
	} else {
		memcpy(dir, path, (size_t)(slash - path) + 1);
		dir[slash - path + 1] = '\0';
	}
	fd = openat(dirfd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd > 2 ? fd_take(&fd) : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* snprintf(3) may allocate. Returns the first digit, of at most 10 before the end. */
static char *digits(char *end, unsigned n)
{
	*end = '\0';
	do
		*--end = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	return end;
}

static void helper_call(int dirfd, const char *name)
{
	char own_name[NAME_MAX + 1], number[11];
	char *const argv[] = { shim.helper, digits(number + 10, (unsigned)dirfd), own_name,
			       shim.timeout, NULL };
	char *const envp[] = { shim.runtime[0] ? shim.runtime : NULL, NULL };
	const struct helper h = { .path = shim.helper,
				  .argv = argv,
				  .envp = envp,
				  .fd = dirfd,
				  .timeout_usec = shim.timeout_usec };
	size_t len = strlen(name);

	if (len >= sizeof(own_name))
		return;
	memcpy(own_name, name, len + 1);
	helper_run(&h);
}

/* Is it a file that it pays to hand over, and that is the same file for sure when its turn comes?
 * The birth time tells it from another that has the inode number after it. */
static bool is_worth(const struct identity *id)
{
	return S_ISREG(id->mode) && id->nlink == 1 && id->blocks_bytes >= shim.size_bytes &&
	       id->btime_nsec != 0;
}

/* Returns 0 if there is no such file any more; whether because of us, or of another process that
 * was quicker. Otherwise 1: nothing has happened that the real function could not deal with. */
static int hand_over(int dirfd, const char *path)
{
	_cleanup_close_ int parent = -1;
	struct identity id, after;
	const char *name;

	/* The first look is at what nearly every call is about: something small. */
	if (fd_identity(dirfd, path, &id) < 0 || !is_worth(&id) || !is_itself())
		return 1;
	parent = parent_open(dirfd, path, &name);
	if (parent < 0 || !is_beneath(parent) || fd_identity(parent, name, &id) < 0 ||
	    !is_worth(&id) || !is_allowed(parent, name))
		return 1;
	helper_call(parent, name);
	/* After a failure, too: the answer may only have come too late. A job that has to work in
	 * place leaves the name to be removed by the caller, and makes do with what it finds. */
	if (fd_identity(parent, name, &after) == -ENOENT)
		return 0;
	return 1;
}

/* unlink(2) with these arguments: handed over, or not. */
static int try_hand_over(int dirfd, const char *path)
{
	int saved = errno, state, r;

	if (!shim.on || !path || !path[0])
		return 1;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	r = hand_over(dirfd, path);
	(void)pthread_setcancelstate(state, NULL);
	errno = saved;
	return r;
}

__attribute__((visibility("default"))) int unlink(const char *path)
{
	if (try_hand_over(AT_FDCWD, path) == 0)
		return 0;
	return shim.unlink ? shim.unlink(path) : real_unlinkat(AT_FDCWD, path, 0);
}

__attribute__((visibility("default"))) int unlinkat(int dirfd, const char *path, int flags)
{
	if (flags == 0 && try_hand_over(dirfd, path) == 0)
		return 0;
	return real_unlinkat(dirfd, path, flags);
}

/* The C library's own calls the kernel without asking for unlink. */
__attribute__((visibility("default"))) int remove(const char *path)
{
	int r;

	if (try_hand_over(AT_FDCWD, path) == 0)
		return 0;
	if (shim.remove)
		return shim.remove(path);
	r = real_unlinkat(AT_FDCWD, path, 0);
	return r < 0 && errno == EISDIR ? real_unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : r;
}
