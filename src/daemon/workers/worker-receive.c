/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each answer is read in full and checked before a callback hears of it. Those of many records are
 * checked record by record: what came before a bad one is as true as anything of this worker. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "pacers.h"
#include "base/fd.h"
#include "worker-handle-state.h"

/* After the answer the request is over; its last callback is told in `request_end`. */
#define ENDS 1

struct request *request_take(struct worker *w)
{
	struct request *rq = w->first;

	if (!rq)
		return NULL;
	w->first = rq->next;
	if (!w->first)
		w->last = &w->first;
	assert(w->n_requests > 0);
	w->n_requests--;
	return rq;
}

void request_fail(struct request *rq, int error)
{
	switch (rq->kind) {
	case KIND_VALIDATE:
		rq->validate.validated(error, NULL, NULL, rq->userdata);
		break;
	case KIND_STAGE:
		rq->stage.staged(error, -1, NULL, NULL, rq->userdata);
		break;
	case KIND_FORGET:
		break;
	case KIND_OPEN:
		rq->opened(error, -1, rq->userdata);
		break;
	case KIND_DONE:
		rq->done(error, rq->userdata);
		break;
	case KIND_LIST:
		rq->list.listed(error, rq->userdata);
		break;
	case KIND_RUN:
		rq->run.ran(error, NULL, rq->userdata);
		break;
	}
	request_free(rq);
}

/* True while the records of an answer go on: a callback may have freed the worker. */
static bool more(const struct worker *w)
{
	return !w->ended && !w->in.error && w->in.left > 0;
}

static int take_welcome(struct worker *w)
{
	uint64_t version = wire_get(&w->in);

	if (w->welcome || w->in.serial != 0 || version != PROTOCOL_VERSION)
		return -EBADMSG;
	w->landlock_abi = (int)wire_get_most(&w->in, INT32_MAX);
	w->welcome = true;
	worker_limit(w);
	return wire_end(&w->in);
}

static int take_dirs(struct worker *w, struct request *rq)
{
	while (more(w)) {
		struct intake_dir d = { .dir = wire_get(&w->in) };

		d.path = wire_get_string(&w->in);
		d.id = wire_get_identity(&w->in);
		if (w->in.error || d.dir != rq->dirs + 1)
			return -EBADMSG;
		rq->dirs++;
		rq->validate.dir(&d, rq->userdata);
	}
	return 0;
}

static int take_entries(struct worker *w, struct request *rq)
{
	while (more(w)) {
		struct entry_record e = { .dir = wire_get(&w->in), .state = ENTRY_WAITING };

		e.name = wire_get_component(&w->in);
		e.id = wire_get_identity(&w->in);
		if (w->in.error || e.dir == 0 || e.dir > rq->dirs)
			return -EBADMSG;
		e.seq = ++rq->seq;
		rq->validate.entry(&e, rq->userdata);
	}
	return 0;
}

/* Why something failed: ERROR_NONE and NULL, or a cause that a worker can find, and its text. */
static struct intake_failure get_failure(struct wire_in *in)
{
	struct intake_failure f = { .cause = wire_get_most(in, ERROR_WORKER_LAST) };

	f.text = wire_get_string_or_null(in);
	if (f.cause && (!f.text || strlen(f.text) > KiB(4)))
		in->error = -EBADMSG;
	return f;
}

static int errno_of(const struct intake_failure *f)
{
	return f->cause ? error_entry(f->cause)->error : 0;
}

static int take_validated(struct worker *w, struct request *rq)
{
	struct intake_validated l;
	struct intake_failure f;
	int r;

	l.names = wire_get(&w->in);
	l.missing = wire_get(&w->in);
	l.entries = wire_get(&w->in);
	l.bytes = wire_get(&w->in);
	l.mnt_id = wire_get(&w->in);
	l.dev = wire_get(&w->in);
	l.discards = wire_get_most(&w->in, 1);
	f = get_failure(&w->in);
	r = wire_end(&w->in);
	if (r < 0 || (!f.cause && l.names != rq->seq))
		return -EBADMSG;
	(void)request_take(w);
	rq->validate.validated(errno_of(&f), f.cause ? NULL : &l, f.cause ? &f : NULL,
			       rq->userdata);
	return ENDS;
}

static int take_ranges(struct worker *w, struct request *rq)
{
	while (more(w)) {
		uint64_t from = wire_get(&w->in), to = wire_get(&w->in);
		int error = wire_get_error(&w->in);

		if (w->in.error || from <= rq->seq || to < from)
			return -EBADMSG;
		rq->seq = to;
		rq->stage.range(from, to, error, rq->userdata);
	}
	return 0;
}

/* A directory, as its flags say: asking what it is might wait for a filesystem. */
static bool is_directory(int fd, bool path_fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_TMPFILE) == O_DIRECTORY && !(flags & O_PATH) == !path_fd;
}

static int take_staged(struct worker *w, struct request *rq)
{
	struct lasting_identity id = wire_get_identity(&w->in);
	struct intake_failure f = get_failure(&w->in);
	_cleanup_close_ int fd = !f.cause && id.ino != 0 ? wire_get_fd(&w->in) : -1;
	int r = wire_end(&w->in);

	if (r < 0 || (fd >= 0 && !is_directory(fd, /* path_fd= */ false)))
		return -EBADMSG;
	(void)request_take(w);
	rq->stage.staged(errno_of(&f), fd_take(&fd), f.cause ? NULL : &id, f.cause ? &f : NULL,
			 rq->userdata);
	return ENDS;
}

