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
	protocol_put(&f->out, &(struct done_message){ r });
	/* Before the answer: the next request may come at once. */
	atomic_store(&f->ended, true);
	(void)wire_post(f->s->sock, &f->out);
	return NULL;
}

static void flushing_done(struct flushing *f)
{
	wire_in_done(&f->in);
	wire_out_done(&f->out);
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
	struct flush_item item;
	int r;

	*f = (struct flushing){ .s = s, .in = s->in, .flush.dirfd = s->m.flush_message.dir };
	s->in = (struct wire_in){ 0 };
	to->names = calloc(PROTOCOL_FLUSH, sizeof(*to->names));
	if (!to->names)
		return -ENOMEM;
	while ((r = protocol_get_item(&f->in, &item)) > 0 && to->n < PROTOCOL_FLUSH)
		to->names[to->n++] = item.name;
	return r > 0 ? -EBADMSG : r;
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
	struct serving *s = d->s;
	uint32_t type = s->in.type;
	int r = protocol_get(&s->in, &s->m);

	if (r < 0)
		return r;
	if (type == REQUEST_RUN)
		r = begin(d);
	else if (type == REQUEST_FLUSH)
		r = flush_begin(&d->flushing, s);
	else if (type != REQUEST_STOP && type != REQUEST_FREE_REMAINDERS)
		r = -EBADMSG;
	else if (d->running && type == REQUEST_STOP)
		run_cancel(&d->run, s->m.stop_message.keep);
	else if (d->running)
		run_free_remainders(&d->run);
	wire_in_clear(&s->in);
	return r;
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
