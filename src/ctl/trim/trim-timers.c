/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-timers.h"

#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include "base/array.h"
#include "config/config.h"

#define MANAGER "org.freedesktop.systemd1"
#define FSTRIM "fstrim.timer"
/* It says so at once, or not at all. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)

/* Takes them of an answer. */
static int names_take(sd_bus_message *m, struct trim_timers *t)
{
	const char *unit;
	int r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");

	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "ssssssouso")) > 0) {
		r = sd_bus_message_read(m, "s", &unit);
		if (r >= 0 && strcmp(unit, FSTRIM) == 0)
			t->fstrim = true;
		else if (r >= 0)
			r = strings_add(&t->ours, &t->n_ours, strdup(unit));
		if (r >= 0)
			r = sd_bus_message_skip(m, "sssssouso");
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct trim_timers trim_timers_get(void)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	struct trim_timers t = { 0 };
	sd_bus *bus = NULL;

	if (sd_booted() <= 0 || sd_bus_open_system(&bus) < 0)
		return t;
	(void)sd_bus_set_method_call_timeout(bus, PATIENCE_USEC);
	if (sd_bus_call_method(bus, MANAGER, "/org/freedesktop/systemd1", MANAGER ".Manager",
			       "ListUnitsByPatterns", NULL, &m, "asas", 1, "active", 3, FSTRIM,
			       CONFIG_TRIM_TIMER, "reclaimd-trim-scheduled@*.timer") >= 0)
		(void)names_take(m, &t);
	if (t.n_ours > 1)
		qsort(t.ours, t.n_ours, sizeof(t.ours[0]), by_name);
	(void)sd_bus_flush_close_unref(bus);
	return t;
}

bool trim_timers_has(const struct trim_timers *t, const char *unit)
{
	for (size_t i = 0; i < t->n_ours; i++)
		if (strcmp(t->ours[i], unit) == 0)
			return true;
	return false;
}

void trim_timers_done(struct trim_timers *t)
{
	for (size_t i = 0; i < t->n_ours; i++)
		free(t->ours[i]);
	free(t->ours);
	*t = (struct trim_timers){ 0 };
}
