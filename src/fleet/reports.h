/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is said to reclaimd, and to a person. */
#pragma once

#include "companion-state.h"

/* Begins a message, whose items may follow in c->out. */
void report_begin(struct companion *c, enum fleet_report type, const void *record);
/* Sends it. Waits until reclaimd has room for it: if it is stopped, it does not work either. What
 * goes wrong ends the event loop. */
void report_end(struct companion *c);
/* The same for one without items. */
void report(struct companion *c, enum fleet_report type, const void *record);

/* What other hosts want of a filesystem, if that has changed. */
void report_demand(struct companion *c, struct share *s);

/* How many other hosts work there, if that has changed. */
void report_working(struct companion *c, struct share *s);

/* That the database has given the lease that was asked for last. */
void report_lease(struct companion *c);

/* Why this host is not in the fleet; the same is said once. */
void report_refused(struct companion *c, const char *format, ...) _printf_(2, 3);

/* One line on standard error, the first time. */
void companion_warn(struct companion *c, const char *format, ...) _printf_(2, 3);

void companion_no_memory(struct companion *c);
