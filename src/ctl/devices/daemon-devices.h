/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon, if there is one, says of the devices on which it deletes just now. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/common/client.h"

struct daemon_device {
	char *key;  /* of the device set, as device-set.h has it */
	char *mode; /* fast, check, paced, unpaced */
	bool observed;
	uint64_t target_usec, sync_usec, quantum_usec;
	double entries_per_second, bytes_per_second;
};

/* All zero: there is no daemon, or it deletes nowhere. */
struct daemon_devices {
	struct daemon_device *v;
	size_t n;
};

/* Asks the daemon. Returns 0 or an exit status. */
int daemon_devices_ask(struct client *c, struct daemon_devices *ret);

void daemon_devices_done(struct daemon_devices *d);

/* What is said of one device set, or NULL. */
const struct daemon_device *daemon_devices_find(const struct daemon_devices *d, const char *key);

/* " reclaimd: paced, 1,234 entries/s, 200 MiB/s, ..." */
void daemon_device_print(const struct daemon_device *d);

/* {mode, observed, target_usec, sync_usec, piece_usec, entries_per_second, bytes_per_second}; null
 * for NULL. */
json_t *daemon_device_json(const struct daemon_device *d);
