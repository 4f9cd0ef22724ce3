/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-timers.h"

#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include "base/macros.h"

#define MANAGER "org.freedesktop.systemd1"
/* It says so at once, or not at all. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)

/* A unit that the manager has not loaded is not active. */
static bool is_active(sd_bus *bus, const char *unit)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	const char *path;
	bool active = false;
	char *said = NULL;

	if (sd_bus_call_method(bus, MANAGER, "/org/freedesktop/systemd1", MANAGER ".Manager",
			       "GetUnit", NULL, &m, "s", unit) < 0 ||
	    sd_bus_message_read(m, "o", &path) < 0)
		return false;
	if (sd_bus_get_property_string(bus, MANAGER, path, MANAGER ".Unit", "ActiveState", NULL,
				       &said) >= 0)
		active = strcmp(said, "active") == 0;
	free(said);
	return active;
}

struct trim_timers trim_timers_get(void)
{
	struct trim_timers t = { false, false };
	sd_bus *bus = NULL;

	if (sd_booted() <= 0 || sd_bus_open_system(&bus) < 0)
		return t;
	(void)sd_bus_set_method_call_timeout(bus, PATIENCE_USEC);
	t.fstrim = is_active(bus, "fstrim.timer");
	t.ours = is_active(bus, "reclaimd-trim-scheduled.timer");
	(void)sd_bus_flush_close_unref(bus);
	return t;
}
