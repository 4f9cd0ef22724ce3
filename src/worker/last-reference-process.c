/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "last-reference-process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/seccomp.h"
#include "sandbox/credentials.h"
#include "engine/remove/last-reference.h"
#include "engine/filesystem/profile.h"
#include "base/fd.h"
#include "wire/protocol.h"

/* ASK (fds: file, directory), and GO once the asking process has closed its own descriptor of the
 * file; the answer is that of the protocol for what was opened. */
enum message { ASK = 1, GO, TAKEN = ANSWER_OPENED };

struct last_reference_process {
	struct last_reference face;
	pthread_mutex_t lock; /* one question at a time */
	int sock;
	int death_pipe; /* the only end for writing of a pipe: with it the other process ends */
	struct wire_out out;
	struct wire_in in;
};

/* ---- the process that answers ---- */

static int receive(int sock, struct wire_in *in, enum message type)
{
	int r = wire_receive(sock, in, 0, /* allow_long= */ false);

	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	return in->type == type ? 0 : -EBADMSG;
}

static int answer_one(int sock, const struct last_reference *l, struct wire_in *in,
		      struct wire_out *out)
{
	_cleanup_close_ int fd = -1, dirfd = -1;
	int r = receive(sock, in, ASK);

	if (r < 0)
		return r;
	fd = wire_get_fd(in);
	dirfd = wire_get_fd(in);
	r = wire_end(in);
	if (r >= 0)
		r = receive(sock, in, GO);
	if (r >= 0)
		r = wire_end(in);
	if (r < 0)
		return r;
	fd = l->take(l->userdata, fd_take(&fd), dirfd);
	wire_begin(out, TAKEN, 0);
	protocol_put(out, &(struct opened_message){ MIN(fd, 0), MAX(fd, -1) });
	/* Which closes it here: else it would not be the last one. */
	return wire_post(sock, out);
}

static int answer_all(int sock, int death_pipe)
{
	struct last_reference_local *l = NULL;
	struct wire_in in = { 0 };
	struct wire_out out = { 0 };
	int r = last_reference_local_new(&l);

	/* The end of the socket would not end it where it hangs in a filesystem, nor would a user's
	 * worker be allowed to send it a signal, as PR_SET_PDEATHSIG has it do. */
	if (r >= 0)
		r = credentials_die_with_parent(death_pipe);
	if (r >= 0)
		r = credentials_keep_for_last_reference();
	if (r >= 0)
		r = seccomp_restrict_last_reference();
	while (r >= 0)
		r = answer_one(sock, last_reference_local(l), &in, &out);
	return r;
}

_Noreturn static void process(int sock, int death_pipe)
{
	/* Nothing of what the deleter was given stays, its socket to reclaimd included. That is
	 * PROTOCOL_FD, so death_pipe is another. */
	if (dup2(sock, PROTOCOL_FD) < 0 || dup2(death_pipe, PROTOCOL_FD + 1) < 0 ||
	    close_range(PROTOCOL_FD + 2, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
	(void)prctl(PR_SET_NAME, "reclaim-lastref");
	_exit(answer_all(PROTOCOL_FD, PROTOCOL_FD + 1) == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- the process that asks ---- */

/* Returns the descriptor or a negative errno. */
static int ask(struct last_reference_process *p, int *fd, int dirfd)
{
	struct opened_message m;
	int r;

	wire_begin(&p->out, ASK, 0);
	wire_put_fd(&p->out, *fd);
	wire_put_fd(&p->out, dirfd);
	fd_closep(fd);
	r = wire_post(p->sock, &p->out);
	wire_begin(&p->out, GO, 0);
	if (r >= 0)
		r = wire_post(p->sock, &p->out);
	if (r >= 0)
		r = receive(p->sock, &p->in, TAKEN);
	if (r < 0)
		return r;
	r = protocol_get(&p->in, &m);
	if (r < 0)
		return r;
	return m.error ? m.error : m.fd < 0 ? -EBADMSG : wire_keep_fd(&p->in, m.fd);
}

static int take(void *userdata, int fd, int dirfd)
{
	_cleanup_close_ int own = fd;
	struct last_reference_process *p = userdata;
	int r;

	pthread_mutex_lock(&p->lock);
	r = ask(p, &own, dirfd);
	pthread_mutex_unlock(&p->lock);
	return r;
}

struct last_reference_process *last_reference_process_start(int dirfd)
{
	struct last_reference_process *p;
	_cleanup_close_ int sock = -1, its_sock = -1, death_pipe = -1, its_death_pipe = -1;
	int pair[2];
	pid_t pid;

	if (!profile_shrinks(dirfd) || last_reference_check(dirfd) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return NULL;
	sock = pair[0];
	its_sock = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return NULL;
	its_death_pipe = pair[0];
	death_pipe = pair[1];
	pid = fork();
	if (pid == 0)
		process(its_sock, its_death_pipe);
	/* A process that was started ends when the pipe is closed. */
	p = pid < 0 ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct last_reference_process){ .face = { .take = take, .userdata = p },
					      .sock = fd_take(&sock),
					      .death_pipe = fd_take(&death_pipe) };
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

struct last_reference_process *last_reference_process_free(struct last_reference_process *p)
{
	if (!p)
		return NULL;
	fd_closep(&p->sock);
	fd_closep(&p->death_pipe);
	wire_in_done(&p->in);
	wire_out_done(&p->out);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

const struct last_reference *last_reference_process(struct last_reference_process *p)
{
	return p ? &p->face : NULL;
}
