/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pressure-sensor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "figures.h"
#include "base/fd.h"

/* So much waiting, within so long. Without privilege the kernel would accept windows of two
 * seconds, but checks these only as it updates its averages; and as reading the sums updates
 * them, too, the trigger of a process that reads often hardly ever fires. */
#define STALL_USEC 20000
#define WINDOW_USEC 1000000
#define STRING(x) #x
#define TRIGGER(stall, window) "some " STRING(stall) " " STRING(window)

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=359835386" */
static bool total_find(const char *text, const char *label, uint64_t *ret)
{
	const char *line = strstr(text, label), *total = line ? strstr(line, "total=") : NULL;
	char *end;

	if (!total || memchr(line, '\n', (size_t)(total - line)))
		return false;
	total += strlen("total=");
	*ret = strtoull(total, &end, 10);
	return end != total;
}

static int sums_read(int fd, struct pressure_sample *p)
{
	char buf[FIGURES_SIZE];
	ssize_t n = figures_read(fd, buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	if (!total_find(buf, "some ", &p->some_usec) || !total_find(buf, "full ", &p->full_usec))
		return -EBADMSG;
	return 0;
}

/* A trigger is written into the file: only into one of the kernel's. */
static bool takes_triggers(int fd)
{
	struct statfs sfs;

	return fstatfs(fd, &sfs) == 0 &&
	       (sfs.f_type == PROC_SUPER_MAGIC || sfs.f_type == CGROUP2_SUPER_MAGIC);
}

static bool trigger_set(int fd)
{
	static const char trigger[] = TRIGGER(STALL_USEC, WINDOW_USEC);

	return write(fd, trigger, sizeof(trigger)) >= 0;
}

/* Opens the file with a trigger. Returns the descriptor or a negative errno. */
static int open_with_trigger(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (!takes_triggers(fd) || !trigger_set(fd))
		return -EPERM;
	return fd_take(&fd);
}

int pressure_sensor_open(struct pressure_sensor *s, const char *path)
{
	_cleanup_close_ int fd = open_with_trigger(path);
	struct pressure_sample first;
	bool has_trigger = fd >= 0;
	int r;

	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = sums_read(fd, &first);
	if (r < 0)
		return r;
	*s = (struct pressure_sensor){
		.has_trigger = has_trigger,
		.window_usec = now_usec(),
		.window_some_usec = first.some_usec,
		.fd = fd_take(&fd),
	};
	return 0;
}

/* The kernel forgets the event as it is told: each is seen once. */
static bool has_fired(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLPRI) && !(p.revents & POLLERR);
}

/* Does what the kernel's trigger does, as often as it is asked. */
static bool has_grown(struct pressure_sensor *s, uint64_t some_usec)
{
	uint64_t now = now_usec(), elapsed = now - s->window_usec;
	/* Smaller than before: another file's. */
	uint64_t stalled = some_usec - MIN(some_usec, s->window_some_usec);
	bool grown = stalled / STALL_USEC >= MAX(elapsed / WINDOW_USEC, 1);

	if (grown || elapsed >= WINDOW_USEC) {
		s->window_usec = now;
		s->window_some_usec = some_usec;
	}
	return grown;
}

int pressure_sensor_sample(struct pressure_sensor *s, struct pressure_sample *ret)
{
	struct pressure_sample v = { 0 };
	int r = sums_read(s->fd, &v);

	if (r < 0)
		return r;
	v.triggered = s->has_trigger ? has_fired(s->fd) : has_grown(s, v.some_usec);
	*ret = v;
	return 0;
}

void pressure_sensor_close(struct pressure_sensor *s)
{
	fd_closep(&s->fd);
}
