/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each answer is read in full and checked before a callback hears of it. Those of many records are
 * checked record by record: what came before a bad one is as true as anything of this worker. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "pacers.h"
#include "base/fd.h"
#include "base/fleet-name.h"
#include "engine/core/name-slice.h"
#include "worker-handle-state.h"

/* After the answer the request is over; its last callback is told in `request_end`. */
#define ENDS 1

struct request *request_take(struct worker *w)
{
	struct request *rq = STAILQ_FIRST(&w->requests);

	assert((w->n_requests > 0) == (rq != NULL));
	if (!rq)
		return NULL;
	STAILQ_REMOVE_HEAD(&w->requests, entry);
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
	case KIND_MARK:
		rq->marked(error, NULL, rq->userdata);
		break;
	case KIND_RUN:
		rq->run.ran(error, NULL, rq->userdata);
		break;
	}
	request_free(rq);
}

/* Takes the next record of an answer of many: true, unless there is none, or it is a bad one; or a
 * callback has freed the worker. */
static bool next(struct worker *w, void *ret)
{
	return !w->ended && protocol_get_item(&w->in, ret) > 0;
}

static int take_welcome(struct worker *w, const struct welcome_message *m)
{
	if (w->welcome || w->in.serial != 0 || m->version != PROTOCOL_VERSION ||
	    m->landlock_abi > INT32_MAX)
		return -EBADMSG;
	w->landlock_abi = (int)m->landlock_abi;
	w->welcome = true;
	worker_limit(w);
	return 0;
}

static int take_dirs(struct worker *w, struct request *rq, union protocol_record *m)
{
	while (next(w, &m->intake_dir)) {
		if (m->intake_dir.dir != rq->dirs + 1)
			return -EBADMSG;
		rq->dirs++;
		rq->validate.dir(&m->intake_dir, rq->userdata);
	}
	return 0;
}

static int take_entries(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct intake_entry *e = &m->intake_entry;

	while (next(w, &m->intake_entry)) {
		if (e->dir == 0 || e->dir > rq->dirs)
			return -EBADMSG;
		rq->validate.entry(&(struct entry_record){ .seq = ++rq->seq,
							   .dir = e->dir,
							   .name = e->name,
							   .id = e->id,
							   .state = ENTRY_WAITING },
				   rq->userdata);
	}
	return 0;
}

/* Without a cause nothing has failed; with one there is a text, which a person is to read. */
static bool failure_is_good(const struct intake_failure *f)
{
	return !f->cause || (f->text && strlen(f->text) <= KiB(4));
}

static int errno_of(const struct intake_failure *f)
{
	return f->cause ? error_entry(f->cause)->error : 0;
}

static int take_validated(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct intake_validated *l = &m->intake_validated;
	const struct intake_failure f = { l->cause, l->text };

	if (!failure_is_good(&f) || (!f.cause && l->names != rq->seq))
		return -EBADMSG;
	(void)request_take(w);
	rq->validate.validated(errno_of(&f), f.cause ? NULL : l, f.cause ? &f : NULL, rq->userdata);
	return ENDS;
}

static int take_ranges(struct worker *w, struct request *rq, union protocol_record *m)
{
	struct staged_range *range = &m->staged_range;

	while (next(w, range)) {
		if (range->from <= rq->seq || range->to < range->from)
			return -EBADMSG;
		rq->seq = range->to;
		rq->stage.range(range->from, range->to, range->error, rq->userdata);
	}
	return 0;
}

/* Returns true if fd is a directory that was opened with O_PATH if and only if path_fd is set. */
static bool is_wanted_directory(int fd, bool path_fd)
{
	return fd_is_directory(fd) && !(fcntl(fd, F_GETFL) & O_PATH) == !path_fd;
}

static int take_staged(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct staged_message *s = &m->staged_message;
	const struct intake_failure f = { s->cause, s->text };

	if (!failure_is_good(&f) ||
	    (s->dir >= 0 && (f.cause || s->staging_id.ino == 0 ||
			     !is_wanted_directory(s->dir, /* path_fd= */ false))))
		return -EBADMSG;
	(void)request_take(w);
	rq->stage.staged(errno_of(&f), wire_keep_fd(&w->in, s->dir),
			 f.cause ? NULL : &s->staging_id, f.cause ? &f : NULL, rq->userdata);
	return ENDS;
}

static int take_opened(struct worker *w, struct request *rq, union protocol_record *m)
{
	struct opened_message *o = &m->opened_message;

	if ((o->error == 0) != (o->fd >= 0) ||
	    (o->fd >= 0 && !is_wanted_directory(o->fd, rq->wants_path_fd)))
		return -EBADMSG;
	(void)request_take(w);
	rq->opened(o->error, wire_keep_fd(&w->in, o->fd), rq->userdata);
	return ENDS;
}

static int take_done(struct worker *w, struct request *rq, union protocol_record *m)
{
	(void)request_take(w);
	if (rq->kind == KIND_DONE)
		rq->done(m->done_message.error, rq->userdata);
	else
		rq->list.listed(m->done_message.error, rq->userdata);
	return ENDS;
}

static int take_mark(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct mark_message *mark = &m->mark_message;
	size_t n = mark->groups.len / sizeof(gid_t);

	if (!mark->error &&
	    (!*mark->space || !is_component(mark->dir_name) ||
	     mark->groups.len % sizeof(gid_t) != 0 || n > PROTOCOL_MARK_GROUPS ||
	     mark->dir.ino == 0 || mark->dir.fsid != 0 || mark->dir.type != S_IFDIR))
		return -EBADMSG;
	(void)request_take(w);
	rq->marked(mark->error, mark->error ? NULL : mark, rq->userdata);
	return ENDS;
}

