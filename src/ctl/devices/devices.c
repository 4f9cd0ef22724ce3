/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl devices: which devices a path is on, and what the sensors that pacing uses measure on
 * them. Changes nothing.
 *
 * With --json, an array with one object for each PATH that could be read. Keys are only ever
 * added. Times are in the unit that their name ends with; null means not known.
 *
 *   path                  as given
 *   filesystem            {type, upper_type}: the latter of an overlay
 *   key                   jobs with the same key share a device
 *   none                  why there are no devices, or null
 *   span_usec             how long "now" was measured; 0: not at all, then every "now" is null
 *   devices               [{name, number, top, leaf, whole_disk, rotating, discard_max_bytes,
 *                         backing_file, counts, boot, now}]: boot and now are {read, write, flush,
 *                         discard: {count, bytes, total_msec}, busy_msec, in_flight}; flush has no
 *                         bytes; null: the kernel does not count it
 *   commits               {kind, count, recent_usec, total_usec, max_usec, log_writes, log_bytes,
 *                         now: {count}}, or null
 *   pressure              {some_usec, full_usec, now: {some_usec, full_usec}}, or null: of the
 *                         whole system
 *   discard_setup         {mode, possible, gentlest, granularity_bytes, max_bytes, usec_per_mib,
 *                         fstab}: mode and gentlest are none, online or
 *                         asynchronous, the latter null where it is not known; usec_per_mib: what a
 *                         discard has taken since boot, or null; fstab: a line that sets it, or
 *                         null; null without devices
 *   daemon                what a running reclaimd says of them while it deletes there: see
 *                         daemon-devices.h, without its key and name; or null
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon-devices.h"
#include "device-snapshot.h"
#include "ctl/output/messages.h"
#include "ctl/common/verbs.h"

static bool begin_one(struct device_snapshot *l, const char *path)
{
	int r = device_snapshot_begin(l, path);

	if (r >= 0)
		return true;
	device_snapshot_done(l);
	if (r == -ENOTBLK)
		complain(path, "is a block device: give a path on the filesystem that is on it");
	else
		complain(path[0] ? path : "''", "%s", strerror(-r));
	return false;
}

static json_t *of_daemon(json_t *devices, const char *key)
{
	/* Another PATH may be on the same ones. */
	json_t *d = json_copy(daemon_devices_find(devices, key));

	(void)json_object_del(d, "key");
	(void)json_object_del(d, "name");
	return d ? d : json_null();
}

static void print(const json_t *array)
{
	const json_t *v;
	size_t i;

	json_array_foreach(array, i, v) {
		if (i > 0)
			(void)putchar('\n');
		device_snapshot_print(v);
		if (json_is_object(json_object_get(v, "daemon")))
			daemon_device_print(json_object_get(v, "daemon"));
	}
}

int verb_devices(const struct options *o, struct client *c)
{
	size_t n_paths = MAX(o->n_paths, (size_t)1), n = 0;
	struct device_snapshot *snapshots = calloc(n_paths, sizeof(*snapshots));
	json_t *array = json_array(), *daemon = NULL;

	if (!snapshots)
		return client_broken(-ENOMEM);
	for (size_t i = 0; i < n_paths; i++)
		n += begin_one(&snapshots[n], o->n_paths > 0 ? o->paths[i] : ".");
	if (n > 0 && o->interval_usec > 0)
		(void)usleep((useconds_t)o->interval_usec);
	for (size_t i = 0; i < n && o->interval_usec > 0; i++)
		device_snapshot_update(&snapshots[i]);
	if (c)
		(void)daemon_devices_get(c, &daemon);
	for (size_t i = 0; i < n; i++) {
		json_t *v;

		v = device_snapshot_json(&snapshots[i]);
		(void)json_object_set_new(v, "daemon", of_daemon(daemon, snapshots[i].d.key));
		(void)json_array_append_new(array, v);
		device_snapshot_done(&snapshots[i]);
	}
	if (o->json == JSON_OFF && !o->quiet)
		print(array);
	json_print(array, o->json);
	json_decref(daemon);
	free(snapshots);
	return n == n_paths ? EXIT_DONE : n > 0 ? EXIT_PARTLY : EXIT_FAILED;
}
