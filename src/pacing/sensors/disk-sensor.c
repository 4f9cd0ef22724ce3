/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "disk-sensor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "figures.h"
#include "base/fd.h"

/* Fields of the file: since ever, with discards, with flushes. */
#define FIELDS_LEAST 11
#define FIELDS_DISCARD 15
#define FIELDS_FLUSH 17

static ssize_t fields_read(int fd, uint64_t v[FIELDS_FLUSH])
{
	char buf[FIGURES_SIZE];
	ssize_t n = figures_read(fd, buf, sizeof(buf));

	if (n < 0)
		return n;
	memset(v, 0, FIELDS_FLUSH * sizeof(v[0]));
	n = figures_row(buf, v, FIELDS_FLUSH);
	return n >= 0 && n < FIELDS_LEAST ? -EBADMSG : n;
}

/* Opens NAME/queue/iostats in the directory of the file of counters; a partition has it in that of
 * its disk, one up. Returns -1 where there is none. */
static int iostats_open(const char *path)
{
	static const char *const places[] = { "queue/iostats", "../queue/iostats" };
	const char *slash = strrchr(path, '/');
	int dir_len = slash ? (int)(slash - path) : 1;

	for (size_t i = 0; i < ELEMENTSOF(places); i++) {
		_cleanup_free_ char *file = NULL;
		int fd;

		if (asprintf(&file, "%.*s/%s", dir_len, slash ? path : ".", places[i]) < 0) {
			file = NULL;
			return -1;
		}
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

int disk_sensor_open(struct disk_sensor *s, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t v[FIELDS_FLUSH];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fields_read(fd, v);
	if (n < 0)
		return (int)n;
	*s = (struct disk_sensor){
		.iostats_fd = iostats_open(path),
		.has_discards = n >= FIELDS_DISCARD,
		.has_flushes = n >= FIELDS_FLUSH,
		.fd = fd_take(&fd),
	};
	return 0;
}

int disk_sensor_sample(struct disk_sensor *s, struct disk_sample *ret)
{
	uint64_t v[FIELDS_FLUSH];
	ssize_t n = fields_read(s->fd, v);

	if (n < 0)
		return (int)n;
	/* Fields 2 and 6 count merges, 11 is queue time of all kinds together. */
	*ret = (struct disk_sample){
		.reads = v[0],
		.read_sectors = v[2],
		.read_msec = v[3],
		.writes = v[4],
		.write_sectors = v[6],
		.write_msec = v[7],
		.in_flight = v[8],
		.busy_msec = v[9],
		.discards = v[11],
		.discard_sectors = v[13],
		.discard_msec = v[14],
		.flushes = v[15],
		.flush_msec = v[16],
	};
	return 0;
}

void disk_sensor_close(struct disk_sensor *s)
{
	fd_closep(&s->fd);
	fd_closep(&s->iostats_fd);
}

bool disk_sensor_counts(const struct disk_sensor *s)
{
	char buf[16];

	return s->iostats_fd < 0 || figures_read(s->iostats_fd, buf, sizeof(buf)) <= 0 ||
	       buf[0] != '0';
}

void disk_sample_add(struct disk_sample *sum, const struct disk_sample *other)
{
	sum->reads += other->reads;
	sum->read_sectors += other->read_sectors;
	sum->read_msec += other->read_msec;
	sum->writes += other->writes;
	sum->write_sectors += other->write_sectors;
	sum->write_msec += other->write_msec;
	sum->in_flight += other->in_flight;
	sum->busy_msec += other->busy_msec;
	sum->discards += other->discards;
	sum->discard_sectors += other->discard_sectors;
	sum->discard_msec += other->discard_msec;
	sum->flushes += other->flushes;
	sum->flush_msec += other->flush_msec;
}

/* A count that went backwards is another device's. */
static uint64_t counted(uint64_t now, uint64_t then, bool *broken)
{
	*broken |= now < then;
	return now - then;
}

/* The kernel keeps times in 32 bits, which a queue of 32 requests fills in a day and a half. */
static uint64_t timed(uint64_t now, uint64_t then, bool *broken)
{
	if (now < then)
		now += 1ULL << 32;
	return counted(now, then, broken);
}

void disk_sample_since(const struct disk_sample *now, const struct disk_sample *then,
		       struct disk_sample *ret)
{
	bool broken = false;
	struct disk_sample d = {
		.reads = counted(now->reads, then->reads, &broken),
		.read_sectors = counted(now->read_sectors, then->read_sectors, &broken),
		.read_msec = timed(now->read_msec, then->read_msec, &broken),
		.writes = counted(now->writes, then->writes, &broken),
		.write_sectors = counted(now->write_sectors, then->write_sectors, &broken),
		.write_msec = timed(now->write_msec, then->write_msec, &broken),
		.in_flight = now->in_flight,
		.busy_msec = timed(now->busy_msec, then->busy_msec, &broken),
		.discards = counted(now->discards, then->discards, &broken),
		.discard_sectors = counted(now->discard_sectors, then->discard_sectors, &broken),
		.discard_msec = timed(now->discard_msec, then->discard_msec, &broken),
		.flushes = counted(now->flushes, then->flushes, &broken),
		.flush_msec = timed(now->flush_msec, then->flush_msec, &broken),
	};

	*ret = broken ? (struct disk_sample){ 0 } : d;
}