static int take_listing(struct worker *w, struct request *rq, union protocol_record *m)
{
	while (next(w, &m->listing_item))
		rq->list.entry(m->listing_item.name, &m->listing_item.id, rq->userdata);
	return 0;
}

static int take_shrinks(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct shrinks_message *s = &m->shrinks_message;

	if (rq->run.shrinks)
		rq->run.shrinks(wire_keep_fd(&w->in, s->file), s->bytes, rq->userdata);
	return 0;
}

/* Only directories are given, or a slice of one. */
static bool given_is_good(const struct given_unit *u)
{
	const struct run_unit *unit = &u->unit;

	if (unit->id.type != S_IFDIR || unit->id.ino == 0)
		return false;
	if (unit->slices > 0)
		return u->n == 0 && *unit->path && unit->slices > 1 &&
		       unit->slices <= NAME_SLICES && unit->slice < unit->slices;
	for (size_t i = 0; i < u->n; i++)
		if (u->names[i].id.type != S_IFDIR || u->names[i].id.ino == 0)
			return false;
	return u->n > 0 && unit->slice == 0;
}

static int take_given(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct given_message g = m->given_message;
	struct given_name names[PROTOCOL_GIVEN];
	struct given_unit u = { .unit = { g.path, g.id, g.slice, g.slices }, .names = names };
	int r;

	while ((r = protocol_get_item(&w->in, &m->given_name)) > 0) {
		if (u.n == PROTOCOL_GIVEN)
			return -EBADMSG;
		names[u.n++] = m->given_name;
	}
	if (r < 0 || !rq->run.given || rq->given >= rq->demanded || !given_is_good(&u))
		return -EBADMSG;
	rq->given++;
	rq->run.given(&u, rq->userdata);
	return 0;
}

static int take_problem(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct problem_message *p = &m->problem_message;

	(void)w;
	if (++rq->problems > PROTOCOL_PROBLEMS)
		return -EBADMSG;
	rq->run.problem(&(struct problem_record){ p->path, p->what, p->error, p->is_error },
			rq->userdata);
	return 0;
}

static int take_kept(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct kept_item *k = &m->kept_item;

	while (next(w, &m->kept_item)) {
		if (k->error == 0 || k->seq < rq->least || k->seq > rq->most ||
		    ++rq->seq > PROTOCOL_ITEMS)
			return -EBADMSG;
		rq->run.kept(k->seq, k->error, rq->userdata);
	}
	return 0;
}

static int take_ran(struct worker *w, struct request *rq, union protocol_record *m)
{
	const struct run_result *res = &m->run_result;

	if (strlen(res->strategy) > KiB(1) || (res->unflushed && !rq->run.may_wait) ||
	    (res->remainder_bytes > 0 && (!w->keeps || res->unflushed)) || res->given != rq->given)
		return -EBADMSG;
	w->stopped_usec = 0;
	/* A flush beside it may still wait for its turn. */
	if (w->paced)
		paced_stop(w->paced, false);
	if (res->remainder_bytes > 0)
		worker_suspend_pacing(w);
	(void)request_take(w);
	rq->run.ran(res->error, res->error == 0 ? res : NULL, rq->userdata);
	return ENDS;
}

static int take_flushed(struct worker *w, int error)
{
	struct request *rq = w->flush;

	w->flush = NULL;
	rq->done(error, rq->userdata);
	request_free(rq);
	return ENDS;
}

/* Which answer may come to which request, and the function that reads it. */
static const struct {
	enum protocol_answer type;
	enum request_kind kind;
	int (*take)(struct worker *w, struct request *rq, union protocol_record *m);
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
	{ ANSWER_MARK, KIND_MARK, take_mark },
	{ ANSWER_SHRINKS, KIND_RUN, take_shrinks },
	{ ANSWER_GIVEN, KIND_RUN, take_given },
	{ ANSWER_PROBLEM, KIND_RUN, take_problem },
	{ ANSWER_KEPT, KIND_RUN, take_kept },
	{ ANSWER_RAN, KIND_RUN, take_ran },
};

static int take_answer(struct worker *w, uint32_t type, union protocol_record *m)
{
	struct request *rq = STAILQ_FIRST(&w->requests);

	if (type == ANSWER_WELCOME)
		return take_welcome(w, &m->welcome_message);
	if (w->flush && w->flush->serial == w->in.serial && type == ANSWER_DONE)
		return take_flushed(w, m->done_message.error);
	if (!w->welcome || !rq || !rq->begun || rq->serial != w->in.serial)
		return -EBADMSG;
	if (type == ANSWER_ALIVE)
		return 0;
	for (size_t i = 0; i < ELEMENTSOF(answers); i++) {
		int r;

		if (answers[i].type != type || answers[i].kind != rq->kind)
			continue;
		r = answers[i].take(w, rq, m);
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
	union protocol_record m;
	int r = wire_receive(w->sock, &w->in, MSG_DONTWAIT, /* allow_long= */ false);
	uint32_t type = w->in.type;

	if (r <= 0)
		return r;
	w->heard_usec = now_usec();
	r = protocol_get(&w->in, &m);
	if (r < 0)
		return r;
	r = take_answer(w, type, &m);
	if (r == ENDS && !w->ended)
		worker_next(w);
	return r < 0 ? r : 1;
}
