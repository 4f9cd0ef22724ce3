/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/macros.h"
#include "pacing/pacer.h"
#include "trim-process.h"

/* A step where no foreign I/O is spared. */
#define UNPACED MiB(1024)
/* After so long without an answer lanes on the same devices do not wait for it any more. */
#define SILENT (2 * USEC_PER_SEC)
/* What is cancelled is given so long to come to the end of its step. */
#define STOP_MOST USEC_PER_SEC
/* And after so long the device, or its filesystem, does not answer. A step that is not bounded has
 * so much more for each GiB: a device that takes 10 ms for each MiB. */
#define HANGS (300 * USEC_PER_SEC)
#define HANGS_PER_GIB (10 * USEC_PER_SEC)
#define WAIT_MSEC 50

struct trim {
	const struct trim_options *o;
	const struct trim_target *target;
	struct trim_process *process;
	struct trim_process_sample sample;
	struct trim_result result;
	uint64_t began_usec;
};

bool trim_is_permitted(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &h, d) == 0 && d[0].effective >> CAP_SYS_ADMIN & 1;
}

static uint64_t patience(const struct trim *t)
{
	bool bounded = t->result.bound != TRIM_UNBOUNDED && t->result.bound != TRIM_BY_CHUNK;

	return HANGS + (bounded ? 0 : (t->target->size_bytes >> 30) * HANGS_PER_GIB);
}

static bool is_cancelled(const struct trim *t)
{
	return t->o->cancelled && atomic_load(t->o->cancelled);
}

/* Waits for the answer to what was asked. Returns false if there is none. */
static bool answer(struct trim *t)
{
	uint64_t began = now_usec(), now, cancelled = 0;
	bool released = false;

	do {
		trim_process_wait(t->process, WAIT_MSEC);
		trim_process_sample(t->process, &t->sample);
		if (t->sample.gone)
			return false;
		if (!t->sample.busy && t->sample.ready)
			return true;
		now = now_usec();
		if (cancelled == 0 && is_cancelled(t))
			cancelled = now;
		if (!released && t->sample.busy && now - began >= SILENT) {
			debug_log("trim: %s: a step takes long: it is not waited for any more by "
				  "deletions",
				  t->target->device);
			if (t->o->pacer)
				pacer_trim_release(t->o->pacer);
			released = true;
		}
	} while (now - began < patience(t) && (cancelled == 0 || now - cancelled < STOP_MOST));
	return false;
}

/* Why there is no answer: 0 if it was cancelled. */
static int silence(const struct trim *t)
{
	return t->sample.gone ? -ECONNRESET : is_cancelled(t) ? 0 : -ETIMEDOUT;
}

static void account(struct trim *t, uint64_t cost_usec)
{
	struct trim_result *r = &t->result;

	r->steps += t->sample.calls > 0;
	r->calls += t->sample.calls;
	r->trimmed_bytes += t->sample.trimmed;
	r->last_bytes = t->sample.trimmed;
	r->last_usec = cost_usec;
	r->longest_usec = MAX(r->longest_usec, cost_usec);
	if (r->first_mib_usec == 0 && t->sample.trimmed >= MiB(1))
		r->first_mib_usec = MAX(cost_usec * MiB(1) / t->sample.trimmed, UINT64_C(1));
	r->at = t->sample.at;
	r->end = t->sample.end;
	r->elapsed_usec = now_usec() - t->began_usec;
}

/* One step, within what was granted. Returns 0, or a negative errno if it cannot go on. */
static int step(struct trim *t, uint64_t bytes)
{
	struct pacer *pacer = t->o->pacer;
	uint64_t cost;

	trim_process_ask(t->process, bytes);
	if (!answer(t)) {
		if (pacer)
			(void)pacer_trim_end(pacer, 0, 0);
		t->result.broken_off = true;
		return silence(t);
	}
	cost = t->sample.took_usec;
	if (pacer)
		cost = pacer_trim_end(pacer, t->sample.trimmed, cost);
	account(t, cost);
	if (t->o->progress)
		t->o->progress(&t->result, t->o->userdata);
	return t->sample.error;
}

static int pass(struct trim *t)
{
	uint64_t bytes = UNPACED;
	int r = 0;

	while (r >= 0 && !t->sample.done && !t->result.broken_off) {
		gate("trim", t->result.steps == 0 ? "first" : "next");
		if (is_cancelled(t) ||
		    (t->o->pacer && !pacer_trim_begin(t->o->pacer, t->o->cancelled, &bytes)))
			break;
		r = step(t, bytes);
	}
	t->result.complete = r >= 0 && t->sample.done;
	return r;
}

/* Starts the process and waits until it has found the ranges. */
static int begin(struct trim *t, int fd)
{
	int r = trim_process_new(&t->process, fd, t->target, t->o->min_bytes);

	if (r < 0)
		return r;
	t->result.bound = trim_target_bound(t->target, t->o->min_bytes);
	if (!answer(t))
		return silence(t);
	t->result.bound = t->sample.bound;
	t->result.end = t->sample.end;
	return t->sample.error;
}

int trim_run(int fd, const struct trim_target *target, const struct trim_options *o,
	     struct trim_result *ret)
{
	static const _Atomic bool never;
	struct trim_options with = *o;
	struct trim t = { .o = &with, .target = target, .began_usec = now_usec() };
	int r;

	with.cancelled = o->cancelled ? o->cancelled : &never;
	r = begin(&t, fd);
	if (r >= 0 && t.sample.ready)
		r = pass(&t);
	trim_process_free(t.process);
	t.result.elapsed_usec = now_usec() - t.began_usec;
	debug_log("trim: %s: %" PRIu64 " bytes in %" PRIu64 " steps and %" PRIu64
		  " calls, %s, ended with %d",
		  target->device, t.result.trimmed_bytes, t.result.steps, t.result.calls,
		  trim_bound_name(t.result.bound), r);
	*ret = t.result;
	return r;
}

int trim_bound_find(int fd, const struct trim_target *target, uint64_t min_bytes,
		    enum trim_bound *ret)
{
	const struct trim_options o = { .min_bytes = min_bytes };
	struct trim t = { .o = &o, .target = target };
	int r = begin(&t, fd);

	trim_process_free(t.process);
	*ret = t.result.bound;
	return r;
}
