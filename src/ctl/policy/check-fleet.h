/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What only this host can tell of `fleet:`: whether it can be done here at all, and what is mounted
 * where it is said. */
#pragma once

#include "config/config.h"

/* Tells what is wrong. `text` begins with the key; it is valid during the call. */
typedef void (*fleet_tell_t)(const struct config_place *place, bool is_warning, const char *text,
			     void *userdata);

/* c has a fleet. asks: the database is asked, too, whether it can be used. */
void fleet_check(const struct config *c, bool asks, fleet_tell_t tell, void *userdata);
