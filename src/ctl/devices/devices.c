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
 *   daemon                what a running reclaimd says of them while it deletes there: see
 *                         daemon-devices.h; or null
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon-devices.h"
#include "device-snapshot.h"
#include "ctl/output/messages.h"
#include "ctl/common/verbs.h"

struct devices_session {
	struct options o;
	struct device_snapshot *snapshots; /* of the paths that could be read */
	json_t *daemon;
	size_t n;
	bool failed;
};

static int session_begin(struct devices_session *s)
{
	static char here[] = ".";
	static char *const only[] = { here };

	if (s->o.n_paths == 0) {
		s->o.paths = only;
		s->o.n_paths = 1;
	}
	s->snapshots = calloc(s->o.n_paths, sizeof(s->snapshots[0]));
	if (!s->snapshots)
		return -ENOMEM;
	return 0;
}

static void begin_one(struct devices_session *s, const char *path)
{
	struct device_snapshot *l = &s->snapshots[s->n];
	int r = device_snapshot_begin(l, path);

	if (r >= 0) {
		s->n++;
		return;
	}
	device_snapshot_done(l);
	s->failed = true;
	if (r == -ENOTBLK)
		complain(path, "is a block device: give a path on the filesystem that is on it");
	else
		complain(path[0] ? path : "''", "%s", strerror(-r));
}

static void pause_for(uint64_t usec)
{
	struct timespec left = { .tv_sec = (time_t)(usec / USEC_PER_SEC),
				 .tv_nsec = (long)(usec % USEC_PER_SEC) * 1000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static json_t *of_daemon(const struct devices_session *s, size_t i)
{
	return daemon_devices_find(s->daemon, s->snapshots[i].d.key);
}

static void show_json(const struct devices_session *s)
{
	json_t *array = json_array();

	for (size_t i = 0; i < s->n; i++) {
		json_t *v = device_snapshot_json(&s->snapshots[i]), *d = of_daemon(s, i);

		(void)json_object_del(d, "key");
		(void)json_object_del(d, "name");
		(void)json_object_set_new(v, "daemon", d ? json_incref(d) : json_null());
		(void)json_array_append_new(array, v);
	}
	json_print(array, s->o.json);
}

static void show(const struct devices_session *s)
{
	if (s->o.json != JSON_OFF) {
		show_json(s);
		return;
	}
	for (size_t i = 0; i < s->n && !s->o.quiet; i++) {
		if (i > 0)
			(void)putchar('\n');
		device_snapshot_print(&s->snapshots[i]);
		if (of_daemon(s, i))
			daemon_device_print(of_daemon(s, i));
	}
}

static int devices_all(struct devices_session *s, struct client *c)
{
	for (size_t i = 0; i < s->o.n_paths; i++)
		begin_one(s, s->o.paths[i]);
	if (s->n > 0 && s->o.interval_usec > 0) {
		pause_for(s->o.interval_usec);
		for (size_t i = 0; i < s->n; i++)
			device_snapshot_update(&s->snapshots[i]);
	}
	if (c)
		(void)daemon_devices_get(c, &s->daemon);
	show(s);
	json_decref(s->daemon);
	for (size_t i = 0; i < s->n; i++)
		device_snapshot_done(&s->snapshots[i]);
	if (!s->failed)
		return EXIT_DONE;
	return s->n > 0 ? EXIT_PARTLY : EXIT_FAILED;
}

int verb_devices(const struct options *o, struct client *c)
{
	struct devices_session s = { .o = *o };
	int r;

	if (session_begin(&s) < 0) {
		complain("devices", "out of memory");
		return EXIT_FAILED;
	}
	r = devices_all(&s, c);
	free(s.snapshots);
	return r;
}
