/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "daemon/context/timer.h"
#include "daemon/workers/worker-process.h"

/* Messages that wait for it. */
#define WAITING_MOST 4096

/* Messages taken in one go, so that other sources have their turn. */
#define MESSAGES_MOST 64

#define AGAIN_FIRST_USEC USEC_PER_SEC
#define AGAIN_MOST_USEC (60 * USEC_PER_SEC)
/* One that has run for so long may be started again at once. */
#define LASTING_USEC (60 * USEC_PER_SEC)

/* Its end of the socket is closed: so long until it must be gone. */
#define CLOSED_USEC USEC_PER_SEC

struct said {
	STAILQ_ENTRY(said) entry;
	struct wire_out out; /* packed, but for the last */
};
STAILQ_HEAD(said_list, said);

struct fleet_link {
	sd_event *event;
	const char *program;
	const struct fleet_link_callbacks *callbacks;
	void *userdata;
	sd_event_source *child, *io, *start, *closed;
	int sock; /* -1: it does not run */
	struct said_list waiting;
	unsigned n_waiting;
	struct said *open; /* that is being filled, or NULL */
	struct wire_in in;
	uint64_t begun_usec, again_usec; /* again: the next pause */
	struct fleet_link **freed;       /* while a report is taken, which may free it: NULL then */
};

static void said_free(struct said *s)
{
	if (s)
		wire_out_done(&s->out);
	free(s);
}

static void waiting_drop(struct fleet_link *l)
{
	struct said *s;

	while ((s = STAILQ_FIRST(&l->waiting))) {
		STAILQ_REMOVE_HEAD(&l->waiting, entry);
		said_free(s);
	}
	l->n_waiting = 0;
	said_free(l->open);
	l->open = NULL;
}

/* It ends when its socket is closed, after a last word to the database, or is killed a moment
 * later. */
static void child_leave(struct fleet_link *l)
{
	int pidfd = l->child ? sd_event_source_get_child_pidfd(l->child) : -1;
	int own = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 3) : -1;

	if (own >= 0) {
		(void)sd_event_source_set_child_process_own(l->child, false);
		process_reap(l->event, own, -1, /* now= */ false, &(struct process_watch){ NULL });
	}
	/* Else it is killed here. */
	l->child = sd_event_source_disable_unref(l->child);
}

/* It is not spoken with any more. */
static void cut(struct fleet_link *l)
{
	l->io = sd_event_source_disable_unref(l->io);
	child_leave(l);
	l->closed = sd_event_source_disable_unref(l->closed);
	fd_closep(&l->sock);
	waiting_drop(l);
	wire_in_clear(&l->in);
}

struct fleet_link *fleet_link_free(struct fleet_link *l)
{
	if (!l)
		return NULL;
	if (l->freed)
		*l->freed = NULL;
	cut(l);
	l->start = sd_event_source_disable_unref(l->start);
	wire_in_done(&l->in);
	sd_event_unref(l->event);
	free(l);
	return NULL;
}

static int on_start(sd_event_source *s, uint64_t usec, void *userdata);

static void start_after(struct fleet_link *l, uint64_t after)
{
	(void)timer_after(l->event, &l->start, after, after / 8, on_start, l, "fleet-start");
}

/* It has ended, or is of no use. The link may be gone afterwards. */
static void fail(struct fleet_link *l, const char *how)
{
	uint64_t after;

	cut(l);
	if (l->begun_usec > 0 && now_usec() - l->begun_usec >= LASTING_USEC)
		l->again_usec = AGAIN_FIRST_USEC;
	l->begun_usec = 0;
	after = l->again_usec;
	l->again_usec = MIN(2 * l->again_usec, (uint64_t)AGAIN_MOST_USEC);
	start_after(l, after);
	l->callbacks->ended(how, l->userdata);
}

/* ---- what is said to it ------------------------------------------------------------------- */

static int flush(struct fleet_link *l)
{
	struct said *s;
	int r = 0;

	while (r >= 0 && (s = STAILQ_FIRST(&l->waiting))) {
		r = wire_send(l->sock, &s->out, MSG_DONTWAIT);
		if (r < 0)
			break;
		STAILQ_REMOVE_HEAD(&l->waiting, entry);
		l->n_waiting--;
		said_free(s);
	}
	(void)sd_event_source_set_io_events(l->io,
					    EPOLLIN | (STAILQ_EMPTY(&l->waiting) ? 0 : EPOLLOUT));
	/* That it is gone the loop is told in a moment. */
	return r == -EAGAIN || r == -EPIPE ? 0 : r;
}

