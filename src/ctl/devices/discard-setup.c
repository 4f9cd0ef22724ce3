/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-setup.h"

#include <stdio.h>
#include <string.h>

#include "base/mounts.h"
#include "base/units.h"
#include "ctl/output/messages.h"
#include "pacing/sensors/disk-sensor.h"

/* Of less the kernel's milliseconds tell little. */
#define COST_OF MiB(4)
#define SECTOR 512

static bool is_btrfs(const char *type)
{
	return type && strcmp(type, "btrfs") == 0;
}

static enum discard_mode mode_of(const char *type, const char *options)
{
	if (mount_option(options, "discard=async"))
		return DISCARD_ASYNCHRONOUS;
	if (!mount_option(options, "discard") && !mount_option(options, "discard=sync"))
		return DISCARD_NONE;
	/* A f2fs collects them, and issues them when the device is idle. */
	return type && strcmp(type, "f2fs") == 0 ? DISCARD_ASYNCHRONOUS : DISCARD_ONLINE;
}

/* As docs/discard.md says. */
static bool gentlest_of(const char *type, enum discard_mode *ret)
{
	static const char *const by_trims[] = { "ext2", "ext3", "ext4", "xfs" };

	*ret = DISCARD_NONE;
	if (is_btrfs(type)) {
		*ret = DISCARD_ASYNCHRONOUS;
		return true;
	}
	for (size_t i = 0; type && i < ELEMENTSOF(by_trims); i++)
		if (strcmp(type, by_trims[i]) == 0)
			return true;
	return false;
}

/* What a MiB has taken since the device appeared; below 0: not known. */
static double usec_per_mib(dev_t dev)
{
	struct disk_sample counted = { 0 };
	struct disk_sensor sensor;

	if (disk_sensor_open(&sensor, "/sys", dev) < 0)
		return -1;
	if (disk_sensor_sample(&sensor, &counted) < 0)
		counted = (struct disk_sample){ 0 };
	disk_sensor_close(&sensor);
	if (counted.discard_sectors * SECTOR < COST_OF)
		return -1;
	return (double)counted.discard_msec * USEC_PER_MSEC /
	       ((double)counted.discard_sectors * SECTOR / (double)MiB(1));
}

void discard_setup_find(struct discard_setup *ret, const char *type, const char *options,
			const char *source, const char *mount_point, const struct blockdevs *b)
{
	struct discard_setup s = { .mode = mode_of(type, options),
				   .possible = blockdevs_discard(b),
				   .usec_per_mib = -1 };
	size_t i = 0;

	while (i < b->n && !b->v[i].top)
		i++;
	if (i < b->n) {
		s.granularity_bytes = b->v[i].discard_granularity;
		s.max_bytes = b->v[i].discard_max_bytes;
		s.usec_per_mib = usec_per_mib(b->v[i].dev);
	}
	s.is_known = s.possible && gentlest_of(type, &s.gentlest);
	if (s.is_known && s.mode != s.gentlest && source && mount_point)
		(void)snprintf(s.fstab, sizeof(s.fstab), "%s  %s  %s  defaults,%s  0 %d", source,
			       mount_point, type,
			       s.gentlest == DISCARD_NONE ? "nodiscard" : "discard=async",
			       is_btrfs(type) || strcmp(type, "xfs") == 0 ? 0 : 2);
	*ret = s;
}

static const char *mode_name(enum discard_mode m)
{
	static const char *const names[] = { [DISCARD_NONE] = "none",
					     [DISCARD_ONLINE] = "online",
					     [DISCARD_ASYNCHRONOUS] = "asynchronous" };

	return names[m];
}

json_t *discard_setup_json(const struct discard_setup *s)
{
	return json_pack("{sssbsosIsIsoso}", "mode", mode_name(s->mode), "possible",
			 (int)s->possible, "gentlest",
			 s->is_known ? json_string(mode_name(s->gentlest)) : json_null(),
			 "granularity_bytes", (json_int_t)s->granularity_bytes, "max_bytes",
			 (json_int_t)s->max_bytes, "usec_per_mib",
			 s->usec_per_mib >= 0 ? json_real(s->usec_per_mib) : json_null(), "fstab",
			 s->fstab[0] ? json_path(s->fstab) : json_null());
}

static const char *mode_words(const char *mode)
{
	if (strcmp(mode, "online") == 0)
		return "online: with the commit that follows each deletion";
	if (strcmp(mode, "asynchronous") == 0)
		return "asynchronous: some time after each deletion";
	return "none: what is freed is discarded by a trim";
}

/* Formats the mean time of a discard per MiB since boot. */
static void cost_words(const json_t *setup, char *buf, size_t len)
{
	const json_t *mean = json_object_get(setup, "usec_per_mib");

	if (json_is_real(mean))
		(void)snprintf(buf, len, "a MiB takes %.2fms", json_real_value(mean) / 1e3);
	else
		(void)snprintf(buf, len, "the time per MiB is not measured yet");
}

void discard_setup_texts(const json_t *setup, char *now, size_t now_size, char *advice,
			 size_t advice_size)
{
	const char *mode = json_text(setup, "mode"), *gentlest = json_text(setup, "gentlest");
	uint64_t granularity = json_number(setup, "granularity_bytes");
	char units[16], most[16], cost[120];

	*advice = '\0';
	if (!json_is_true(json_object_get(setup, "possible"))) {
		(void)snprintf(now, now_size, "the device does not: there is nothing to set up");
		return;
	}
	cost_words(setup, cost, sizeof(cost));
	(void)snprintf(now, now_size, "%s; up to %s at once, in units of %s; %s", mode_words(mode),
		       size_format(most, sizeof(most), json_number(setup, "max_bytes")),
		       size_format(units, sizeof(units), granularity), cost);
	if (strcmp(gentlest, "none") == 0)
		(void)snprintf(advice, advice_size,
			       "%s and trims by reclaimd (`trim: {schedule: weekly}`, "
			       "reclaimd.yaml(5)) spare other programs most",
			       strcmp(mode, "none") == 0 ? "this" : "nodiscard");
	else if (gentlest[0])
		(void)snprintf(advice, advice_size, "%s spares other programs most",
			       strcmp(mode, gentlest) == 0 ? "this" : "discard=async");
}
