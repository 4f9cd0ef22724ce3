/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "disk-sensor.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "base/macros.h"

/* The number of a column, counted from 0. */
#define COLUMN(member) (offsetof(struct disk_sample, member) / sizeof(uint64_t))
#define COLUMNS (sizeof(struct disk_sample) / sizeof(uint64_t))

/* Returns how many columns there are, or a negative errno. */
static int columns_read(int fd, struct disk_sample *ret)
{
	_cleanup_free_ char *text = NULL;
	uint64_t v[COLUMNS] = { 0 };
	ssize_t r = fd_read_all(fd, KiB(4), &text);
	char *at = text, *end;
	size_t n = 0;

	if (r < 0)
		return (int)r;
	for (; n < COLUMNS; n++, at = end) {
		v[n] = strtoull(at, &end, 10);
		if (end == at)
			break;
	}
	/* The oldest kernels end there. */
	if (n <= COLUMN(queue_msec) || (n < COLUMNS && at[strspn(at, " \n")] != '\0'))
		return -EBADMSG;
	memcpy(ret, v, sizeof(*ret));
	return (int)n;
}

int disk_sensor_open(struct disk_sensor *s, const char *sys, dev_t dev)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct disk_sample first;
	int n;

	if (asprintf(&path, "%s/dev/block/%u:%u/stat", sys, major(dev), minor(dev)) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -errno : columns_read(fd, &first);
	if (n < 0)
		return n;
	*s = (struct disk_sensor){ .has_discards = n > (int)COLUMN(discard_msec),
				   .has_flushes = n > (int)COLUMN(flush_msec),
				   .fd = fd_take(&fd) };
	return 0;
}

int disk_sensor_sample(const struct disk_sensor *s, struct disk_sample *ret)
{
	int n = columns_read(s->fd, ret);

	return n < 0 ? n : 0;
}

void disk_sensor_close(struct disk_sensor *s)
{
	fd_closep(&s->fd);
}

void disk_sample_add(struct disk_sample *sum, const struct disk_sample *other)
{
	const uint64_t *from = (const uint64_t *)other;
	uint64_t *to = (uint64_t *)sum;

	for (size_t i = 0; i < COLUMNS; i++)
		to[i] += from[i];
}

void disk_sample_since(const struct disk_sample *now, const struct disk_sample *then,
		       struct disk_sample *ret)
{
	/* The kernel keeps these in 32 bits: a queue of 32 requests fills them in 37 hours. */
	static const bool is_time[COLUMNS] = {
		[COLUMN(read_msec)] = true,    [COLUMN(write_msec)] = true,
		[COLUMN(busy_msec)] = true,    [COLUMN(queue_msec)] = true,
		[COLUMN(discard_msec)] = true, [COLUMN(flush_msec)] = true,
	};
	const uint64_t *to = (const uint64_t *)now, *from = (const uint64_t *)then;
	uint64_t v[COLUMNS];

	for (size_t i = 0; i < COLUMNS; i++) {
		uint64_t end = to[i] + (is_time[i] && to[i] < from[i] ? 1ULL << 32 : 0);

		/* A count that went backwards is another device's. */
		if (i != COLUMN(in_flight) && end < from[i]) {
			*ret = (struct disk_sample){ 0 };
			return;
		}
		v[i] = i == COLUMN(in_flight) ? end : end - from[i];
	}
	memcpy(ret, v, sizeof(*ret));
}
