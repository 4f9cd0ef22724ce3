/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "commit-sensor.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"

/* "1234 transactions (1200 requested), each up to 8192 blocks", and further down "  2713us average
 * transaction commit time", which is missing before the first one. */
static bool jbd2_parse(const char *text, struct commit_sample *c)
{
	const char *mean = strstr(text, "us average transaction commit time");
	int end = 0;

	while (mean && mean > text && isdigit((unsigned char)mean[-1]))
		mean--;
	c->recent_usec = mean ? strtoull(mean, NULL, 10) : 0;
	return sscanf(text, "%" SCNu64 " transactions%n", &c->commits, &end) == 1 && end > 0;
}

/* The columns of its "log" line, of which the third is not asked for: fs/xfs/xfs_stats.h. */
static bool xfs_parse(const char *text, struct commit_sample *c)
{
	const char *line = strstr(text, "\nlog ");
	uint64_t sleeps;

	return line && sscanf(line, "\nlog %" SCNu64 " %" SCNu64 " %*u %" SCNu64 " %" SCNu64,
			      &c->log_writes, &c->log_sectors, &c->commits, &sleeps) == 4;
}

static bool btrfs_parse(const char *text, struct commit_sample *c)
{
	const struct {
		const char *label;
		uint64_t *to, unit;
	} lines[] = {
		{ "commits ", &c->commits, 1 },
		{ "last_commit_ms ", &c->recent_usec, USEC_PER_MSEC },
		{ "max_commit_ms ", &c->max_usec, USEC_PER_MSEC },
		{ "total_commit_ms ", &c->total_usec, USEC_PER_MSEC },
	};

	for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
		const char *line = strstr(text, lines[i].label);

		if (!line || sscanf(line + strlen(lines[i].label), "%" SCNu64, lines[i].to) != 1)
			return false;
		*lines[i].to *= lines[i].unit;
	}
	return true;
}

static const struct {
	const char *name;
	bool (*parse)(const char *text, struct commit_sample *c);
} kinds[] = {
	[COMMIT_NONE] = { "none", NULL },
	[COMMIT_JBD2] = { "jbd2", jbd2_parse },
	[COMMIT_XFS] = { "xfs", xfs_parse },
	[COMMIT_BTRFS] = { "btrfs", btrfs_parse },
};

int commit_sample(enum commit_kind kind, const char *path, struct commit_sample *ret)
{
	_cleanup_free_ char *text = NULL;
	struct commit_sample c = { 0 };
	ssize_t r;

	if (kind == COMMIT_NONE)
		return -EINVAL;
	/* Opened each time: jbd2 shows what was so when its file was opened. */
	r = fd_read_file(path, KiB(64), &text);
	if (r < 0)
		return (int)r;
	if (!kinds[kind].parse(text, &c))
		return -EBADMSG;
	*ret = c;
	return 0;
}

const char *commit_kind_name(enum commit_kind kind)
{
	return kinds[kind].name;
}