static int take_opened(struct worker *w, struct request *rq)
{
	int error = wire_get_error(&w->in);
	_cleanup_close_ int fd = error == 0 ? wire_get_fd(&w->in) : -1;
	int r = wire_end(&w->in);

	if (r < 0 || (fd >= 0 && !is_directory(fd, rq->wants_path_fd)))
		return -EBADMSG;
	(void)request_take(w);
	rq->opened(error, fd_take(&fd), rq->userdata);
	return ENDS;
}

static int take_done(struct worker *w, struct request *rq)
{
	int error = wire_get_error(&w->in), r = wire_end(&w->in);

	if (r < 0)
		return r;
	(void)request_take(w);
	if (rq->kind == KIND_DONE)
		rq->done(error, rq->userdata);
	else
		rq->list.listed(error, rq->userdata);
	return ENDS;
}

static int take_listing(struct worker *w, struct request *rq)
{
	while (more(w)) {
		const char *name = wire_get_component(&w->in);
		struct lasting_identity id = wire_get_identity(&w->in);

		if (w->in.error)
			return -EBADMSG;
		rq->list.entry(name, &id, rq->userdata);
	}
	return 0;
}

static int take_problem(struct worker *w, struct request *rq)
{
	struct problem_record p = { .path = wire_get_string(&w->in) };
	int r;

	p.what = wire_get_string(&w->in);
	p.error = wire_get_error(&w->in);
	p.is_error = wire_get_most(&w->in, 1);
	r = wire_end(&w->in);
	if (r < 0 || ++rq->problems > PROTOCOL_PROBLEMS)
		return -EBADMSG;
	rq->run.problem(&p, rq->userdata);
	return 0;
}

static int take_kept(struct worker *w, struct request *rq)
{
	while (more(w)) {
		uint64_t seq = wire_get(&w->in);
		int error = wire_get_error(&w->in);

		if (w->in.error || error == 0 || seq < rq->least || seq > rq->most ||
		    ++rq->seq > PROTOCOL_ITEMS)
			return -EBADMSG;
		rq->run.kept(seq, error, rq->userdata);
	}
	return 0;
}

static int take_ran(struct worker *w, struct request *rq)
{
	int error = wire_get_error(&w->in), r;
	struct run_result res = { .entries = wire_get(&w->in) };

	res.bytes = wire_get(&w->in);
	res.errors = wire_get(&w->in);
	res.skipped = wire_get(&w->in);
	res.cancelled = wire_get_most(&w->in, 1);
	res.unflushed = wire_get_most(&w->in, 1);
	res.remainder_bytes = wire_get(&w->in);
	res.strategy = wire_get_string(&w->in);
	r = wire_end(&w->in);
	if (r < 0 || strlen(res.strategy) > KiB(1) || (res.unflushed && !rq->run.may_wait) ||
	    (res.remainder_bytes > 0 && (!w->keeps || res.unflushed)))
		return -EBADMSG;
	w->stopped_usec = 0;
	/* A flush beside it may still wait for its turn. */
	if (w->paced)
		paced_stop(w->paced, false);
	if (res.remainder_bytes > 0)
		worker_suspend_pacing(w);
	(void)request_take(w);
	rq->run.ran(error, error == 0 ? &res : NULL, rq->userdata);
	return ENDS;
}

static int take_flushed(struct worker *w)
{
	int error = wire_get_error(&w->in), r = wire_end(&w->in);
	struct request *rq = w->flush;

	if (r < 0)
		return r;
	w->flush = NULL;
	rq->done(error, rq->userdata);
	request_free(rq);
	return ENDS;
}

/* Which answer may come to which request, and the function that reads it. */
static const struct {
	enum protocol_answer type;
	enum request_kind kind;
	int (*take)(struct worker *w, struct request *rq);
} answers[] = {
	{ ANSWER_DIRS, KIND_VALIDATE, take_dirs },
	{ ANSWER_ENTRIES, KIND_VALIDATE, take_entries },
	{ ANSWER_VALIDATED, KIND_VALIDATE, take_validated },
	{ ANSWER_RANGES, KIND_STAGE, take_ranges },
	{ ANSWER_STAGED, KIND_STAGE, take_staged },
	{ ANSWER_OPENED, KIND_OPEN, take_opened },
	{ ANSWER_DONE, KIND_DONE, take_done },
	{ ANSWER_DONE, KIND_LIST, take_done },
	{ ANSWER_LISTING, KIND_LIST, take_listing },
	{ ANSWER_PROBLEM, KIND_RUN, take_problem },
	{ ANSWER_KEPT, KIND_RUN, take_kept },
	{ ANSWER_RAN, KIND_RUN, take_ran },
};

static int take_answer(struct worker *w)
{
	struct request *rq = w->first;

	if (w->in.type == ANSWER_WELCOME)
		return take_welcome(w);
	if (w->flush && w->flush->serial == w->in.serial && w->in.type == ANSWER_DONE)
		return take_flushed(w);
	if (!w->welcome || !rq || !rq->begun || rq->serial != w->in.serial)
		return -EBADMSG;
	if (w->in.type == ANSWER_ALIVE)
		return wire_end(&w->in);
	for (size_t i = 0; i < ELEMENTSOF(answers); i++) {
		int r;

		if (answers[i].type != w->in.type || answers[i].kind != rq->kind)
			continue;
		r = answers[i].take(w, rq);
		if (r == ENDS)
			request_free(rq);
		if (r != 0)
			return r;
		return w->ended ? 0 : wire_end(&w->in);
	}
	return -EBADMSG;
}

int worker_receive(struct worker *w)
{
	int r = wire_receive(w->sock, &w->in, MSG_DONTWAIT, /* allow_long= */ false);

	if (r <= 0)
		return r;
	w->heard_usec = now_usec();
	r = take_answer(w);
	if (r == ENDS && !w->ended)
		worker_next(w);
	return r < 0 ? r : 1;
}
