/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The time zone that localtime_r(3) uses, chosen by name and not by the caller's environment. libc
 * has one zone for the whole process, so these functions are for programs in which no other thread
 * uses the environment or local times meanwhile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns true if this system has a time zone of this name, such as "Europe/Berlin". "UTC" always
 * is one. */
bool zone_is_known(const char *name);

/* Makes local times those of a zone, until zone_leave: NULL for the system's, which is that of
 * /etc/localtime, or UTC if there is no such file. Returns 0, or -ENOENT and changes nothing if the
 * zone is unknown; libc would silently use UTC. Does not nest. */
int zone_enter(const char *name);

/* Makes local times those of the caller's environment again. Does nothing outside of a zone. */
void zone_leave(void);

/* Room for the name of a zone. */
#define ZONE_NAME_SIZE 256

/* Writes the name of a zone, NULL for the system's, as a person may search for it: "Europe/Berlin",
 * or "/etc/localtime" if that is no link to a zone with a name. Returns buf. */
const char *zone_name(const char *name, char *buf, size_t len);
