/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"

static void dir_closep(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}
#define _cleanup_dir_ _cleanup_(dir_closep)

static void file_closep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}
#define _cleanup_file_ _cleanup_(file_closep)

static int add(struct holders *h, uint64_t dev, uint64_t ino, pid_t pid, enum holder_how how)
{
	const struct file_holder holder = { .dev = dev, .ino = ino, .pid = pid, .how = how };
	struct file_holder *v;

	/* A library's segments follow one another: once is enough. */
	if (h->n > 0 && memcmp(&h->v[h->n - 1], &holder, sizeof(holder)) == 0)
		return 0;
	v = array_add(&h->v, &h->n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = holder;
	return 0;
}

/* Adds what `name` beneath dirfd leads to, if it is a file or directory. A magic link of /proc
 * leads to the open file itself, whatever its name has become. */
static int add_link(struct holders *h, int dirfd, const char *name, pid_t pid, enum holder_how how)
{
	struct statx sx;

	if (statx(dirfd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_INO | STATX_NLINK, &sx) < 0)
		return 0;
	if (!S_ISREG(sx.stx_mode) && !S_ISDIR(sx.stx_mode))
		return 0;
	return add(h, makedev(sx.stx_dev_major, sx.stx_dev_minor), sx.stx_ino, pid, how);
}

static int read_fds(struct holders *h, int piddir, pid_t pid)
{
	_cleanup_close_ int fd = openat(piddir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int r = 0;

	if (!dir && (errno == EACCES || errno == EPERM)) {
		h->hidden++;
		return 0;
	}
	/* Linux also reports ENOENT if the process ends between openat() and fdopendir(). */
	if (!dir)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	(void)fd_take(&fd);
	while (r >= 0 && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			r = add_link(h, dirfd(dir), d->d_name, pid, HOLDER_OPEN);
	return r;
}

/* One line of /proc/PID/maps: "start-end perms offset major:minor inode path". Maps name the
 * filesystem's own device, which is not what stat says on btrfs (a device per subvolume) and
 * overlayfs (one per layer). */
static int add_mapping(struct holders *h, const struct mounts *mounts, int piddir, pid_t pid,
		       const char *line)
{
	unsigned major_no, minor_no;
	const struct mount *m;
	uint64_t ino;
	int at = 0;
	char path[PATH_MAX + 8];

	if (sscanf(line, "%*s %*s %*s %x:%x %" SCNu64 " %n", &major_no, &minor_no, &ino, &at) < 3 ||
	    ino == 0 || at == 0)
		return 0;
	m = mounts_by_dev(mounts, makedev(major_no, minor_no));
	if (!m || (strcmp(m->type, "btrfs") != 0 && strcmp(m->type, "overlay") != 0))
		return add(h, makedev(major_no, minor_no), ino, pid, HOLDER_MAPPED);
	if (line[at] != '/' ||
	    (size_t)snprintf(path, sizeof(path), "root%s", line + at) >= sizeof(path))
		return 0;
	return add_link(h, piddir, path, pid, HOLDER_MAPPED);
}

static int read_maps(struct holders *h, const struct mounts *mounts, int piddir, pid_t pid)
{
	_cleanup_close_ int fd = openat(piddir, "maps", O_RDONLY | O_CLOEXEC);
	_cleanup_file_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
	_cleanup_free_ char *line = NULL;
	char last[PATH_MAX] = "";
	size_t cap = 0;
	ssize_t len;
	int r = 0;

	if (!f)
		return 0;
	(void)fd_take(&fd);
	while (r >= 0 && (len = getline(&line, &cap, f)) > 0) {
		const char *path = strchr(line, '/');

		line[len - 1] = '\0';
		/* The parts of one library come one behind the other. */
		if (!path || strcmp(last, path) == 0)
			continue;
		r = add_mapping(h, mounts, piddir, pid, line);
		(void)snprintf(last, sizeof(last), "%s", path);
	}
	return r;
}

static int read_process(struct holders *h, const struct mounts *mounts, int procfd,
			const char *name)
{
	static const struct {
		const char *name;
		enum holder_how how;
	} links[] = { { "cwd", HOLDER_CWD }, { "root", HOLDER_ROOT }, { "exe", HOLDER_EXE } };
	_cleanup_close_ int piddir = -1;
	pid_t pid = (pid_t)strtol(name, NULL, 10);
	int r;

	if (pid == getpid())
		return 0;
	piddir = openat(procfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (piddir < 0)
		return 0; /* it has ended */
	r = read_fds(h, piddir, pid);
	if (r >= 0)
		r = read_maps(h, mounts, piddir, pid);
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(links); i++)
		r = add_link(h, piddir, links[i].name, pid, links[i].how);
	return r;
}

static int read_processes(struct holders *h, const struct mounts *mounts, const char *proc)
{
	_cleanup_dir_ DIR *dir = opendir(proc);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	/* With hidepid= on /proc even process 1 is not there. */
	h->processes_hidden = true;
	while (r >= 0 && (d = readdir(dir))) {
		if (d->d_name[0] < '1' || d->d_name[0] > '9')
			continue;
		if (strcmp(d->d_name, "1") == 0)
			h->processes_hidden = false;
		r = read_process(h, mounts, dirfd(dir), d->d_name);
	}
	return r;
}

/* A file behind a loop device is held by the kernel, not by a process. */
static int read_loops(struct holders *h, const char *sys)
{
	_cleanup_free_ char *blocks = NULL;
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *d;
	int r = 0;

	if (asprintf(&blocks, "%s/block", sys) < 0) {
		blocks = NULL;
		return -ENOMEM;
	}
	dir = opendir(blocks);
	while (dir && r >= 0 && (d = readdir(dir))) {
		_cleanup_free_ char *file = NULL;
		char path[PATH_MAX];
		ssize_t len;

		(void)snprintf(path, sizeof(path), "%s/%s/loop/backing_file", blocks, d->d_name);
		len = strncmp(d->d_name, "loop", 4) == 0 ? fd_read_file(path, KiB(64), &file) : 0;
		if (len <= 1)
			continue;
		file[len - 1] = '\0';
		r = add_link(h, AT_FDCWD, file, (pid_t)strtol(d->d_name + 4, NULL, 10),
			     HOLDER_LOOP);
	}
	return r;
}

static int by_identity(const void *a, const void *b)
{
	const struct file_holder *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int by_process(const void *a, const void *b)
{
	const struct file_holder *x = a, *y = b;
	int r = by_identity(a, b);

	r = r != 0 ? r : (x->pid > y->pid) - (x->pid < y->pid);
	return r != 0 ? r : (int)x->how - (int)y->how;
}

/* Sorts, and keeps one way of holding for each process and file: the first of the enum. */
static void tidy(struct holders *h)
{
	size_t n = 0;

	if (h->n > 0)
		qsort(h->v, h->n, sizeof(*h->v), by_process);
	for (size_t i = 0; i < h->n; i++)
		if (n == 0 || by_identity(&h->v[i], &h->v[n - 1]) != 0 ||
		    h->v[i].pid != h->v[n - 1].pid)
			h->v[n++] = h->v[i];
	h->n = n;
}

int holders_read(struct holders *ret, const char *proc, const char *sys)
{
	struct mounts mounts = { 0 };
	struct holders h = { 0 };
	int r;

	(void)mounts_read(&mounts, "/proc/self/mountinfo");
	r = read_processes(&h, &mounts, proc);
	mounts_done(&mounts);
	if (r >= 0)
		r = read_loops(&h, sys);
	if (r < 0) {
		holders_done(&h);
		return r;
	}
	tidy(&h);
	*ret = h;
	return 0;
}

int holders_add_sockets(struct holders *h, const char *proc,
			bool (*wanted)(void *userdata, const char *path), void *userdata)
{
	_cleanup_free_ char *file = NULL, *line = NULL;
	_cleanup_file_ FILE *f = NULL;
	size_t size = 0;
	ssize_t len;
	int r = 0;

	if (asprintf(&file, "%s/net/unix", proc) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	f = fopen(file, "re");
	if (!f)
		return errno == ENOENT ? 0 : -errno;
	while (r >= 0 && (len = getline(&line, &size, f)) > 0) {
		char *path = strchr(line, '/');
		struct stat st;

		line[len - (line[len - 1] == '\n')] = '\0';
		/* An abstract name begins with an at sign; a relative one cannot be resolved. */
		if (path && path > line && path[-1] == ' ' && wanted(userdata, path) &&
		    lstat(path, &st) >= 0 && S_ISSOCK(st.st_mode))
			r = add(h, st.st_dev, st.st_ino, 0, HOLDER_SOCKET);
	}
	if (ferror(f))
		r = -EIO;
	tidy(h);
	return r;
}

void holders_done(struct holders *h)
{
	free(h->v);
	*h = (struct holders){ 0 };
}

const struct file_holder *holders_find(const struct holders *h, uint64_t dev, uint64_t ino,
				       size_t *ret_n)
{
	const struct file_holder key = { .dev = dev, .ino = ino }, *v = h->v;
	const struct file_holder *any =
		h->n > 0 ? bsearch(&key, v, h->n, sizeof(key), by_identity) : NULL;
	size_t from = any ? (size_t)(any - v) : h->n, to = from;

	while (any && from > 0 && by_identity(&v[from - 1], &key) == 0)
		from--;
	while (to < h->n && by_identity(&v[to], &key) == 0)
		to++;
	*ret_n = to - from;
	return any ? &v[from] : NULL;
}

static const struct {
	const char *name, *words;
} hows[] = {
	[HOLDER_OPEN] = { "open", "open in" },
	[HOLDER_EXE] = { "running", "running as" },
	[HOLDER_MAPPED] = { "mapped", "mapped by" },
	[HOLDER_CWD] = { "working-directory", "working directory of" },
	[HOLDER_ROOT] = { "root-directory", "root directory of" },
	[HOLDER_LOOP] = { "loop-device", "behind" },
	[HOLDER_SOCKET] = { "socket", "socket of" },
};

const char *holder_how_name(enum holder_how how)
{
	return hows[how].name;
}

const char *holder_how_words(const char *name)
{
	size_t i = 0;

	while (i + 1 < ELEMENTSOF(hows) && strcmp(hows[i].name, name) != 0)
		i++;
	return hows[i].words;
}

char *holder_command(const struct file_holder *h, char *buf, size_t len)
{
	_cleanup_free_ char *name = NULL;
	char path[64];
	ssize_t n;

	if (h->how == HOLDER_LOOP) {
		(void)snprintf(buf, len, "loop%d", (int)h->pid);
		return buf;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)h->pid);
	n = fd_read_file(path, KiB(4), &name);
	if (n > 1)
		name[n - 1] = '\0';
	(void)snprintf(buf, len, "%s", n > 1 ? name : "?");
	return buf;
}