struct wire_out *fleet_link_say(struct fleet_link *l, enum fleet_request type)
{
	assert(!l->open);
	if (l->sock < 0)
		return NULL;
	l->open = calloc(1, sizeof(*l->open));
	if (!l->open)
		return NULL;
	wire_begin(&l->open->out, type, /* serial= */ 0);
	return &l->open->out;
}

void fleet_link_send(struct fleet_link *l)
{
	struct said *s = l->open;

	l->open = NULL;
	assert(s);
	/* What is bounded by its maker always fits. */
	if (wire_pack(&s->out) < 0) {
		said_free(s);
		return;
	}
	STAILQ_INSERT_TAIL(&l->waiting, s, entry);
	l->n_waiting++;
	(void)flush(l);
	/* Not here: the caller is in the midst of something. */
	if (l->n_waiting > WAITING_MOST)
		(void)shutdown(l->sock, SHUT_RDWR);
}

/* ---- what it says ------------------------------------------------------------------------- */

/* Returns 1 after a message, 0 if there is none, -ENOTCONN if there will be none, or -ECANCELED if
 * it has failed, and the link may be gone. */
static int receive(struct fleet_link *l)
{
	struct fleet_link *is = l;
	int r = wire_receive(l->sock, &l->in, MSG_DONTWAIT, /* allow_long= */ false);

	if (r == -EAGAIN)
		return 0;
	if (r == 0 || r == -ECONNRESET)
		return -ENOTCONN;
	if (r > 0) {
		l->freed = &is;
		r = l->callbacks->report(&l->in, l->userdata);
		if (!is)
			return -ECANCELED;
		l->freed = NULL;
		if (r >= 0)
			return 1;
	}
	fail(l, r == -EBADMSG ? "said what makes no sense" : strerror(-r));
	return -ECANCELED;
}

static int on_closed(sd_event_source *s, uint64_t usec, void *userdata)
{
	(void)s;
	(void)usec;
	fail(userdata, "closed its socket");
	return 0;
}

static int on_io(sd_event_source *s, int fd, uint32_t events, void *userdata)
{
	struct fleet_link *l = userdata;
	int r = 1;

	(void)s;
	(void)fd;
	if (events & EPOLLOUT)
		(void)flush(l);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		for (unsigned i = 0; i < MESSAGES_MOST && r > 0; i++)
			r = receive(l);
	if (r != -ENOTCONN)
		return 0;
	/* The process ends in a moment, and says how. */
	(void)sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
	return timer_after(l->event, &l->closed, CLOSED_USEC, 0, on_closed, l, "fleet-closed");
}

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata)
{
	struct fleet_link *l = userdata;
	char how[64];
	int r = 1;

	(void)s;
	if (si->si_code == CLD_EXITED)
		(void)snprintf(how, sizeof(how), "ended with status %d", si->si_status);
	else
		(void)snprintf(how, sizeof(how), "was killed by signal %d", si->si_status);
	/* What it said before is still true. */
	while (r > 0)
		r = receive(l);
	if (r != -ECANCELED)
		fail(l, how);
	return 0;
}

/* ---- its life ----------------------------------------------------------------------------- */

static int start(struct fleet_link *l)
{
	_cleanup_close_ int its = -1;
	int pair[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	l->sock = pair[0];
	its = pair[1];
	r = spawn_program(l->program, "reclaim-fleet", environ, &its, 1, /* own_group= */ false,
			  &pid);
	if (r < 0)
		return r;
	r = sd_event_add_child(l->event, &l->child, pid, WEXITED, on_child, l);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	(void)sd_event_source_set_child_process_own(l->child, true);
	(void)sd_event_source_set_description(l->child, "fleet-process");
	r = sd_event_add_io(l->event, &l->io, l->sock, EPOLLIN, on_io, l);
	if (r >= 0)
		(void)sd_event_source_set_description(l->io, "fleet-socket");
	return r;
}

static int on_start(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct fleet_link *l = userdata;
	int r = start(l);

	(void)s;
	(void)usec;
	if (r < 0) {
		fail(l, strerror(-r));
		return 0;
	}
	l->begun_usec = now_usec();
	l->callbacks->began(l->userdata);
	return 0;
}

int fleet_link_new(struct fleet_link **ret, sd_event *event, const char *program,
		   const struct fleet_link_callbacks *callbacks, void *userdata)
{
	struct fleet_link *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	*l = (struct fleet_link){ .event = sd_event_ref(event),
				  .program = program,
				  .callbacks = callbacks,
				  .userdata = userdata,
				  .sock = -1,
				  .again_usec = AGAIN_FIRST_USEC };
	STAILQ_INIT(&l->waiting);
	r = timer_after(event, &l->start, 0, 1, on_start, l, "fleet-start");
	if (r < 0) {
		fleet_link_free(l);
		return r;
	}
	*ret = l;
	return 0;
}
