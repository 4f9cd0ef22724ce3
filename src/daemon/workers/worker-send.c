/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "pacers.h"
#include "base/fd.h"
#include "worker-handle-state.h"

/* Groups are put into one message as long as it stays of a reasonable size. */
#define GROUPS_MOST MiB(1)

static void message_drop(struct messages *m)
{
	struct message *one = STAILQ_FIRST(m);

	STAILQ_REMOVE_HEAD(m, entry);
	wire_out_done(&one->out);
	free(one);
}

void messages_free(struct messages *m)
{
	while (!STAILQ_EMPTY(m))
		message_drop(m);
}

/* Appends an empty message, to be filled and packed. NULL if memory is out. */
static struct wire_out *message_add(struct messages *m, uint32_t type, uint32_t serial)
{
	struct message *one = calloc(1, sizeof(*one));

	if (!one)
		return NULL;
	STAILQ_INSERT_TAIL(m, one, entry);
	wire_begin(&one->out, type, serial);
	return &one->out;
}

/* Sends what the socket takes; the rest when it takes more. */
void worker_send(struct worker *w)
{
	int r = 0;

	while (r >= 0 && !STAILQ_EMPTY(&w->out)) {
		r = wire_send(w->sock, &STAILQ_FIRST(&w->out)->out, MSG_DONTWAIT);
		if (r >= 0)
			message_drop(&w->out);
	}
	/* It is gone, which the loop will be told in a moment. */
	if (r < 0 && r != -EAGAIN)
		messages_free(&w->out);
	(void)sd_event_source_set_io_events(w->io,
					    EPOLLIN | (STAILQ_EMPTY(&w->out) ? 0 : EPOLLOUT));
}

void request_free(struct request *rq)
{
	messages_free(&rq->messages);
	free(rq);
}

void worker_next(struct worker *w)
{
	struct request *rq;

	while ((rq = STAILQ_FIRST(&w->requests)) && !rq->begun) {
		rq->begun = true;
		STAILQ_CONCAT(&w->out, &rq->messages);
		w->heard_usec = now_usec();
		w->stopped_usec = w->signal_usec = 0;
		w->keeps = false;
		if (w->paced)
			paced_stop(w->paced, false);
		/* What it says there is of this run, from the beginning. */
		atomic_store_explicit(&w->page->entries, 0, memory_order_relaxed);
		atomic_store_explicit(&w->page->bytes, 0, memory_order_relaxed);
		if (rq->kind == KIND_FORGET)
			request_free(request_take(w));
	}
	worker_limit(w);
	worker_send(w);
}

int worker_greet(struct worker *w, const struct worker_options *o, struct hello_message *h)
{
	const struct credentials *credentials = o->credentials;
	struct wire_out *out = message_add(&w->out, REQUEST_HELLO, 0);
	int r;

	if (!out)
		return -ENOMEM;
	h->version = PROTOCOL_VERSION;
	h->deletes = o->role == WORKER_DELETE;
	h->uid = credentials->uid;
	h->gid = credentials->gid;
	h->stall_usec = o->stall_usec;
	h->groups =
		(struct wire_bytes){ credentials->groups, credentials->n_groups * sizeof(gid_t) };
	h->landlock = h->deletes ? o->landlock_fd : -1;
	protocol_put(out, h);
	for (const char *const *p = o->protect; p && *p; p++)
		protocol_put_item(out, &(struct protected_path){ *p });
	r = wire_pack(out);
	if (r >= 0)
		worker_send(w);
	return r;
}

/* Begins a request of the kind and with the callbacks that `like` has. NULL, with *ret_error, if
 * there is no use. */
static struct request *request_new(struct worker *w, enum worker_role role,
				   const struct request *like, int *ret_error)
{
	struct request *rq = NULL;

	*ret_error = w->role != role ? -EINVAL : w->ended ? -EPIPE : -ENOMEM;
	if (*ret_error == -ENOMEM)
		rq = malloc(sizeof(*rq));
	if (!rq)
		return NULL;
	*rq = *like;
	rq->serial = ++w->serial;
	STAILQ_INIT(&rq->messages);
	return rq;
}

/* Queues it, if nothing has gone wrong with it so far (r). Takes it over. */
static int request_queue(struct worker *w, struct request *rq, int r)
{
	struct request *first = STAILQ_FIRST(&w->requests);
	struct message *m;

	STAILQ_FOREACH(m, &rq->messages, entry)
		r = r < 0 ? r : wire_pack(&m->out);
	if (r < 0) {
		request_free(rq);
		return r;
	}
	/* What is forgotten makes room for what comes. */
	if (rq->kind != KIND_FORGET)
		STAILQ_INSERT_TAIL(&w->requests, rq, entry);
	else if (first && first->begun)
		STAILQ_INSERT_AFTER(&w->requests, first, rq, entry);
	else
		STAILQ_INSERT_HEAD(&w->requests, rq, entry);
	w->n_requests++;
	worker_next(w);
	return 0;
}

