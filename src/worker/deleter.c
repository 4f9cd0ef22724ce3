/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The delete role: the engine runs on a thread of its own, while this one listens for a stop, and
 * for the end of the socket, which is the same. A flush that several runs share is made on another
 * one, while the next run goes on. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "flush-files.h"
#include "delete-names.h"
#include "serving.h"
#include "base/fd.h"
#include "base/thread.h"

struct flushing {
	struct serving *s;
	struct wire_in in; /* the request: the names are in its memory */
	struct wire_out out;
	struct flush flush;
	pthread_t thread;
	bool running; /* the thread is to be joined */
	_Atomic bool cancelled, ended;
};

struct deleting {
	struct serving *s;
	struct run run;
	pthread_t thread;
	bool running; /* the thread is to be joined */
	struct flushing flushing;
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

/* ---- flushes ----------------------------------------------------------------------------------
 */

static void *flusher(void *userdata)
{
	struct flushing *f = userdata;
	int r = flush_make(f->s, &f->flush, &f->cancelled);

	wire_begin(&f->out, ANSWER_DONE, f->in.serial);
	wire_put_error(&f->out, r);
	/* Before the answer: the next request may come at once. */
	atomic_store(&f->ended, true);
	(void)wire_post(f->s->sock, &f->out);
	return NULL;
}

static void flushing_done(struct flushing *f)
{
	wire_in_done(&f->in);
	wire_out_done(&f->out);
	fd_closep(&f->flush.dirfd);
	free(f->flush.names);
}

static void flush_join(struct flushing *f)
{
	if (!f->running)
		return;
	pthread_join(f->thread, NULL);
	f->running = false;
	flushing_done(f);
}

static int flush_take(struct flushing *f, struct serving *s)
{
	struct flush *to = &f->flush;

	*f = (struct flushing){ .s = s, .in = s->in };
	s->in = (struct wire_in){ 0 };
	to->dirfd = wire_get_fd(&f->in);
	to->names = calloc(PROTOCOL_FLUSH, sizeof(*to->names));
	while (to->names && !f->in.error && f->in.left > 0 && to->n < PROTOCOL_FLUSH)
		to->names[to->n++] = wire_get_component(&f->in);
	return to->names ? wire_end(&f->in) : -ENOMEM;
}

static int flush_begin(struct flushing *f, struct serving *s)
{
	int r;

	if (f->running && !atomic_load(&f->ended))
		return -EBADMSG;
	flush_join(f);
	r = flush_take(f, s);
	if (r >= 0)
		r = thread_start(&f->thread, flusher, f);
	f->running = r >= 0;
	if (r < 0)
		flushing_done(f);
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
	case REQUEST_FREE_REMAINDERS:
		if (d->running)
			run_free_remainders(&d->run);
		return wire_end(&d->s->in);
	case REQUEST_FLUSH:
		return flush_begin(&d->flushing, d->s);
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
	atomic_store(&d.flushing.cancelled, true);
	if (d.running)
		run_cancel(&d.run, /* keep= */ false);
	join(&d);
	flush_join(&d.flushing);
	return r;
}
