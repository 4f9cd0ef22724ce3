/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon-devices.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/common/answer.h"
#include "ctl/output/messages.h"
#include "base/mounts.h"
#include "base/units.h"

/* What it can tell it tells at once. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)

json_t *device_set_name(const char *key)
{
	_cleanup_free_ char *name = NULL;
	size_t size;
	FILE *f = open_memstream(&name, &size);

	for (const char *at = key; f && *at;) {
		int len = (int)strcspn(at, "+");
		char path[64], target[256] = "";
		const char *last;

		(void)snprintf(path, sizeof(path), "/sys/dev/block/%.*s", len, at);
		(void)!readlink(path, target, sizeof(target) - 1);
		last = strrchr(target, '/');
		(void)fprintf(f, "%s%.*s", at > key ? "+" : "", last ? INT_MAX : len,
			      last ? last + 1 : at);
		at += len + (at[len] == '+');
	}
	return f && fclose(f) == 0 ? json_path(name) : NULL;
}

int daemon_devices_get(struct client *c, json_t **ret)
{
	static const char *const keys[] = {
		"key",        "mode",       "observed",           "target_usec",
		"sync_usec",  "piece_usec", "entries_per_second", "bytes_per_second",
		"owed_bytes", NULL
	};
	sd_bus_message *reply = NULL;
	json_t *d;
	size_t i;
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListDevices", &reply, NULL);

	if (r == 0)
		r = answer_take(reply, "a(ssbtttddt)", keys, ret);
	if (r == 0)
		json_array_foreach(*ret, i, d)
			(void)json_object_set_new(d, "name", device_set_name(json_text(d, "key")));
	return r;
}

json_t *daemon_devices_find(json_t *devices, const char *key)
{
	json_t *d;
	size_t i;

	json_array_foreach(devices, i, d)
		if (strcmp(json_text(d, "key"), key) == 0)
			return d;
	return NULL;
}

void daemon_device_print(const json_t *d)
{
	char n[28], rate[16];
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)fprintf(out, "reclaimd: deletes here (%s), %s entries/s, %s/s", json_text(d, "mode"),
		      count_format(n, sizeof(n), json_number(d, "entries_per_second")),
		      size_format(rate, sizeof(rate), json_number(d, "bytes_per_second")));
	if (json_is_true(json_object_get(d, "observed")))
		(void)fprintf(out, "; a sync takes %.1fms, a quantum %.1fms of %.1fms that it may",
			      (double)json_number(d, "sync_usec") / 1e3,
			      (double)json_number(d, "piece_usec") / 1e3,
			      (double)json_number(d, "target_usec") / 1e3);
	if (json_number(d, "owed_bytes") > 0)
		(void)fprintf(out, "; %s are still to be written back",
			      size_format(rate, sizeof(rate), json_number(d, "owed_bytes")));
	sentence_end(&line);
}
