/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "settlement.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/macros.h"
#include "daemon/context/timer.h"

/* How often it is looked whether all is paid, and for how long that is waited for. */
#define LOOK_USEC (100 * USEC_PER_MSEC)
#define WAIT_MOST_USEC (60 * USEC_PER_SEC)

struct settlement {
	sd_event *event;
	struct debt_hold *hold; /* NULL when it is over */
	sd_event_source *look;
	uint64_t until_usec;
	void (*done)(void *userdata);
	void *userdata;
};

static int on_look(sd_event_source *source, uint64_t usec, void *userdata);

static bool look_after(struct settlement *s, uint64_t usec)
{
	return timer_after(s->event, &s->look, usec, USEC_PER_MSEC, on_look, s, "settlement") >= 0;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct settlement *s = userdata;

	(void)source;
	(void)usec;
	if (debt_hold_is_settled(s->hold) || now_usec() >= s->until_usec ||
	    !look_after(s, LOOK_USEC)) {
		s->hold = debt_hold_free(s->hold);
		s->done(s->userdata);
	}
	return 0;
}

int settlement_new(struct settlement **ret, sd_event *event, struct debt_hold *hold,
		   void (*done)(void *userdata), void *userdata)
{
	struct settlement *s = calloc(1, sizeof(*s));
	bool waits;

	*ret = NULL;
	if (!s) {
		debt_hold_free(hold);
		return -ENOMEM;
	}
	*s = (struct settlement){ .event = event,
				  .hold = hold,
				  .until_usec = now_usec() + WAIT_MOST_USEC,
				  .done = done,
				  .userdata = userdata };
	debt_hold_settle(hold);
	waits = !debt_hold_is_settled(hold);
	if (waits && look_after(s, LOOK_USEC)) {
		*ret = s;
		return 1;
	}
	settlement_free(s);
	return waits ? -ENOMEM : 0;
}

uint64_t settlement_owed(const struct settlement *s)
{
	return s->hold ? debt_hold_owed(s->hold) : 0;
}

void settlement_hurry(struct settlement *s)
{
	s->until_usec = 0;
	if (s->hold)
		(void)look_after(s, 0);
}

struct settlement *settlement_free(struct settlement *s)
{
	if (!s)
		return NULL;
	sd_event_source_disable_unref(s->look);
	debt_hold_free(s->hold);
	free(s);
	return NULL;
}
