/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The delete role: the engine runs on a thread of its own, while this one listens for a stop, and
 * for the end of the socket, which is the same. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "engine/engine.h"
#include "run.h"
#include "serving.h"
#include "util/thread.h"

struct deleting {
	struct serving *s;
	struct run run;
	pthread_t thread;
	bool running; /* the thread is to be joined */
};

static void *runner(void *userdata)
{
	run_all(userdata);
	return NULL;
}

static void join(struct deleting *d)
{
	if (!d->running)
		return;
	pthread_join(d->thread, NULL);
	d->running = false;
	run_done(&d->run);
}

static int begin(struct deleting *d)
{
	int r;

	/* reclaimd asks for the next only when it has the answer to the last. */
	if (d->running && !run_ended(&d->run))
		return -EBADMSG;
	join(d);
	r = run_take(&d->run, d->s);
	if (r < 0)
		return r;
	r = thread_start(&d->thread, runner, &d->run);
	d->running = r == 0;
	if (r < 0)
		run_done(&d->run);
	return r;
}

static int serve_one(struct deleting *d)
{
	bool keep;

	switch (d->s->in.type) {
	case REQUEST_RUN:
		return begin(d);
	case REQUEST_STOP:
		keep = wire_get_most(&d->s->in, 1);
		if (d->running)
			run_cancel(&d->run, keep);
		return wire_end(&d->s->in);
	case REQUEST_FREE_RESTS:
		if (d->running)
			run_free_rests(&d->run);
		return wire_end(&d->s->in);
	default:
		return -EBADMSG;
	}
}

int delete_serve(struct serving *s)
{
	struct deleting d = { .s = s };
	int r;

	while ((r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true)) > 0) {
		r = serve_one(&d);
		if (r < 0)
			break;
	}
	if (d.running)
		run_cancel(&d.run, /* keep= */ false);
	join(&d);
	return r;
}
