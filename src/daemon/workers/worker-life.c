/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/filesystem/profile.h"
#include "pacers.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "worker-handle-state.h"
#include "worker-process.h"

/* A worker that says nothing for so long, though it should, is hung. Those that are at work say so
 * every second; but a single call may wait for a slow disk. */
#define SILENCE_MOST (30 * USEC_PER_SEC)

/* Whether one has to be given up is looked at so often. One that deletes may work for hours without
 * a word, but its user may stop its process. */
#define POLL_USEC (5 * USEC_PER_SEC)

/* Its end of the socket is closed: so long until it must be gone. */
#define CLOSED_MOST USEC_PER_SEC

/* Messages taken in one go, so that other sources have their turn. */
#define MESSAGES_MOST 64

struct worker *worker_ref(struct worker *w)
{
	assert(w->n_refs > 0);
	w->n_refs++;
	return w;
}

static struct worker *worker_destroy(struct worker *w)
{
	sd_event_source_disable_unref(w->io);
	sd_event_source_disable_unref(w->process);
	sd_event_source_disable_unref(w->limit);
	fd_closep(&w->sock);
	if (w->page)
		(void)munmap(w->page, sizeof(*w->page));
	messages_free(&w->out);
	wire_in_done(&w->in);
	sd_event_unref(w->event);
	free(w);
	return NULL;
}

struct worker *worker_unref(struct worker *w)
{
	assert(w->n_refs > 0);
	return --w->n_refs == 0 ? worker_destroy(w) : NULL;
}

/* Nothing is heard from it, and nothing said to it any more. */
static void end(struct worker *w, int error, bool kill_now)
{
	struct request *rq;

	w->ended = true;
	w->io = sd_event_source_disable_unref(w->io);
	w->process = sd_event_source_disable_unref(w->process);
	w->limit = sd_event_source_disable_unref(w->limit);
	fd_closep(&w->sock);
	if (w->left)
		w->left(w->watch.userdata);
	process_reap(w->event, fd_take(&w->pidfd), fd_take(&w->death_pipe), kill_now, &w->watch);
	w->paced = pacers_detach(w->paced);
	while ((rq = request_take(w)))
		request_fail(rq, error);
	assert(w->n_requests == 0);
	rq = w->flush;
	w->flush = NULL;
	if (rq)
		request_fail(rq, error);
}

void worker_fail(struct worker *w, const char *how)
{
	if (w->ended)
		return;
	end(w, -EPIPE, /* kill_now= */ true);
	if (w->gone)
		w->gone(w, how, w->userdata);
}

struct worker *worker_free(struct worker *w)
{
	if (!w)
		return NULL;
	w->gone = NULL;
	if (!w->ended)
		end(w, -ECANCELED, /* kill_now= */ false);
	return worker_unref(w);
}

/* When it has to be given up, as things are; 0: never. */
static uint64_t limit_usec(const struct worker *w)
{
	if (w->closed)
		return w->closed_usec + CLOSED_MOST;
	if (w->held)
		return 0;
	if (w->stopped_usec)
		return w->stopped_usec + SILENCE_MOST;
	if (w->n_requests == 0)
		return 0;
	if (w->role == WORKER_INTAKE || !w->welcome)
		return w->heard_usec + SILENCE_MOST;
	if (w->signal_usec)
		return w->signal_usec + SILENCE_MOST;
	return 0;
}

/* A deleter at work does not tell that it is alive: whether it is stopped by a signal has to be
 * asked. */
static bool is_polled(const struct worker *w)
{
	return w->role == WORKER_DELETE && w->welcome && !w->held && w->n_requests > 0;
}

static const char *why(const struct worker *w)
{
	if (w->closed)
		return "closed its socket";
	return w->signal_usec ? "was stopped by a signal, and did not go on" : "does not answer";
}

