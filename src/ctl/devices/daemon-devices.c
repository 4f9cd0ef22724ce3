/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon-devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/messages.h"
#include "base/units.h"

void daemon_devices_done(struct daemon_devices *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].key);
		free(d->v[i].mode);
	}
	free(d->v);
	*d = (struct daemon_devices){ 0 };
}

/* Reads one device into the next place. Returns 1, 0 at the end, or a negative errno. */
static int device_read(sd_bus_message *m, struct daemon_devices *d)
{
	const char *key, *mode;
	struct daemon_device *grown, v = { 0 };
	int observed, r;

	r = sd_bus_message_read(m, "(ssbtttdd)", &key, &mode, &observed, &v.target_usec,
				&v.sync_usec, &v.quantum_usec, &v.entries_per_second,
				&v.bytes_per_second);
	if (r <= 0)
		return r;
	grown = reallocarray(d->v, d->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->v = grown;
	v.observed = observed != 0;
	v.key = strdup(key);
	v.mode = strdup(mode);
	d->v[d->n++] = v;
	return v.key && v.mode ? 1 : -ENOMEM;
}

int daemon_devices_ask(struct client *c, struct daemon_devices *ret)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	struct daemon_devices d = { 0 };
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListDevices", &reply, NULL);

	if (r)
		return r;
	r = sd_bus_message_enter_container(reply, 'a', "(ssbtttdd)");
	while (r > 0)
		r = device_read(reply, &d);
	if (r < 0) {
		daemon_devices_done(&d);
		return client_broken(r);
	}
	*ret = d;
	return 0;
}

const struct daemon_device *daemon_devices_find(const struct daemon_devices *d, const char *key)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->v[i].key, key) == 0)
			return &d->v[i];
	return NULL;
}

/* "1.1ms" */
static char *brief_format(char *buf, size_t len, uint64_t usec)
{
	(void)snprintf(buf, len, "%.1fms", (double)usec / 1e3);
	return buf;
}

void daemon_device_print(const struct daemon_device *d)
{
	char n[28], rate[16], sync[24], quantum[24], target[24];
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)fprintf(out, "reclaimd: deletes here (%s), %s entries/s, %s/s", d->mode,
		      count_format(n, sizeof(n), (uint64_t)d->entries_per_second),
		      size_format(rate, sizeof(rate), (uint64_t)d->bytes_per_second));
	if (d->observed)
		(void)fprintf(out, "; a sync takes %s, a quantum %s of %s that it may",
			      brief_format(sync, sizeof(sync), d->sync_usec),
			      brief_format(quantum, sizeof(quantum), d->quantum_usec),
			      brief_format(target, sizeof(target), d->target_usec));
	sentence_end(&line);
}

json_t *daemon_device_json(const struct daemon_device *d)
{
	if (!d)
		return json_null();
	return json_pack("{sssbsIsIsIsfsf}", "mode", d->mode, "observed", (int)d->observed,
			 "target_usec", (json_int_t)d->target_usec, "sync_usec",
			 (json_int_t)d->sync_usec, "piece_usec", (json_int_t)d->quantum_usec,
			 "entries_per_second", d->entries_per_second, "bytes_per_second",
			 d->bytes_per_second);
}
