/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors say, for people: a line for the path, a table of its devices, then a label and
 * what belongs to it per line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device-snapshot.h"
#include "base/escape.h"
#include "base/macros.h"
#include "base/units.h"

#define LATENCY_SIZE 24

/* One kind of operation on one device. */
struct operation {
	const char *name;
	uint64_t count, msec;           /* since the device appeared */
	uint64_t span_count, span_msec; /* between the two samples */
};

/* Widths of the columns that hold names. */
struct widths {
	int device, kind;
};

/* What each of n operations took on average: "-" without any. */
static char *mean_format(char *buf, size_t len, uint64_t n, uint64_t total_usec)
{
	double usec = n > 0 ? (double)total_usec / (double)n : 0;

	if (n == 0)
		(void)snprintf(buf, len, "-");
	else if (usec < 1000)
		(void)snprintf(buf, len, "%.0fus", usec);
	else if (usec < 1e4)
		(void)snprintf(buf, len, "%.1fms", usec / 1e3);
	else if (usec < 1e6)
		(void)snprintf(buf, len, "%.0fms", usec / 1e3);
	else
		(void)snprintf(buf, len, "%.1fs", usec / 1e6);
	return buf;
}

static const char *kind_words(const struct snapshot_disk *d, char *buf, size_t len)
{
	const struct blockdev *of = d->of;

	(void)snprintf(buf, len, "%s%s%s", of->rotating ? "rotating" : "solid",
		       of->discard_max_bytes > 0 ? ", discard" : "",
		       d->whole ? ", whole disk" : "");
	return buf;
}

static void print_operation(const struct device_snapshot *l, const struct operation *op)
{
	char n[28], mean[LATENCY_SIZE];

	(void)printf("%-9s %13s %8s", op->name, count_format(n, sizeof(n), op->count),
		     mean_format(mean, sizeof(mean), op->count, op->msec * USEC_PER_MSEC));
	if (l->span_usec > 0)
		(void)printf(" %9s %8s", count_format(n, sizeof(n), op->span_count),
			     mean_format(mean, sizeof(mean), op->span_count,
					 op->span_msec * USEC_PER_MSEC));
	(void)putchar('\n');
}

static void print_in_flight(const struct snapshot_disk *d)
{
	char n[28];

	(void)printf("%-9s %13s\n", "in flight", count_format(n, sizeof(n), d->boot.in_flight));
}

/* The first line of a device has its name and kind, the others only as many blanks. */
static void print_head(const struct widths *w, const char *device, const char *kind)
{
	(void)printf("%-*s %-*s ", w->device, device, w->kind, kind);
}

static void print_counters(const struct device_snapshot *l, const struct snapshot_disk *d,
			   const struct widths *w)
{
	const struct disk_sample *b = &d->boot, *s = &d->span;
	const struct operation ops[] = {
		{ "read", b->reads, b->read_msec, s->reads, s->read_msec },
		{ "write", b->writes, b->write_msec, s->writes, s->write_msec },
		{ "flush", b->flushes, b->flush_msec, s->flushes, s->flush_msec },
		{ "discard", b->discards, b->discard_msec, s->discards, s->discard_msec },
	};
	const bool has[ELEMENTSOF(ops)] = { true, true, d->sensor.has_flushes,
					    d->sensor.has_discards };

	for (size_t i = 0; i < ELEMENTSOF(ops); i++) {
		if (!has[i])
			continue;
		if (i > 0)
			print_head(w, "", "");
		print_operation(l, &ops[i]);
	}
	print_head(w, "", "");
	print_in_flight(d);
}

static void print_disk(const struct device_snapshot *l, const struct snapshot_disk *d,
		       const struct widths *w)
{
	_cleanup_free_ char *name = escape_name(snapshot_disk_name(d));
	char kind[64];

	print_head(w, name ? name : "?", kind_words(d, kind, sizeof(kind)));
	if (!d->present)
		(void)puts("no counters: the time of each step itself is used instead");
	else if (!d->of->counts)
		(void)puts("counts nothing (queue/iostats is 0): the time of each step itself is "
			   "used instead");
	else
		print_counters(l, d, w);
}

static void widths_find(const struct device_snapshot *l, struct widths *w)
{
	*w = (struct widths){ .device = (int)strlen("DEVICE"), .kind = (int)strlen("KIND") };
	for (size_t i = 0; i < l->n_disks; i++) {
		char kind[64];

		w->device = MAX(w->device, (int)strlen(snapshot_disk_name(&l->disks[i])));
		(void)kind_words(&l->disks[i], kind, sizeof(kind));
		w->kind = MAX(w->kind, (int)strlen(kind));
	}
}

static void print_disks(const struct device_snapshot *l)
{
	char span[32], column[40];
	struct widths w;

	widths_find(l, &w);
	print_head(&w, "DEVICE", "KIND");
	(void)printf("%-9s %13s %8s", "OPERATION", "SINCE BOOT", "MEAN");
	(void)snprintf(column, sizeof(column), "IN %s",
		       timespan_format(span, sizeof(span), l->span_usec));
	if (l->span_usec > 0)
		(void)printf(" %9s %8s", column, "MEAN");
	(void)putchar('\n');
	for (size_t i = 0; i < l->n_disks; i++)
		print_disk(l, &l->disks[i], &w);
}

static void print_commits(const struct device_snapshot *l)
{
	const struct commit_sample *c = &l->commits;
	bool xfs = l->d.commit_kind == COMMIT_XFS;
	char n[28], mean[LATENCY_SIZE];

	if (l->d.b.n == 0)
		return;
	if (!l->has_commits) {
		(void)puts(" Commits: not counted by this filesystem");
		return;
	}
	(void)printf(" Commits: %s%s since it was mounted", count_format(n, sizeof(n), c->commits),
		     xfs ? " forces of the log" : "");
	if (l->d.commit_kind == COMMIT_BTRFS)
		(void)printf(", %s on average",
			     mean_format(mean, sizeof(mean), c->commits, c->total_usec));
	if (!xfs)
		(void)printf(", lately %s",
			     mean_format(mean, sizeof(mean), c->commits > 0, c->recent_usec));
	if (l->span_usec > 0)
		(void)printf(", %" PRIu64 " just now", device_snapshot_commits(l));
	(void)putchar('\n');
}

static void print_pressure(const struct device_snapshot *l)
{
	const struct pressure_sample *p = &l->pressure, *before = &l->pressure_before;
	double span = (double)l->span_usec;

	if (!l->has_pressure) {
		(void)puts("Pressure: not measured by this kernel");
		return;
	}
	if (l->span_usec == 0)
		return;
	(void)printf("Pressure: some task waited for I/O %.1f%% of the time, all did %.1f%%\n",
		     100 * (double)(p->some_usec - before->some_usec) / span,
		     100 * (double)(p->full_usec - before->full_usec) / span);
}

void device_snapshot_print(const struct device_snapshot *l)
{
	_cleanup_free_ char *path = escape_name(l->path);
	const char *type = l->d.type[0] ? l->d.type : "filesystem";

	(void)printf("%s: %s%s%s", path ? path : "?", type, l->d.upper_type[0] ? " over " : "",
		     l->d.upper_type);
	if (l->d.none) {
		(void)printf(", %s: the time of each step itself is used instead of a device's\n",
			     l->d.none);
		return;
	}
	(void)printf(", device set %s\n", l->d.key);
	print_disks(l);
	print_commits(l);
	print_pressure(l);
}
