/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * diskcopy save|restore DISK IMAGE - keep what is on a simulated disk, and bring it back.
 *
 * Every arm of a benchmark shall find the very same disk, and making the same filesystem again
 * takes many times as long as copying the little on it that is not zero. IMAGE is sparse. DISK is a
 * file or a device that can punch holes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define BLOCK_BYTES (1024 * 1024)
#define PAGE_BYTES 4096
#define N_THREADS 4

struct copy {
	int disk_fd;
	int image_fd;
	off_t size;
	_Atomic int64_t next; /* offset of the next block to be saved */
	_Atomic int error;
};

static bool is_zero(const char *data, size_t length)
{
	return data[0] == 0 && memcmp(data, data + 1, length - 1) == 0;
}

static int write_all(int fd, const char *data, size_t length, off_t offset)
{
	while (length > 0) {
		ssize_t n = pwrite(fd, data, length, offset);

		if (n < 0)
			return -errno;
		data += n;
		length -= (size_t)n;
		offset += n;
	}
	return 0;
}

static int save_pages(int image_fd, const char *data, size_t length, off_t offset)
{
	int r = 0;

	if (is_zero(data, length))
		return 0;
	for (size_t at = 0; r >= 0 && at < length; at += PAGE_BYTES) {
		size_t n = length - at < PAGE_BYTES ? length - at : PAGE_BYTES;

		if (!is_zero(data + at, n))
			r = write_all(image_fd, data + at, n, offset + (off_t)at);
	}
	return r;
}

static int save_blocks(struct copy *copy, char *block)
{
	for (;;) {
		off_t offset;
		ssize_t n;
		int r;

		offset = atomic_fetch_add(&copy->next, BLOCK_BYTES);
		if (offset >= copy->size || copy->error < 0)
			return 0;
		n = pread(copy->disk_fd, block, BLOCK_BYTES, offset);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		r = save_pages(copy->image_fd, block, (size_t)n, offset);
		if (r < 0)
			return r;
	}
}

static void *save_thread(void *userdata)
{
	struct copy *copy = userdata;
	char *block = aligned_alloc(PAGE_BYTES, BLOCK_BYTES);
	int r = block ? save_blocks(copy, block) : -ENOMEM;

	if (r < 0)
		copy->error = r;
	free(block);
	return NULL;
}

static int save(struct copy *copy)
{
	pthread_t threads[N_THREADS];

	if (ftruncate(copy->image_fd, 0) < 0 || ftruncate(copy->image_fd, copy->size) < 0)
		return -errno;
	for (int i = 0; i < N_THREADS; i++) {
		int r = pthread_create(&threads[i], NULL, save_thread, copy);

		if (r > 0) {
			fprintf(stderr, "diskcopy: no thread: %s\n", strerror(r));
			_exit(1);
		}
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	return copy->error;
}

static int restore_stretch(const struct copy *copy, char *block, off_t start, off_t end)
{
	while (start < end) {
		size_t want = end - start < BLOCK_BYTES ? (size_t)(end - start) : BLOCK_BYTES;
		ssize_t n = pread(copy->image_fd, block, want, start);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		r = write_all(copy->disk_fd, block, (size_t)n, start);
		if (r < 0)
			return r;
		start += n;
	}
	return 0;
}

static int restore_stretches(const struct copy *copy, char *block)
{
	off_t start, end = 0;

	while ((start = lseek(copy->image_fd, end, SEEK_DATA)) >= 0) {
		int r;

		end = lseek(copy->image_fd, start, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = restore_stretch(copy, block, start, end);
		if (r < 0)
			return r;
	}
	return errno == ENXIO ? 0 : -errno;
}

static int restore(struct copy *copy)
{
	char *block;
	int r;

	if (fallocate(copy->disk_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, copy->size) < 0)
		return -errno;
	block = aligned_alloc(PAGE_BYTES, BLOCK_BYTES);
	r = block ? restore_stretches(copy, block) : -ENOMEM;
	free(block);
	return r;
}

static int run(bool is_save, const char *disk, const char *image)
{
	struct copy copy = {
		.disk_fd = open(disk, O_RDWR | O_CLOEXEC),
		.image_fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
	};

	if (copy.disk_fd < 0 || copy.image_fd < 0)
		return -errno;
	copy.size = lseek(copy.disk_fd, 0, SEEK_END);
	if (copy.size < 0)
		return -errno;
	return is_save ? save(&copy) : restore(&copy);
}

int main(int argc, char **argv)
{
	bool is_save = argc == 4 && strcmp(argv[1], "save") == 0;
	int r;

	if (!is_save && (argc != 4 || strcmp(argv[1], "restore") != 0)) {
		fprintf(stderr, "usage: diskcopy save|restore DISK IMAGE\n");
		return 2;
	}
	r = run(is_save, argv[2], argv[3]);
	if (r < 0) {
		fprintf(stderr, "diskcopy: %s: %s\n", argv[2], strerror(-r));
		return 1;
	}
	return 0;
}
