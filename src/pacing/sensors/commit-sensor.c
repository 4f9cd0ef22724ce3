/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "commit-sensor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "figures.h"
#include "base/fd.h"

/* The columns of XFS's "log" line: fs/xfs/xfs_stats.h. */
enum { XFS_LOG_WRITES, XFS_LOG_BLOCKS, XFS_LOG_NOICLOGS, XFS_LOG_FORCE, XFS_LOG_FORCE_SLEEP };
#define XFS_LOG_COLUMNS (XFS_LOG_FORCE_SLEEP + 1)

/* "1234 transactions (1200 requested), each up to 8192 blocks", and further down "  2713us average
 * transaction commit time", which is missing before the first one. */
static int jbd2_parse(const char *text, struct commit_sample *c)
{
	const char *mean = strstr(text, "us average transaction commit time");
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EBADMSG;
	c->commits = strtoull(text, &end, 10);
	if (strncmp(end, " transactions", strlen(" transactions")) != 0)
		return -EBADMSG;
	while (mean && mean > text && isdigit((unsigned char)mean[-1]))
		mean--;
	c->recent_usec = mean ? strtoull(mean, NULL, 10) : 0;
	return 0;
}

static int xfs_parse(const char *text, struct commit_sample *c)
{
	const char *line = strncmp(text, "log ", 4) == 0 ? text : strstr(text, "\nlog ");
	uint64_t v[XFS_LOG_COLUMNS];

	if (!line)
		return -EBADMSG;
	line += line[0] == '\n';
	if (figures_row(line + strlen("log"), v, XFS_LOG_COLUMNS) < XFS_LOG_COLUMNS)
		return -EBADMSG;
	c->commits = v[XFS_LOG_FORCE];
	c->log_writes = v[XFS_LOG_WRITES];
	c->log_sectors = v[XFS_LOG_BLOCKS];
	c->log_waits = v[XFS_LOG_FORCE_SLEEP];
	return 0;
}

static int btrfs_parse(const char *text, struct commit_sample *c)
{
	uint64_t last, longest, total, current = 0;

	if (!figures_labelled(text, "commits", &c->commits) ||
	    !figures_labelled(text, "last_commit_ms", &last) ||
	    !figures_labelled(text, "max_commit_ms", &longest) ||
	    !figures_labelled(text, "total_commit_ms", &total))
		return -EBADMSG;
	(void)figures_labelled(text, "cur_commit_ms", &current);
	c->recent_usec = last * USEC_PER_MSEC;
	c->max_usec = longest * USEC_PER_MSEC;
	c->total_usec = total * USEC_PER_MSEC;
	c->current_usec = current * USEC_PER_MSEC;
	return 0;
}

static int parse(enum commit_kind kind, const char *text, struct commit_sample *ret)
{
	switch (kind) {
	case COMMIT_JBD2:
		return jbd2_parse(text, ret);
	case COMMIT_XFS:
		return xfs_parse(text, ret);
	case COMMIT_BTRFS:
		return btrfs_parse(text, ret);
	case COMMIT_NONE:
		break;
	}
	return -EINVAL;
}

/* Opens the pinned file anew: jbd2 shows what was so when its file was opened. */
static int reopen(int fd)
{
	char link[sizeof("/proc/self/fd/") + 12];
	int r;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	r = open(link, O_RDONLY | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static int text_read(const struct commit_sensor *s, char *buf, size_t size)
{
	_cleanup_close_ int fd = reopen(s->fd);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = figures_read(fd, buf, size);
	return n < 0 ? (int)n : 0;
}

int commit_sensor_sample(struct commit_sensor *s, struct commit_sample *ret)
{
	struct commit_sample c = { 0 };
	char buf[FIGURES_SIZE];
	int r = text_read(s, buf, sizeof(buf));

	if (r >= 0)
		r = parse(s->kind, buf, &c);
	if (r >= 0)
		*ret = c;
	return r;
}

int commit_sensor_open(struct commit_sensor *s, enum commit_kind kind, const char *path)
{
	struct commit_sensor v = { .kind = kind, .fd = -1 };
	struct commit_sample first;
	char buf[FIGURES_SIZE];
	int r;

	if (kind == COMMIT_NONE)
		return -EINVAL;
	v.fd = open(path, O_PATH | O_CLOEXEC);
	if (v.fd < 0)
		return -errno;
	r = text_read(&v, buf, sizeof(buf));
	if (r >= 0)
		r = parse(kind, buf, &first);
	if (r < 0) {
		commit_sensor_close(&v);
		return r;
	}
	v.has_recent = kind != COMMIT_XFS;
	v.has_total = kind == COMMIT_BTRFS;
	v.has_current = kind == COMMIT_BTRFS && strstr(buf, "cur_commit_ms");
	*s = v;
	return 0;
}

void commit_sensor_close(struct commit_sensor *s)
{
	fd_closep(&s->fd);
}

const char *commit_kind_name(enum commit_kind kind)
{
	static const char *const names[] = {
		[COMMIT_NONE] = "none",
		[COMMIT_JBD2] = "jbd2",
		[COMMIT_XFS] = "xfs",
		[COMMIT_BTRFS] = "btrfs",
	};

	return names[kind];
}
