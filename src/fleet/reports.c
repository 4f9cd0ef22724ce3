/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "reports.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

void report_begin(struct companion *c, enum fleet_report type, const void *record)
{
	wire_begin(&c->out, type, 0);
	fleet_put(&c->out, record);
}

void report_end(struct companion *c)
{
	int r = wire_post(c->sock, &c->out);

	/* That it is closed is also to be read. */
	if (r >= 0 || r == -EPIPE || r == -ECONNRESET || c->error < 0)
		return;
	c->error = r;
	(void)sd_event_exit(c->event, r);
}

void report(struct companion *c, enum fleet_report type, const void *record)
{
	report_begin(c, type, record);
	report_end(c);
}

void report_demand(struct companion *c, struct share *s)
{
	uint64_t sum = demand_sum(&c->demand, (size_t)(s - c->shares));

	if (sum == s->demand)
		return;
	s->demand = sum;
	report(c, FLEET_DEMAND, &(struct wanted_message){ .filesystem = s->name, .units = sum });
}

void report_working(struct companion *c, struct share *s)
{
	uint64_t sum = demand_sum(&c->working, (size_t)(s - c->shares));

	if (sum == s->others)
		return;
	s->others = sum;
	report(c, FLEET_WORKING, &(struct working_message){ .filesystem = s->name, .hosts = sum });
}

void report_lease(struct companion *c)
{
	/* The server reckons from when it was asked, which is later. */
	report(c, FLEET_LEASE,
	       &(struct lease_message){ .until_usec =
						c->asked_usec + c->lease_msec * USEC_PER_MSEC });
}

void report_refused(struct companion *c, const char *format, ...)
{
	struct safe_text text;
	va_list args;

	va_start(args, format);
	safe_text_formatv(&text, format, args);
	va_end(args);
	if (c->refused && strcmp(c->refused, text.line) == 0)
		return;
	free(c->refused);
	c->refused = strdup(text.line);
	report(c, FLEET_REFUSED, &(struct refused_message){ .text = text.line });
}

void companion_warn(struct companion *c, const char *format, ...)
{
	struct safe_text text;
	va_list args;

	if (c->warned)
		return;
	c->warned = true;
	va_start(args, format);
	safe_text_formatv(&text, format, args);
	va_end(args);
	safe_text_print("reclaim-fleet", &text);
}

void companion_no_memory(struct companion *c)
{
	c->error = -ENOMEM;
	(void)sd_event_exit(c->event, -ENOMEM);
}