/* A request whose first message has this; what is repeated in it is the caller's to add. */
static struct wire_out *request_begin(struct worker *w, enum worker_role role,
				      enum protocol_request type, const void *once,
				      const struct request *like, struct request **ret,
				      int *ret_error)
{
	struct wire_out *out;

	*ret = request_new(w, role, like, ret_error);
	if (!*ret)
		return NULL;
	out = message_add(&(*ret)->messages, type, (*ret)->serial);
	if (out && once)
		protocol_put(out, once);
	if (out)
		return out;
	request_free(*ret);
	*ret_error = -ENOMEM;
	return NULL;
}

/* A request of the intake role that is one message. */
static int ask(struct worker *w, enum protocol_request type, const void *once,
	       const struct request *like)
{
	struct request *rq;
	int r;

	return request_begin(w, WORKER_INTAKE, type, once, like, &rq, &r) ? request_queue(w, rq, 0)
									  : r;
}

static bool message_takes(const struct wire_out *out, const struct intake_group *g)
{
	return out->n_fds + 2 < WIRE_FDS &&
	       (out->len == sizeof(struct wire_header) + sizeof(uint64_t) ||
		out->len + g->names.len < GROUPS_MOST);
}

static int groups_put(struct request *rq, uint64_t session, const struct intake_group *groups,
		      size_t n)
{
	struct wire_out *out = NULL;
	struct intake_group group;

	for (size_t i = 0; i < n; i++) {
		if (!out || !message_takes(out, &groups[i])) {
			int r = out ? wire_pack(out) : 0;

			if (r < 0)
				return r;
			out = message_add(&rq->messages, REQUEST_ADD_GROUPS, rq->serial);
			if (!out)
				return -ENOMEM;
			protocol_put(out, &(struct groups_message){ session });
		}
		group = groups[i];
		if (group.dir_path || group.path)
			group.dirfd = -1;
		protocol_put_item(out, &group);
	}
	return out ? wire_pack(out) : 0;
}

int worker_validate(struct worker *w, uint64_t session, const struct intake_group *groups, size_t n,
		    bool rmdir, int view_fd, const struct intake_callbacks *cb, void *userdata)
{
	struct wire_out *out;
	int r;
	struct request *rq = request_new(
		w, WORKER_INTAKE,
		&(struct request){ .kind = KIND_VALIDATE, .validate = *cb, .userdata = userdata },
		&r);

	if (!rq)
		return r;
	r = groups_put(rq, session, groups, n);
	out = r < 0 ? NULL : message_add(&rq->messages, REQUEST_VALIDATE, rq->serial);
	if (out) {
		protocol_put(out, &(struct validate_message){ session, rmdir, view_fd });
	} else if (r >= 0) {
		r = -ENOMEM;
	}
	return request_queue(w, rq, r);
}

int worker_forget(struct worker *w, uint64_t session)
{
	return ask(w, REQUEST_FORGET, &(struct forget_message){ session },
		   &(struct request){ .kind = KIND_FORGET });
}

int worker_stage(struct worker *w, const struct stage_message *m, const struct staged_callbacks *cb,
		 void *userdata)
{
	return ask(w, REQUEST_STAGE, m,
		   &(struct request){ .kind = KIND_STAGE, .stage = *cb, .userdata = userdata });
}

int worker_make_staging(struct worker *w, const struct make_staging_message *m,
			void (*made)(int r, int fd, void *userdata), void *userdata)
{
	return ask(w, REQUEST_MAKE_STAGING, m,
		   &(struct request){ .kind = KIND_OPEN, .opened = made, .userdata = userdata });
}

static int open_dir(struct worker *w, struct open_dir_message *m, const struct lasting_identity *id,
		    void (*opened)(int r, int fd, void *userdata), void *userdata)
{
	m->checks = id;
	if (id)
		m->id = *id;
	return ask(w, REQUEST_OPEN_DIR, m,
		   &(struct request){ .kind = KIND_OPEN,
				      .wants_path_fd = true,
				      .opened = opened,
				      .userdata = userdata });
}

int worker_open_dir(struct worker *w, int at_fd, const char *path,
		    const struct lasting_identity *id,
		    void (*opened)(int r, int fd, void *userdata), void *userdata)
{
	return open_dir(w, &(struct open_dir_message){ .path = path, .at = at_fd }, id, opened,
			userdata);
}

int worker_open_on_filesystem(struct worker *w, const char *path, uint64_t fsid,
			      void (*opened)(int r, int fd, void *userdata), void *userdata)
{
	const struct lasting_identity id = { .fsid = fsid };

	return open_dir(w, &(struct open_dir_message){ .path = path, .filesystem = true, .at = -1 },
			&id, opened, userdata);
}

