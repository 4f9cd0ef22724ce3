/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device-snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mounts.h"

#define PRESSURE "/proc/pressure/io"

static dev_t number(const struct snapshot_disk *d)
{
	return d->whole ? d->of->disk : d->of->dev;
}

static void disk_add(struct device_snapshot *l, const struct blockdev *of, bool whole)
{
	struct snapshot_disk *d = &l->disks[l->n_disks];

	*d = (struct snapshot_disk){ .of = of, .whole = whole };
	for (size_t i = 0; i < l->n_disks; i++)
		if (number(&l->disks[i]) == number(d))
			return;
	d->present = disk_sensor_open(&d->sensor, "/sys", number(d)) >= 0;
	if (d->present) {
		d->present = disk_sensor_sample(&d->sensor, &d->boot) >= 0;
		d->before = d->boot;
		if (!d->present)
			disk_sensor_close(&d->sensor);
	}
	l->n_disks++;
}

/* Each device, and the disk of each partition once. */
static int disks_add(struct device_snapshot *l)
{
	const struct blockdevs *b = &l->d.b;

	l->disks = calloc(2 * b->n + 1, sizeof(l->disks[0]));
	if (!l->disks)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++) {
		disk_add(l, &b->v[i], false);
		if (b->v[i].disk != b->v[i].dev)
			disk_add(l, &b->v[i], true);
	}
	return 0;
}

/* What cannot be seen of its mount is left out. */
static void discards_find(struct device_snapshot *l, int fd)
{
	_cleanup_free_ char *options = NULL;
	struct mounts mounts = { 0 };
	const struct mount *m = NULL;
	uint64_t id;

	if (mounts_read(&mounts, "/proc/self/mountinfo") >= 0 && fd_mount_id(fd, &id) >= 0)
		m = mounts_by_id(&mounts, id);
	options = m ? mount_all_options(m) : NULL;
	discard_setup_find(&l->discards, m ? m->type : NULL, options, m ? m->source : NULL,
			   m ? m->target : NULL, &l->d.b);
	l->mount = m ? strdup(m->target) : NULL;
	mounts_done(&mounts);
}

static int devices_of(struct device_snapshot *l, const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISBLK(st.st_mode))
		return -ENOTBLK;
	r = devices_find(&l->d, "/sys", "/proc", fd);
	if (r >= 0)
		discards_find(l, fd);
	return r;
}

int device_snapshot_begin(struct device_snapshot *l, const char *path)
{
	int r;

	*l = (struct device_snapshot){ .path = path };
	r = devices_of(l, path);
	if (r >= 0)
		r = disks_add(l);
	if (r < 0)
		return r;
	l->has_commits = commit_sample(l->d.commit_kind, l->d.commit_path, &l->commits) >= 0;
	l->commits_before = l->commits;
	l->has_pressure = pressure_sample(PRESSURE, &l->pressure) >= 0;
	l->pressure_before = l->pressure;
	l->began_usec = now_usec();
	return 0;
}

void device_snapshot_update(struct device_snapshot *l)
{
	for (size_t i = 0; i < l->n_disks; i++) {
		struct snapshot_disk *d = &l->disks[i];

		/* One that is gone by now, as a loop device may be, shows nothing new. */
		if (d->present && disk_sensor_sample(&d->sensor, &d->boot) >= 0)
			disk_sample_since(&d->boot, &d->before, &d->span);
	}
	if (l->has_commits)
		(void)commit_sample(l->d.commit_kind, l->d.commit_path, &l->commits);
	if (l->has_pressure)
		(void)pressure_sample(PRESSURE, &l->pressure);
	l->span_usec = now_usec() - l->began_usec;
}

void device_snapshot_done(struct device_snapshot *l)
{
	for (size_t i = 0; i < l->n_disks; i++)
		if (l->disks[i].present)
			disk_sensor_close(&l->disks[i].sensor);
	devices_done(&l->d);
	free(l->disks);
	free(l->mount);
}