static int on_limit(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct worker *w = userdata;
	uint64_t now = now_usec(), limit;

	(void)s;
	(void)usec;
	if (!is_polled(w) || !process_stopped(w->pidfd))
		w->signal_usec = 0;
	else if (w->signal_usec == 0)
		w->signal_usec = now;
	limit = limit_usec(w);
	if (limit == 0 || limit > now) {
		worker_limit(w);
		return 0;
	}
	worker_ref(w);
	worker_fail(w, why(w));
	worker_unref(w);
	return 0;
}

void worker_limit(struct worker *w)
{
	int on = SD_EVENT_OFF;

	if (!w->limit || (!is_polled(w) && limit_usec(w) == 0))
		return;
	(void)sd_event_source_get_enabled(w->limit, &on);
	if (on != SD_EVENT_OFF && !w->closed)
		return;
	(void)sd_event_source_set_time(w->limit, w->closed ? w->closed_usec + CLOSED_MOST
							   : now_usec() + POLL_USEC);
	(void)sd_event_source_set_enabled(w->limit, SD_EVENT_ONESHOT);
}

/* Takes what has come, at most `most` messages. False if the worker is no more. */
static bool receive_some(struct worker *w, unsigned most)
{
	for (unsigned i = 0; i < most && !w->ended && !w->held; i++) {
		int r = worker_receive(w);

		if (r == -EAGAIN)
			break;
		if (r == 0 || r == -ECONNRESET) {
			/* The process ends in a moment, and says how. */
			w->closed = true;
			w->closed_usec = now_usec();
			(void)sd_event_source_set_enabled(w->io, SD_EVENT_OFF);
			worker_limit(w);
			break;
		}
		if (r < 0)
			worker_fail(w, r == -EBADMSG ? "said what makes no sense" : strerror(-r));
	}
	return !w->ended;
}

static int on_io(sd_event_source *s, int fd, uint32_t events, void *userdata)
{
	struct worker *w = worker_ref(userdata);

	(void)s;
	(void)fd;
	if (events & EPOLLOUT)
		worker_send(w);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		(void)receive_some(w, MESSAGES_MOST);
	worker_unref(w);
	return 0;
}

static int on_process(sd_event_source *s, int fd, uint32_t events, void *userdata)
{
	struct worker *w = userdata;
	char how[64];

	(void)s;
	(void)events;
	if (!process_ended(fd, how, sizeof(how)))
		return 0;
	worker_ref(w);
	/* First the source: a process that is just being started may have a copy of the descriptor,
	 * and as long as it has, closing ours takes nothing out of the loop. */
	w->process = sd_event_source_disable_unref(w->process);
	fd_closep(&w->pidfd);
	/* What it said before is still true. */
	if (receive_some(w, UINT32_MAX))
		worker_fail(w, how);
	worker_unref(w);
	return 0;
}