int worker_open_job_dir(struct worker *w, int staging_fd, const char *name,
			const struct lasting_identity *id,
			void (*opened)(int r, int fd, void *userdata), void *userdata)
{
	return open_dir(
		w, &(struct open_dir_message){ .path = name, .foreign = true, .at = staging_fd },
		id, opened, userdata);
}

int worker_restore(struct worker *w, const struct restore_message *m,
		   void (*restored)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_RESTORE, m,
		   &(struct request){ .kind = KIND_DONE, .done = restored, .userdata = userdata });
}

int worker_remove_staging(struct worker *w, int staging_fd, const char *job_dir,
			  void (*removed)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_REMOVE_STAGING,
		   &(struct remove_staging_message){ job_dir, staging_fd },
		   &(struct request){ .kind = KIND_DONE, .done = removed, .userdata = userdata });
}

int worker_list_staging(struct worker *w, int staging_fd, const char *job_dir,
			void (*entry)(const char *name, const struct lasting_identity *id,
				      void *userdata),
			void (*listed)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_LIST_STAGING,
		   &(struct list_staging_message){ job_dir, /* names= */ 0, staging_fd },
		   &(struct request){
			   .kind = KIND_LIST, .list = { entry, listed }, .userdata = userdata });
}

int worker_list_names(struct worker *w, int staging_fd, const char *job_dir, uint64_t most,
		      void (*entry)(const char *name, const struct lasting_identity *id,
				    void *userdata),
		      void (*listed)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_LIST_STAGING,
		   &(struct list_staging_message){ job_dir, most, staging_fd },
		   &(struct request){
			   .kind = KIND_LIST, .list = { entry, listed }, .userdata = userdata });
}

int worker_filesystem_id(struct worker *w, const struct filesystem_id_message *m,
			 void (*entry)(const char *name, const struct lasting_identity *id,
				       void *userdata),
			 void (*listed)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_FILESYSTEM_ID, m,
		   &(struct request){
			   .kind = KIND_LIST, .list = { entry, listed }, .userdata = userdata });
}

int worker_write_mark(struct worker *w, const struct write_mark_message *m,
		      void (*written)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_WRITE_MARK, m,
		   &(struct request){ .kind = KIND_DONE, .done = written, .userdata = userdata });
}

int worker_read_mark(struct worker *w, const struct mark_place *m,
		     void (*read)(int r, const struct mark_message *mark, void *userdata),
		     void *userdata)
{
	return ask(w, REQUEST_READ_MARK, m,
		   &(struct request){ .kind = KIND_MARK, .marked = read, .userdata = userdata });
}

int worker_withdraw_mark(struct worker *w, const struct mark_place *m,
			 void (*withdrawn)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_WITHDRAW_MARK, m,
		   &(struct request){ .kind = KIND_DONE, .done = withdrawn, .userdata = userdata });
}

int worker_remove_mark(struct worker *w, const struct mark_place *m,
		       void (*removed)(int r, void *userdata), void *userdata)
{
	return ask(w, REQUEST_REMOVE_MARK, m,
		   &(struct request){ .kind = KIND_DONE, .done = removed, .userdata = userdata });
}

int worker_run(struct worker *w, int dirfd, const struct lasting_identity *dir_id,
	       uint64_t unmoved_usec, const char *display, const struct run_item *items, size_t n,
	       const struct run_callbacks *cb, void *userdata)
{
	struct run_message m = { .display = display,
				 .check_dir = dir_id,
				 .unmoved_usec = unmoved_usec,
				 .may_wait = cb->may_wait,
				 .owes = cb->owes,
				 .rmdir = cb->rmdir,
				 .gives = cb->given,
				 .until_usec = cb->until_usec,
				 .dir = dirfd };
	const struct request like = {
		.kind = KIND_RUN, .run = *cb, .least = UINT64_MAX, .userdata = userdata
	};
	struct wire_out *out;
	struct request *rq;
	int r;

	if (dir_id)
		m.dir_id = *dir_id;
	if (cb->unit) {
		m.unit = cb->unit->path;
		m.unit_id = cb->unit->id;
		m.slice = cb->unit->slice;
		m.slices = cb->unit->slices;
	}
	out = request_begin(w, WORKER_DELETE, REQUEST_RUN, &m, &like, &rq, &r);
	if (!out)
		return r;
	for (size_t i = 0; i < n; i++) {
		rq->least = MIN(rq->least, items[i].seq);
		rq->most = MAX(rq->most, items[i].seq);
		protocol_put_item(out, &items[i]);
	}
	return request_queue(w, rq, n > PROTOCOL_ITEMS ? -E2BIG : 0);
}

_Static_assert(WORKER_FLUSH <= PROTOCOL_FLUSH, "the worker takes as many");

