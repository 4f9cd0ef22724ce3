/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits, on the event loop, until what deletions leave on a set of devices is written back. */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/workers/pacers.h"

struct settlement;

/* Has all paid that was deleted so far on the devices of the hold, which is the settlement's from
 * here on, also on failure. done is called once, not in this call: when it is paid or cannot be, or
 * after a minute. Returns 1; 0 if there is nothing to wait for, and then *ret is NULL and done is
 * not called; or -ENOMEM. */
int settlement_new(struct settlement **ret, sd_event *event, struct debt_hold *hold,
		   void (*done)(void *userdata), void *userdata);

/* How many bytes are still to be written back on the devices, as of the last look. */
uint64_t settlement_owed(const struct settlement *s);

/* It is waited for no longer: done is called soon, if it was not yet. */
void settlement_hurry(struct settlement *s);

/* May be called by done, and before it, which is then not called. NULL is accepted; returns NULL.
 */
struct settlement *settlement_free(struct settlement *s);
