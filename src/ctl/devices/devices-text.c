/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sensors say, for people: a line for the path, a table of its devices, then a label and
 * what belongs to it per line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device-snapshot.h"
#include "ctl/output/messages.h"
#include "base/units.h"

#define LATENCY_SIZE 24
#define KIND_SIZE 64

/* What each of n operations took on average: "-" without any. */
static char *mean_format(char *buf, uint64_t n, uint64_t total_usec)
{
	double usec = n > 0 ? (double)total_usec / (double)n : 0;

	if (n == 0)
		(void)snprintf(buf, LATENCY_SIZE, "-");
	else if (usec < 1000)
		(void)snprintf(buf, LATENCY_SIZE, "%.0fus", usec);
	else if (usec < 1e6)
		(void)snprintf(buf, LATENCY_SIZE, "%.*fms", usec < 1e4, usec / 1e3);
	else
		(void)snprintf(buf, LATENCY_SIZE, "%.1fs", usec / 1e6);
	return buf;
}

static char *kind_format(char *buf, const json_t *device)
{
	(void)snprintf(buf, KIND_SIZE, "%s%s%s",
		       json_is_true(json_object_get(device, "rotating")) ? "rotating" : "solid",
		       json_number(device, "discard_max_bytes") > 0 ? ", discard" : "",
		       json_is_true(json_object_get(device, "whole_disk")) ? ", whole disk" : "");
	return buf;
}

/* The first line of a device has its name and kind, the others, behind so many columns, blanks. */
static void counters_print(const json_t *device, int indent)
{
	static const char *const names[] = { "read", "write", "flush", "discard" };
	const json_t *boot = json_object_get(device, "boot"), *now = json_object_get(device, "now");
	char n[28], mean[LATENCY_SIZE];

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		const json_t *all = json_object_get(boot, names[i]);
		const json_t *span = json_object_get(now, names[i]);

		if (!json_is_object(all))
			continue;
		(void)printf("%*s%-9s %13s %8s", i > 0 ? indent : 0, "", names[i],
			     count_format(n, sizeof(n), json_number(all, "count")),
			     mean_format(mean, json_number(all, "count"),
					 json_number(all, "total_msec") * USEC_PER_MSEC));
		if (span)
			(void)printf(" %9s %8s",
				     count_format(n, sizeof(n), json_number(span, "count")),
				     mean_format(mean, json_number(span, "count"),
						 json_number(span, "total_msec") * USEC_PER_MSEC));
		(void)putchar('\n');
	}
	(void)printf("%*s%-9s %13s\n", indent, "", "in flight",
		     count_format(n, sizeof(n), json_number(boot, "in_flight")));
}

static void disks_print(const json_t *devices, uint64_t span_usec)
{
	int name = (int)strlen("DEVICE"), kind = (int)strlen("KIND");
	char text[KIND_SIZE], span[32], column[40];
	const json_t *d;
	size_t i;

	json_array_foreach(devices, i, d) {
		name = MAX(name, (int)strlen(json_text(d, "name")));
		kind = MAX(kind, (int)strlen(kind_format(text, d)));
	}
	(void)printf("%-*s %-*s %-9s %13s %8s", name, "DEVICE", kind, "KIND", "OPERATION",
		     "SINCE BOOT", "MEAN");
	(void)snprintf(column, sizeof(column), "IN %s",
		       timespan_format(span, sizeof(span), span_usec));
	if (span_usec > 0)
		(void)printf(" %9s %8s", column, "MEAN");
	(void)putchar('\n');
	json_array_foreach(devices, i, d) {
		(void)printf("%-*s %-*s ", name, json_text(d, "name"), kind, kind_format(text, d));
		if (!json_is_object(json_object_get(d, "boot")))
			(void)puts("no counters: the time of each step itself is used instead");
		else if (!json_is_true(json_object_get(d, "counts")))
			(void)puts("counts nothing (queue/iostats is 0): the time of each step "
				   "itself is used instead");
		else
			counters_print(d, name + kind + 2);
	}
}

static void commits_print(const json_t *c)
{
	const json_t *now = json_object_get(c, "now");
	char n[28], mean[LATENCY_SIZE];

	if (!json_is_object(c)) {
		(void)puts(" Commits: not counted by this filesystem");
		return;
	}
	(void)printf(" Commits: %s%s since it was mounted",
		     count_format(n, sizeof(n), json_number(c, "count")),
		     strcmp(json_text(c, "kind"), "xfs") == 0 ? " forces of the log" : "");
	if (json_is_integer(json_object_get(c, "total_usec")))
		(void)printf(", %s on average", mean_format(mean, json_number(c, "count"),
							    json_number(c, "total_usec")));
	if (json_is_integer(json_object_get(c, "recent_usec")))
		(void)printf(", lately %s", mean_format(mean, json_number(c, "count") > 0,
							json_number(c, "recent_usec")));
	if (json_is_object(now))
		(void)printf(", %" PRIu64 " just now", json_number(now, "count"));
	(void)putchar('\n');
}

static void discards_print(const json_t *setup)
{
	const char *fstab = json_text(setup, "fstab");
	char now[256], advice[160];

	if (!json_is_object(setup))
		return;
	discard_setup_texts(setup, now, sizeof(now), advice, sizeof(advice));
	(void)printf("Discards: %s\n", now);
	if (advice[0])
		(void)printf("          %s\n", advice);
	if (fstab[0])
		(void)printf("          %s\n", fstab);
}

void device_snapshot_print(const json_t *l)
{
	const json_t *filesystem = json_object_get(l, "filesystem");
	const json_t *devices = json_object_get(l, "devices");
	const json_t *pressure = json_object_get(l, "pressure");
	const json_t *now = json_object_get(pressure, "now");
	const char *type = json_text(filesystem, "type"),
		   *upper = json_text(filesystem, "upper_type");
	uint64_t span_usec = json_number(l, "span_usec");

	(void)printf("%s: %s%s%s", json_text(l, "path"), type[0] ? type : "filesystem",
		     upper[0] ? " over " : "", upper);
	if (json_text(l, "none")[0]) {
		(void)printf(", %s: the time of each step itself is used instead of a device's\n",
			     json_text(l, "none"));
		return;
	}
	(void)printf(", device set %s\n", json_text(l, "key"));
	disks_print(devices, span_usec);
	if (json_array_size(devices) > 0)
		commits_print(json_object_get(l, "commits"));
	discards_print(json_object_get(l, "discard_setup"));
	if (!json_is_object(pressure))
		(void)puts("Pressure: not measured by this kernel");
	else if (json_is_object(now))
		(void)printf("Pressure: some task waited for I/O %.1f%% of the time, all did "
			     "%.1f%%\n",
			     100 * (double)json_number(now, "some_usec") / (double)span_usec,
			     100 * (double)json_number(now, "full_usec") / (double)span_usec);
}