int worker_flush(struct worker *w, int dirfd, const char *const *names, size_t n,
		 void (*flushed)(int r, void *userdata), void *userdata)
{
	const struct request like = { .kind = KIND_DONE, .done = flushed, .userdata = userdata };
	struct wire_out *out;
	struct request *rq;
	int r;

	if (w->flush)
		return -EBUSY;
	out = request_begin(w, WORKER_DELETE, REQUEST_FLUSH, &(struct flush_message){ dirfd },
			    &like, &rq, &r);
	if (!out)
		return r;
	for (size_t i = 0; i < n; i++)
		protocol_put_item(out, &(struct flush_item){ names[i] });
	r = wire_pack(out);
	if (r < 0) {
		request_free(rq);
		return r;
	}
	w->flush = rq;
	STAILQ_CONCAT(&w->out, &rq->messages);
	worker_send(w);
	return 0;
}

uint64_t worker_flush_from(const struct worker *w)
{
	return w->paced ? paced_flush_from(w->paced) : 0;
}

struct debt_hold *worker_debt(struct worker *w)
{
	struct debt_hold *h = NULL;

	/* Without the memory for it the debt is the kernel's. */
	if (w->paced)
		(void)debt_hold_new(&h, w->paced);
	return h;
}

/* What has no answer of its own. False: it is out of use. */
static bool tell(struct worker *w, enum protocol_request type, uint32_t serial, const void *once)
{
	struct wire_out *out = message_add(&w->out, type, serial);

	if (out)
		protocol_put(out, once);
	if (!out || wire_pack(out) < 0) {
		worker_ref(w);
		worker_fail(w, "cannot be told what to do: out of memory");
		worker_unref(w);
		return false;
	}
	/* Its lanes may wait for their turn. */
	if (w->paced && type != REQUEST_DEMAND && type != REQUEST_UNTIL)
		paced_stop(w->paced, type == REQUEST_STOP);
	worker_send(w);
	return true;
}

static bool tell_stop(struct worker *w, uint32_t serial, bool keep)
{
	return tell(w, REQUEST_STOP, serial, &(struct stop_message){ keep });
}

void worker_demand(struct worker *w, unsigned units)
{
	struct request *rq = STAILQ_FIRST(&w->requests);

	if (w->ended || !rq || !rq->begun || rq->kind != KIND_RUN || !rq->run.given ||
	    w->stopped_usec)
		return;
	rq->demanded += units;
	(void)tell(w, REQUEST_DEMAND, rq->serial, &(struct demand_message){ units });
}

void worker_until(struct worker *w, const void *userdata, uint64_t usec)
{
	const struct request *rq = STAILQ_FIRST(&w->requests);

	if (w->ended || !rq || !rq->begun || rq->kind != KIND_RUN || rq->userdata != userdata ||
	    rq->run.until_usec == 0 || w->stopped_usec)
		return;
	(void)tell(w, REQUEST_UNTIL, rq->serial, &(struct until_message){ usec });
}

void worker_stop(struct worker *w)
{
	struct request *rq = STAILQ_FIRST(&w->requests);

	if (w->ended || !rq || rq->kind != KIND_RUN || w->stopped_usec)
		return;
	w->keeps = true;
	w->stopped_usec = now_usec();
	if (tell_stop(w, rq->serial, /* keep= */ true))
		worker_limit(w);
}

void worker_validate_stop(struct worker *w)
{
	struct request *rq = STAILQ_FIRST(&w->requests);

	if (!w->ended && rq && rq->begun && rq->kind == KIND_VALIDATE)
		(void)tell_stop(w, rq->serial, /* keep= */ false);
}

int worker_remainder_take(struct worker *w, int fd)
{
	struct wire_out *out = w->ended ? NULL : message_add(&w->out, REQUEST_TAKE_REMAINDER, 0);
	int r;

	if (!out)
		return w->ended ? -EPIPE : -ENOMEM;
	protocol_put(out, &(struct take_remainder_message){ fd });
	r = wire_pack(out);
	if (r < 0)
		return r;
	worker_send(w);
	return 0;
}

void worker_remainders_free(struct worker *w)
{
	if (w->ended)
		return;
	if (w->paced)
		paced_suspend(w->paced, false);
	(void)tell(w, REQUEST_FREE_REMAINDERS, 0, NULL);
}

void worker_suspend_pacing(struct worker *w)
{
	if (w->paced && !w->flush)
		paced_suspend(w->paced, true);
}

void worker_remainders_stop(struct worker *w, bool keep)
{
	if (w->ended)
		return;
	worker_suspend_pacing(w);
	w->stopped_usec = keep ? 0 : now_usec();
	if (tell_stop(w, 0, keep))
		worker_limit(w);
}

void worker_urgent(struct worker *w, bool on)
{
	if (w->paced)
		paced_urgent(w->paced, on);
}
