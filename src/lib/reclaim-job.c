/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs: how they are, and waiting for their end. */
#include <errno.h>
#include <string.h>

#include "reclaim-handle.h"
#include "base/fd.h"

/* The daemon says by itself when a job ends; it is asked that rarely, should that be missed. */
#define ASK_EVERY_USEC (5 * USEC_PER_SEC)
#define CALL_USEC (25 * USEC_PER_SEC)

static int state_of(const char *name)
{
	static const char *const names[] = {
		[RECLAIM_ACCEPTED] = "accepted",   [RECLAIM_HELD] = "held",
		[RECLAIM_QUEUED] = "queued",       [RECLAIM_RUNNING] = "running",
		[RECLAIM_PAUSED] = "paused",       [RECLAIM_DONE] = "done",
		[RECLAIM_PARTIAL] = "partial",     [RECLAIM_FAILED] = "failed",
		[RECLAIM_CANCELLED] = "cancelled", [RECLAIM_RESTORED] = "restored",
	};

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return -EBADMSG;
}

/* The one job of an answer. */
static int status_read(sd_bus_message *m, struct reclaim_status *ret)
{
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	const char *state;
	int r = sd_bus_message_enter_container(m, 'a', "(tsussaytttttttttstttst)");

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'r', "tsussaytttttttttstttst");
	if (r <= 0)
		return -EBADMSG;
	r = sd_bus_message_read(m, "tsu", &s.job, &state, &s.uid);
	if (r >= 0)
		r = sd_bus_message_skip(m, "ssay");
	if (r >= 0)
		r = sd_bus_message_read(m, "ttttttttt", &s.entries, &s.entries_done, &s.bytes,
					&s.bytes_freed, &s.errors, &s.created_usec,
					&s.held_until_usec, &s.finished_usec, &s.started_usec);
	if (r >= 0)
		r = sd_bus_message_skip(m, "stttst");
	if (r >= 0)
		r = state_of(state);
	if (r < 0)
		return r;
	s.state = (uint32_t)r;
	*ret = s;
	return 0;
}

static int status_get(struct reclaim *r, uint64_t job, uint64_t timeout_usec,
		      struct reclaim_status *ret)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int error = handle_call(r, "ListJobs", timeout_usec, &reply, "a{sv}", 2, "ids", "at", 1,
				job, "finished", "b", 1);

	if (error < 0)
		return error;
	return status_read(reply, ret) < 0 ? fail_errno(r, -EBADMSG) : 0;
}

int reclaim_get(struct reclaim *r, uint64_t job, struct reclaim_status *ret)
{
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	int error = size_check(r, ret->size);

	if (error >= 0)
		error = status_get(r, job, CALL_USEC, &s);
	if (error < 0)
		return error;
	result_give(ret, &s, ret->size, sizeof(s));
	return 0;
}

int reclaim_cancel(struct reclaim *r, uint64_t job)
{
	_cleanup_message_ sd_bus_message *reply = NULL;

	/* What is put back is many renames. */
	return handle_call(r, "Cancel", UINT64_MAX, &reply, "at", 1, job);
}

struct end_signal {
	uint64_t job;
	bool received;
};

static int on_end(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct end_signal *e = userdata;
	uint64_t job;

	(void)ret_error;
	if (sd_bus_message_read(m, "t", &job) >= 0 && job == e->job)
		e->received = true;
	return 0;
}

static int wait_loop(struct reclaim *r, struct end_signal *e, uint64_t end,
		     struct reclaim_status *ret)
{
	for (;;) {
		uint64_t now = now_usec();
		int error = status_get(r, e->job,
				       CLAMP(end - MIN(now, end), USEC_PER_SEC, CALL_USEC), ret);

		if (error < 0)
			return error;
		if (ret->state >= RECLAIM_DONE)
			return 0;
		if (now >= end)
			return fail(r, -ETIMEDOUT, "the job has not ended yet");
		e->received = false;
		error = handle_listen(r, &e->received, MIN(end, now + ASK_EVERY_USEC));
		if (error < 0)
			return fail_errno(r, error);
	}
}

int reclaim_wait(struct reclaim *r, uint64_t job, uint64_t timeout_usec, struct reclaim_status *ret)
{
	struct end_signal e = { .job = job };
	sd_bus_slot *slot = NULL;
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	uint64_t end = end_of(timeout_usec);
	int error = ret ? size_check(r, ret->size) : 0;

	if (error >= 0)
		error = handle_check(r);
	if (error < 0)
		return error;
	error = sd_bus_match_signal(r->way.bus, &slot, NULL, MANAGER_PATH, MANAGER_INTERFACE,
				    "JobFinished", on_end, &e);
	error = error < 0 ? fail_errno(r, error) : wait_loop(r, &e, end, &s);
	sd_bus_slot_unref(slot);
	if (error >= 0 && ret)
		result_give(ret, &s, ret->size, sizeof(s));
	return error;
}

static int on_finished(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct reclaim *r = userdata;
	const char *state;
	uint64_t job;
	int known;

	(void)ret_error;
	if (sd_bus_message_read(m, "tos", &job, NULL, &state) < 0)
		return 0;
	known = state_of(state);
	if (known >= 0)
		r->finished(r, job, (unsigned)known, r->finished_userdata);
	return 0;
}

int reclaim_on_finished(struct reclaim *r, reclaim_finished_fn callback, void *userdata)
{
	sd_bus_slot *slot = NULL;
	int error = handle_check(r);

	if (error < 0)
		return error;
	if (callback)
		error = sd_bus_match_signal(r->way.bus, &slot, NULL, MANAGER_PATH,
					    MANAGER_INTERFACE, "JobFinished", on_finished, r);
	if (error < 0)
		return fail_errno(r, error);
	sd_bus_slot_unref(r->finished_slot);
	r->finished_slot = slot;
	r->finished = callback;
	r->finished_userdata = userdata;
	return 0;
}
