/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon says of the devices on which it deletes just now. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "ctl/common/client.h"

/* Asks the daemon for an array of {key, name, mode, observed, target_usec, sync_usec, piece_usec,
 * entries_per_second, bytes_per_second}: key as device-set.h has it, name as device_set_name(),
 * mode fast, check, paced or urgent. Returns 0 or an exit status. The caller decrefs it. */
int daemon_devices_get(struct client *c, json_t **ret);

/* What is said of one device set, or NULL. */
json_t *daemon_devices_find(json_t *devices, const char *key);

/* " reclaimd: paced, 1,234 entries/s, 200 MiB/s, ..." */
void daemon_device_print(const json_t *device);

/* What a device set is called: the names of its devices in /dev in place of their numbers, where
 * they can be had. NULL if out of memory. */
json_t *device_set_name(const char *key);