/* The page that it shares with us: of a size that it cannot change under our feet. */
static int page_make(struct worker *w, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("reclaim-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*w->page)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	p = mmap(NULL, sizeof(*w->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	w->page = p;
	*ret_fd = fd_take(&fd);
	return 0;
}

static int sources_add(struct worker *w)
{
	int r = sd_event_add_io(w->event, &w->io, w->sock, EPOLLIN, on_io, w);

	if (r >= 0)
		r = sd_event_add_io(w->event, &w->process, w->pidfd, EPOLLIN, on_process, w);
	if (r >= 0)
		r = sd_event_add_time(w->event, &w->limit, CLOCK_MONOTONIC, UINT64_MAX,
				      USEC_PER_SEC, on_limit, w);
	if (r >= 0)
		r = sd_event_source_set_enabled(w->limit, SD_EVENT_OFF);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(w->io, "worker-socket");
	(void)sd_event_source_set_description(w->process, "worker-process");
	(void)sd_event_source_set_description(w->limit, "worker-limit");
	return 0;
}

/* What the mount options say about it; no, if they are unavailable. */
static bool discards(int fd)
{
	struct mounts mounts = { 0 };
	const struct mount *m = NULL;
	struct identity where;
	bool yes;

	if (fd_whereabouts(fd, "", 0, &where) >= 0 &&
	    mounts_read(&mounts, "/proc/self/mountinfo") >= 0) {
		m = mounts_by_id(&mounts, where.mnt_id);
		/* Opened by the daemon before, in a mount namespace of its own. */
		m = m ? m : mounts_by_dev(&mounts, where.dev);
	}
	yes = mount_has_option(m, "discard");
	mounts_done(&mounts);
	return yes;
}

static int pace_make(struct worker *w, const struct worker_options *o, struct hello_message *h)
{
	/* Only where it is ours are nameless files made to see what a sync costs: in staging, which
	 * is open for reading, and not in a user's own directory. */
	bool ours = (fcntl(o->landlock_fd, F_GETFL) & (O_PATH | O_DIRECTORY)) == O_DIRECTORY;

	if (o->role != WORKER_DELETE || !o->pacers)
		return 0;
	return pacers_attach(o->pacers, o->landlock_fd, ours ? o->landlock_fd : -1,
			     discards(o->landlock_fd), &w->paced, &h->pace, &h->pace_page);
}

static int process_make(struct worker *w, const struct worker_options *o)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	w->sock = pair[0];
	r = process_start(o->program, pair[1], &w->pidfd);
	return r < 0 ? r : sources_add(w);
}

static int start(struct worker *w, const struct worker_options *o)
{
	struct hello_message h = {
		.page = -1, .death_pipe = -1, .landlock = -1, .pace = -1, .pace_page = -1
	};
	int ends[2] = { -1, -1 }, r = page_make(w, &h.page);

	if (r >= 0)
		r = pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
	h.death_pipe = ends[0];
	w->death_pipe = ends[1];
	if (r >= 0)
		r = pace_make(w, o, &h);
	if (r >= 0)
		r = process_make(w, o);
	if (r >= 0)
		r = worker_greet(w, o, &h);
	fd_closep(&h.page);
	fd_closep(&h.death_pipe);
	fd_closep(&h.pace);
	fd_closep(&h.pace_page);
	return r;
}

int worker_new(struct worker **ret, sd_event *event, const struct worker_options *o)
{
	struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct worker){
		.n_refs = 1,
		.role = o->role,
		.landlock_abi = -1,
		.event = sd_event_ref(event),
		.sock = -1,
		.pidfd = -1,
		.death_pipe = -1,
		.heard_usec = now_usec(),
		.userdata = o->userdata,
	};
	STAILQ_INIT(&w->requests);
	STAILQ_INIT(&w->out);
	r = start(w, o);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	w->gone = o->gone;
	w->left = o->left;
	w->watch = (struct process_watch){ o->reaped, o->process_userdata };
	*ret = w;
	return 0;
}

bool worker_ended(const struct worker *w)
{
	return w->ended;
}

unsigned worker_busy(const struct worker *w)
{
	return w->n_requests;
}

int worker_landlock_abi(const struct worker *w)
{
	return w->landlock_abi;
}

void worker_hold(struct worker *w, bool hold)
{
	if (w->ended || w->closed || w->held == hold)
		return;
	w->held = hold;
	w->heard_usec = now_usec();
	(void)sd_event_source_set_enabled(w->io, hold ? SD_EVENT_OFF : SD_EVENT_ON);
	worker_limit(w);
}

void worker_give(struct worker *w, void (*gone)(struct worker *w, const char *how, void *userdata),
		 void *userdata)
{
	w->gone = gone;
	w->userdata = userdata;
}

void worker_progress(const struct worker *w, struct run_progress *ret)
{
	*ret = (struct run_progress){
		atomic_load_explicit(&w->page->entries, memory_order_relaxed),
		atomic_load_explicit(&w->page->bytes, memory_order_relaxed),
	};
}
