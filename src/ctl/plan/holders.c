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

#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"

/* One pass over /proc. */
struct holders_scan {
	struct holders *h;
	struct mounts mounts; /* empty if unavailable */
	dev_t odd_dev;        /* the last device asked about, and the answer */
	bool odd;
};

static int add(struct holders *h, uint64_t dev, uint64_t ino, pid_t pid, enum holder_how how)
{
	if (h->n == h->cap) {
		size_t cap = MAX(h->cap * 2, (size_t)1024);
		struct file_holder *v = realloc(h->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		h->v = v;
		h->cap = cap;
	}
	h->v[h->n++] = (struct file_holder){ .dev = dev, .ino = ino, .pid = pid, .how = how };
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
	int fd = openat(piddir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	if (fd < 0) {
		h->hidden += errno == EACCES || errno == EPERM;
		return 0;
	}
	if (!dir) {
		fd_closep(&fd);
		return -ENOMEM;
	}
	while (r >= 0 && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			r = add_link(h, dirfd(dir), d->d_name, pid, HOLDER_OPEN);
	(void)closedir(dir);
	return r;
}

/* Maps name the filesystem's own device, which is not what stat says on btrfs (a device per
 * subvolume) and overlayfs (one per layer). */
static bool is_odd(struct holders_scan *g, dev_t dev)
{
	const struct mount *m;

	if (dev == g->odd_dev)
		return g->odd;
	m = mounts_by_dev(&g->mounts, dev);
	g->odd_dev = dev;
	g->odd = m && (strcmp(m->type, "btrfs") == 0 || strcmp(m->type, "overlay") == 0);
	return g->odd;
}

/* One line of /proc/PID/maps: "start-end perms offset major:minor inode path". */
static int add_mapping(struct holders_scan *g, int piddir, pid_t pid, const char *line)
{
	unsigned major_no, minor_no;
	uint64_t ino;
	int at = 0;
	char path[PATH_MAX + 8];

	if (sscanf(line, "%*s %*s %*s %x:%x %" SCNu64 " %n", &major_no, &minor_no, &ino, &at) < 3 ||
	    ino == 0 || at == 0)
		return 0;
	if (!is_odd(g, makedev(major_no, minor_no)))
		return add(g->h, makedev(major_no, minor_no), ino, pid, HOLDER_MAPPED);
	if (line[at] != '/' ||
	    (size_t)snprintf(path, sizeof(path), "root%s", line + at) >= sizeof(path))
		return 0;
	return add_link(g->h, piddir, path, pid, HOLDER_MAPPED);
}

static int read_maps(struct holders_scan *g, int piddir, pid_t pid)
{
	int fd = openat(piddir, "maps", O_RDONLY | O_CLOEXEC), r = 0;
	FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
	char *line = NULL, *last = NULL;
	size_t cap = 0;
	ssize_t len;

	if (!f) {
		fd_closep(&fd);
		return 0;
	}
	while (r >= 0 && (len = getline(&line, &cap, f)) > 0) {
		const char *path = strchr(line, '/');

		line[len - 1] = '\0';
		/* A library's segments follow one another: once is enough. */
		if (!path || (last && strcmp(last, path) == 0))
			continue;
		free(last);
		last = strdup(path);
		r = add_mapping(g, piddir, pid, line);
	}
	free(last);
	free(line);
	(void)fclose(f);
	return r;
}

static int read_process(struct holders_scan *g, int procfd, const char *name)
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
	r = read_fds(g->h, piddir, pid);
	if (r >= 0)
		r = read_maps(g, piddir, pid);
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(links); i++)
		r = add_link(g->h, piddir, links[i].name, pid, links[i].how);
	return r;
}

static int read_processes(struct holders_scan *g, const char *proc)
{
	DIR *dir = opendir(proc);
	bool first = false;
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	while (r >= 0 && (d = readdir(dir))) {
		if (d->d_name[0] < '1' || d->d_name[0] > '9')
			continue;
		first = first || strcmp(d->d_name, "1") == 0;
		r = read_process(g, dirfd(dir), d->d_name);
	}
	/* With hidepid= on /proc even process 1 is not there. */
	g->h->processes_hidden = !first;
	(void)closedir(dir);
	return r;
}

/* A file behind a loop device is held by the kernel, not by a process. */
static int read_loops(struct holders *h, const char *sys)
{
	_cleanup_free_ char *blocks = NULL;
	struct dirent *d;
	DIR *dir;
	int r = 0;

	if (asprintf(&blocks, "%s/block", sys) < 0)
		return -ENOMEM;
	dir = opendir(blocks);
	while (dir && r >= 0 && (d = readdir(dir))) {
		_cleanup_free_ char *file = NULL, *path = NULL;
		ssize_t len;

		if (strncmp(d->d_name, "loop", 4) != 0 ||
		    asprintf(&path, "%s/%s/loop/backing_file", blocks, d->d_name) < 0)
			continue;
		len = fd_read_file(path, KiB(64), &file);
		if (len <= 1)
			continue;
		file[len - 1] = '\0';
		r = add_link(h, AT_FDCWD, file, (pid_t)strtol(d->d_name + 4, NULL, 10),
			     HOLDER_LOOP);
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

static int compare(const struct file_holder *x, const struct file_holder *y)
{
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int by_identity(const void *a, const void *b)
{
	const struct file_holder *x = a, *y = b;
	int r = compare(x, y);

	if (r != 0)
		return r;
	return x->pid != y->pid ? (int)(x->pid > y->pid) - (int)(x->pid < y->pid)
				: (int)x->how - (int)y->how;
}

/* Sorts, and keeps one way of holding for each process and file: the first of the enum. */
static void tidy(struct holders *h)
{
	size_t n = 0;

	if (h->n == 0)
		return;
	qsort(h->v, h->n, sizeof(*h->v), by_identity);
	for (size_t i = 1; i < h->n; i++)
		if (compare(&h->v[i], &h->v[n]) != 0 || h->v[i].pid != h->v[n].pid)
			h->v[++n] = h->v[i];
	h->n = n + 1;
}

int holders_read(struct holders *ret, const char *proc, const char *sys)
{
	struct holders h = { 0 };
	struct holders_scan g = { .h = &h };
	int r;

	(void)mounts_read(&g.mounts, "/proc/self/mountinfo");
	r = read_processes(&g, proc);
	mounts_done(&g.mounts);
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
	size_t size = 0;
	ssize_t len;
	FILE *f;
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
	(void)fclose(f);
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
	const struct file_holder key = { .dev = dev, .ino = ino };
	size_t lo = 0, hi = h->n, n = 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare(&h->v[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	while (lo + n < h->n && compare(&h->v[lo + n], &key) == 0)
		n++;
	*ret_n = n;
	return n > 0 ? &h->v[lo] : NULL;
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

const char *holder_how_words(enum holder_how how)
{
	return hows[how].words;
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
