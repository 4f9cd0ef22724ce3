/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * maketree [--writers=N] KIND ROOT NUMBER... - build one of the benchmark's trees.
 *
 * The benchmark makes a fresh tree for every single measurement, so making one has to be about as
 * fast as the filesystem allows. The same arguments always make the same names, sizes and order.
 * Prints "FILES DIRECTORIES BYTES" on success, ROOT itself counted as a directory.
 *
 * With several writers, which are processes, each makes a share of the same tree, all at the same
 * time. Then files that are neighbours by name are none on the disk, and only their order varies.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTENT_MAX (1024 * 1024)
#define SOURCE_DEPTH_MAX 9
#define WRITERS_MAX 64

/* What one writer makes of it: of the parts that it is divided into, each writers-th. */
struct tree {
	uint64_t writer;
	uint64_t writers;
	uint64_t files;
	uint64_t directories;
	uint64_t bytes;
};

static char content[CONTENT_MAX];

/* xorshift64*: a fixed seed gives every run of the benchmark the same tree. */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static double random_unit(uint64_t *state)
{
	return (double)(random_next(state) >> 11) / (double)(UINT64_C(1) << 53);
}

/* Not zeros, which a compressing or hole-detecting layer below would not store. */
static void fill_content(void)
{
	uint64_t state = 42;

	for (size_t i = 0; i + sizeof(uint64_t) <= sizeof(content); i += sizeof(uint64_t)) {
		uint64_t word = random_next(&state);

		memcpy(content + i, &word, sizeof(word));
	}
}

/* Make a directory and open it; returns the descriptor or a negative errno. */
static int make_dir(struct tree *tree, int parent_fd, const char *name)
{
	int fd;

	if (mkdirat(parent_fd, name, 0755) < 0)
		return -errno;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	tree->directories++;
	return fd;
}

static int write_all(int fd, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, content, size < sizeof(content) ? size : sizeof(content));

		if (n < 0)
			return -errno;
		size -= (size_t)n;
	}
	return 0;
}

static int make_written(struct tree *tree, int dir_fd, const char *name, size_t size)
{
	int fd, r;

	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = write_all(fd, size);
	if (close(fd) < 0 && r >= 0)
		r = -errno;
	tree->files++;
	tree->bytes += size;
	return r;
}

/* mknod makes a regular file in one system call where open and close take two. */
static int make_empty(struct tree *tree, int dir_fd, const char *name)
{
	if (mknodat(dir_fd, name, S_IFREG | 0644, 0) < 0)
		return -errno;
	tree->files++;
	return 0;
}

