/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "schedule-order.h"

struct count {
	unsigned all, device, user, user_device;
};

static bool is_root(const struct scheduler_slot *s)
{
	return s->account == 0;
}

static void add(struct count *c, const struct scheduler_slot *one, const struct scheduler_slot *s)
{
	c->all++;
	c->device += s->dev == one->dev;
	c->user += s->account == one->account;
	c->user_device += s->dev == one->dev && s->account == one->account;
}

bool scheduler_before(const struct candidate *a, const struct candidate *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->served < b->served;
}

bool scheduler_has_room(const struct scheduler_slot *one, const struct scheduler_slot *running,
			size_t n)
{
	struct count busy = { 0 }, silent = { 0 };

	for (size_t i = 0; i < n; i++)
		if (is_root(&running[i]) == is_root(one))
			add(running[i].silent ? &silent : &busy, one, &running[i]);
	if (busy.device >= SCHEDULER_DEVICE_MAX || busy.all >= SCHEDULER_RUNNING_MAX ||
	    busy.all + silent.all >= SCHEDULER_ALL_MAX ||
	    silent.user_device >= SCHEDULER_DEVICE_MAX)
		return false;
	if (is_root(one))
		return true;
	return busy.user < SCHEDULER_USER_MAX && silent.user < SCHEDULER_SILENT_USER_MAX &&
	       silent.device < SCHEDULER_SILENT_DEVICE_MAX &&
	       (silent.user == 0 || silent.all < SCHEDULER_SILENT_MAX);
}
