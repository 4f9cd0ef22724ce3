/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

#define DAY_USEC (24LL * 3600 * (int64_t)USEC_PER_SEC)
/* No reading is outside of this, so that differences fit. */
#define CLOCK_MOST (INT64_MAX / 4)

int64_t clock_jump_usec(const struct clock_reading *before, const struct clock_reading *now)
{
	int64_t step = now->realtime_usec - before->realtime_usec;

	if (now->synchronized)
		return 0;
	if (strcmp(before->boot, now->boot) == 0)
		step -= (int64_t)now->boottime_usec - (int64_t)before->boottime_usec;
	return step > DAY_USEC || step < -DAY_USEC ? step : 0;
}

void clock_format(char buf[static CLOCK_LINE], const struct clock_reading *c)
{
	(void)snprintf(buf, CLOCK_LINE, "%-36s %20" PRIu64 " %20" PRId64 "\n", c->boot,
		       c->boottime_usec, c->realtime_usec);
}

int clock_parse(const char *line, struct clock_reading *ret)
{
	struct clock_reading c = { 0 };
	int64_t boottime;
	int end = 0;

	/* What is past 64 bits becomes the largest of them. */
	if (sscanf(line, "%36s %20" SCNd64 " %20" SCNd64 "%n", c.boot, &boottime, &c.realtime_usec,
		   &end) != 3 ||
	    line[0] == ' ' || line[strlen(c.boot)] != ' ' || strcmp(line + end, "\n") != 0 ||
	    boottime < 0 || boottime > CLOCK_MOST || c.realtime_usec > CLOCK_MOST ||
	    c.realtime_usec < -CLOCK_MOST)
		return -EBADMSG;
	c.boottime_usec = (uint64_t)boottime;
	*ret = c;
	return 0;
}