static int fill_share(struct tree *tree, int dir_fd, uint64_t n_files, size_t size, uint64_t first,
		      uint64_t step)
{
	char name[32];
	int r;

	for (uint64_t i = first; i < n_files; i += step) {
		snprintf(name, sizeof(name), "f%06llu.dat", (unsigned long long)i);
		r = size > 0 ? make_written(tree, dir_fd, name, size)
			     : make_empty(tree, dir_fd, name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int fill_dir(struct tree *tree, int dir_fd, uint64_t n_files, size_t size)
{
	return fill_share(tree, dir_fd, n_files, size, 0, 1);
}

/* flat FILES */
static int build_flat(struct tree *tree, int root_fd, const uint64_t *arg)
{
	return fill_share(tree, root_fd, arg[0], 0, tree->writer, tree->writers);
}

/* wide DIRECTORIES FILES SIZE: FILES of SIZE written bytes in each directory */
static int build_wide(struct tree *tree, int root_fd, const uint64_t *arg)
{
	char name[32];
	int fd, r;

	for (uint64_t i = tree->writer; i < arg[0]; i += tree->writers) {
		snprintf(name, sizeof(name), "d%05llu", (unsigned long long)i);
		fd = make_dir(tree, root_fd, name);
		if (fd < 0)
			return fd;
		r = fill_dir(tree, fd, arg[1], arg[2]);
		close(fd);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * spread DIRECTORIES FILES SIZE: as wide, but of directories that have nothing to do with each
 * other. ext4 then spreads them over the disk, as it does with home directories, and as age does
 * with any. Other filesystems do not know the flag; there it is the same as wide.
 */
static int build_spread(struct tree *tree, int root_fd, const uint64_t *arg)
{
	int flags;

	if (ioctl(root_fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_TOPDIR_FL;
		(void)ioctl(root_fd, FS_IOC_SETFLAGS, &flags);
	}
	return build_wide(tree, root_fd, arg);
}

static int build_chain(struct tree *tree, int parent_fd, const char *name, const uint64_t *arg)
{
	int fd = make_dir(tree, parent_fd, name);
	int r = fd;

	for (uint64_t level = 1; r >= 0; level++) {
		int below;

		r = fill_dir(tree, fd, arg[2], 0);
		if (r < 0 || level == arg[1])
			break;
		below = make_dir(tree, fd, "sub");
		if (below < 0) {
			r = below;
			break;
		}
		close(fd);
		fd = below;
	}
	if (fd >= 0)
		close(fd);
	return r;
}

/* deep CHAINS LEVELS FILES: FILES empty files on each level of each chain */
static int build_deep(struct tree *tree, int root_fd, const uint64_t *arg)
{
	char name[32];
	int r;

	for (uint64_t i = 0; i < arg[0]; i++) {
		snprintf(name, sizeof(name), "chain%04llu", (unsigned long long)i);
		r = build_chain(tree, root_fd, name, arg);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Sizes as in source trees: log-normal with a median of 5 KiB, so that two thirds lie between 1 and
 * 20 KiB, with a short tail of large files.
 */
static size_t source_size(uint64_t *state)
{
	double gauss = 0;

	for (int i = 0; i < 12; i++)
		gauss += random_unit(state);
	gauss -= 6;
	return (size_t)fmin(5120 * exp(1.2 * gauss), 512 * 1024);
}

/*
 * Like a source tree: each directory hangs below a random earlier one, at most SOURCE_DEPTH_MAX
 * deep, and holds a random number of files; directory after directory, as tar or a checkout writes.
 */
struct source {
	uint64_t state;
	uint64_t n_dirs;
	uint64_t n_files;
	char **paths;
	int *depths;
};

static uint64_t source_parent(struct source *source, uint64_t index)
{
	uint64_t parent;

	do
		parent = random_next(&source->state) % index;
	while (source->depths[parent] >= SOURCE_DEPTH_MAX);
	return parent;
}

static int source_add_dir(struct source *source, struct tree *tree, int root_fd, uint64_t index)
{
	uint64_t parent = index > 0 ? source_parent(source, index) : 0;
	const char *above = index > 0 ? source->paths[parent] : ".";
	int fd;

	if (asprintf(&source->paths[index], "%s/mod%04llu", above, (unsigned long long)index) < 0)
		return -ENOMEM;
	source->depths[index] = index > 0 ? source->depths[parent] + 1 : 1;
	fd = make_dir(tree, root_fd, source->paths[index]);
	return fd;
}

static int source_fill_dir(struct source *source, struct tree *tree, int dir_fd, uint64_t n)
{
	char name[32];
	int r;

	for (uint64_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "part_%03llu.c", (unsigned long long)i);
		r = make_written(tree, dir_fd, name, source_size(&source->state));
		if (r < 0)
			return r;
	}
	return 0;
}

static int source_build(struct source *source, struct tree *tree, int root_fd)
{
	uint64_t left = source->n_files;

	for (uint64_t i = 0; i < source->n_dirs; i++) {
		uint64_t mean = left / (source->n_dirs - i);
		uint64_t n = random_next(&source->state) % (2 * mean + 1);
		int fd, r;

		if (i + 1 == source->n_dirs || n > left)
			n = left;
		fd = source_add_dir(source, tree, root_fd, i);
		if (fd < 0)
			return fd;
		r = source_fill_dir(source, tree, fd, n);
		close(fd);
		if (r < 0)
			return r;
		left -= n;
	}
	return 0;
}

/* source DIRECTORIES FILES */
static int build_source(struct tree *tree, int root_fd, const uint64_t *arg)
{
	struct source source = { .state = 1, .n_dirs = arg[0], .n_files = arg[1] };
	int r = -ENOMEM;

	source.paths = calloc(source.n_dirs, sizeof(*source.paths));
	source.depths = calloc(source.n_dirs, sizeof(*source.depths));
	if (source.paths && source.depths)
		r = source_build(&source, tree, root_fd);
	for (uint64_t i = 0; source.paths && i < source.n_dirs; i++)
		free(source.paths[i]);
	free(source.paths);
	free(source.depths);
	return r;
}

/*
 * large FILES SIZE: space is allocated, not written. Unwritten extents are freed exactly as written
 * ones, there is no page cache to drop that would measure memory instead of the filesystem, and
 * gigabytes are ready at once. On tmpfs this does allocate the memory.
 */
static int build_large(struct tree *tree, int root_fd, const uint64_t *arg)
{
	char name[32];
	int fd, r;

	for (uint64_t i = 0; i < arg[0]; i++) {
		snprintf(name, sizeof(name), "large%04llu.img", (unsigned long long)i);
		fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			return -errno;
		r = posix_fallocate(fd, 0, (off_t)arg[1]);
		close(fd);
		if (r > 0)
			return -r;
		tree->files++;
		tree->bytes += arg[1];
	}
	return 0;
}

static const struct kind {
	const char *name;
	int n_args;
	int (*build)(struct tree *tree, int root_fd, const uint64_t *arg);
	bool divisible; /* among several writers */
} kinds[] = {
	{ "flat", 1, build_flat, true },      { "wide", 3, build_wide, true },
	{ "spread", 3, build_spread, true },  { "deep", 3, build_deep, false },
	{ "source", 2, build_source, false }, { "large", 2, build_large, false },
};

static const struct kind *find_kind(const char *name, int n_args)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0 && kinds[i].n_args == n_args)
			return &kinds[i];
	return NULL;
}

/* A writer is a process: threads would share a table of descriptors, and wait for each other there.
 */
static pid_t start_writer(const struct kind *kind, struct tree *tree, int root_fd,
			  const uint64_t *args)
{
	pid_t pid = fork();
	int r;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = kind->build(tree, root_fd, args);
	_exit(r < 0 ? -r : 0);
}

/* Returns the first error of any. */
static int wait_for_writers(const pid_t *writers, uint64_t n_writers)
{
	int status, r = 0;

	for (uint64_t i = 0; i < n_writers; i++) {
		if (waitpid(writers[i], &status, 0) < 0)
			status = -1;
		if (r == 0 && status != 0)
			r = WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
	}
	return r;
}

static int build_together(const struct kind *kind, struct tree *tree, int root_fd,
			  const uint64_t *args)
{
	pid_t writers[WRITERS_MAX];
	uint64_t n = 0;
	struct tree *parts = mmap(NULL, WRITERS_MAX * sizeof(*parts), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r = 0, waited;

	if (parts == MAP_FAILED)
		return -errno;
	for (; r >= 0 && n < tree->writers; n++) {
		parts[n] = (struct tree){ .writer = n, .writers = tree->writers };
		writers[n] = start_writer(kind, &parts[n], root_fd, args);
		if (writers[n] < 0) {
			r = writers[n];
			break;
		}
	}
	waited = wait_for_writers(writers, n);
	for (uint64_t i = 0; i < n; i++) {
		tree->files += parts[i].files;
		tree->directories += parts[i].directories;
		tree->bytes += parts[i].bytes;
	}
	munmap(parts, WRITERS_MAX * sizeof(*parts));
	return r < 0 ? r : waited;
}

static int build(const struct kind *kind, uint64_t writers, const char *root, char **numbers)
{
	struct tree tree = { .writers = writers };
	uint64_t args[3] = { 0 };
	int fd, r;

	for (int i = 0; i < kind->n_args; i++)
		args[i] = strtoull(numbers[i], NULL, 10);
	fill_content();
	fd = make_dir(&tree, AT_FDCWD, root);
	if (fd < 0)
		return fd;
	r = writers > 1 ? build_together(kind, &tree, fd, args) : kind->build(&tree, fd, args);
	close(fd);
	if (r < 0)
		return r;
	printf("%llu %llu %llu\n", (unsigned long long)tree.files,
	       (unsigned long long)tree.directories, (unsigned long long)tree.bytes);
	return 0;
}

int main(int argc, char **argv)
{
	static const char option[] = "--writers=";
	const struct kind *kind;
	uint64_t writers = 1;
	int r;

	if (argc > 1 && strncmp(argv[1], option, strlen(option)) == 0) {
		writers = strtoull(argv[1] + strlen(option), NULL, 10);
		argc--;
		argv++;
	}
	kind = argc > 3 ? find_kind(argv[1], argc - 3) : NULL;
	if (!kind || writers < 1 || writers > (kind->divisible ? WRITERS_MAX : 1)) {
		fprintf(stderr, "usage: maketree [--writers=N] flat|wide|spread ROOT NUMBER...\n"
				"       maketree deep|source|large ROOT NUMBER...\n");
		return 2;
	}
	r = build(kind, writers, argv[2], argv + 3);
	if (r < 0) {
		fprintf(stderr, "maketree: %s: %s\n", argv[2], strerror(-r));
		return 1;
	}
	return 0;
}
