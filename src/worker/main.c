/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-worker: does for reclaimd what touches a user's tree, as that user.
 * This file becomes the submitter, in the order that nothing of a request is read before all is
 * given up. Then serve the intake role (intake-loop.c), which validates, stages and restores, the
 * delete role (deleter.c), or the proxy between reclaimd and one client (proxy/). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/seccomp.h"
#include "sandbox/credentials.h"
#include "moosefs/moosefs.h"
#include "engine/guard/protect.h"
#include "sandbox/landlock.h"
#include "last-reference-process.h"
#include "worker/proxy/proxy.h"
#include "wire/remote-pace.h"
#include "serving.h"
#include "caller-view.h"
#include "base/array.h"
#include "base/courtesy.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"

static int complain(const char *what, int error)
{
	struct safe_text t;

	safe_text_format(&t, "%s: %s", what, strerror(-error));
	safe_text_print("reclaim-worker", &t);
	return error;
}

/* Only what reclaimd gave us: the standard streams and the socket. */
static int surroundings_clear(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct rlimit rl;

	/* It was run by its descriptor, which has no name to show. */
	(void)prctl(PR_SET_NAME, "reclaim-worker");
	(void)umask(077);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (close_range(PROTOCOL_FD + 1, ~0U, 0) < 0)
		return -errno;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = MIN(rl.rlim_max, (rlim_t)65536);
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
	return 0;
}

/* Of which type the socket is; 0: it is none. */
static int socket_type(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 ? type : 0;
}

static int page_map(struct serving *s, int fd)
{
	void *p = mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	s->page = p;
	return 0;
}

static int protect_take(struct serving *s)
{
	size_t n = 0;
	int r = 0;

	while (r >= 0 && !s->in.error && s->in.left > 0)
		r = strings_add(&s->protect_extra, &n, strdup(wire_get_string(&s->in)));
	return r;
}

struct hello {
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t groups_len;
	int death_pipe;
};

/* Reads the first message. */
static int hello_take(struct serving *s, struct hello *h)
{
	_cleanup_close_ int page = -1, pace = -1, pace_page = -1;
	uint64_t flags;
	int r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true);

	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	if (s->in.type != REQUEST_HELLO || wire_get(&s->in) != PROTOCOL_VERSION)
		return -EPROTO;
	s->serial = s->in.serial;
	s->deletes = wire_get_most(&s->in, 1);
	h->uid = (uid_t)wire_get_most(&s->in, UINT32_MAX - 1);
	h->gid = (gid_t)wire_get_most(&s->in, UINT32_MAX - 1);
	flags = wire_get_most(&s->in, HELLO_PACED);
	s->stall_usec = wire_get(&s->in);
	h->groups = wire_get_bytes(&s->in, &h->groups_len);
	page = wire_get_fd(&s->in);
	h->death_pipe = wire_get_fd(&s->in);
	if (s->deletes)
		s->landlock_fd = wire_get_fd(&s->in);
	if (flags & HELLO_PACED) {
		pace = wire_get_fd(&s->in);
		pace_page = wire_get_fd(&s->in);
	}
	r = protect_take(s);
	if (r >= 0)
		r = wire_end(&s->in);
	if (r >= 0 && h->groups_len % sizeof(gid_t) != 0)
		r = -EBADMSG;
	if (r >= 0)
		r = page_map(s, page);
	if (r >= 0 && pace >= 0)
		r = remote_pace_new(&s->pace, fd_take(&pace), pace_page);
	return r;
}

/* Becomes the submitter, and says so. Nothing of any request is read before. */
static int hello(struct serving *s)
{
	struct hello h = { .death_pipe = -1 };
	struct wire_out *o;
	int r = hello_take(s, &h), abi = 0;

	if (r < 0)
		return complain("invalid greeting from reclaimd", r);
	/* Without it large files are unlinked whole, and jobs say so. */
	if (s->deletes)
		s->last_reference = last_reference_process_start(s->landlock_fd);
	/* Before this process loses the right to start it. */
	if (s->deletes)
		(void)moosefs_start(&s->moosefs, s->landlock_fd, NULL);
	r = credentials_become(h.uid, h.gid, h.groups, h.groups_len / sizeof(gid_t), s->deletes);
	if (r >= 0)
		r = credentials_die_with_parent(h.death_pipe); /* stays open */
	if (r < 0)
		return complain("cannot become the submitter", r);
	if (h.uid != 0)
		s->stall_usec = 0;
	/* As the submitter, and before Landlock: a file is read for it. */
	if (s->moosefs && moosefs_connect(s->moosefs, s->landlock_fd) < 0)
		s->moosefs = moosefs_close(s->moosefs);
	abi = s->deletes ? landlock_restrict_deleter(s->landlock_fd) : landlock_restrict_intake();
	if (abi < 0)
		return complain("cannot restrict itself with Landlock", abi);
	fd_closep(&s->landlock_fd);
	r = seccomp_restrict(s->deletes);
	if (r < 0)
		return complain("cannot restrict its system calls with seccomp", r);
	s->uid = h.uid;
	s->gid = h.gid;
	o = answer_begin(s, ANSWER_WELCOME);
	wire_put(o, PROTOCOL_VERSION);
	wire_put(o, (uint64_t)abi);
	return answer_send(s);
}

static void serving_done(struct serving *s)
{
	wire_in_done(&s->in);
	wire_out_done(&s->out);
	protect_free(s->protect);
	view_free(s->view);
	remote_pace_free(s->pace);
	last_reference_process_free(s->last_reference);
	moosefs_close(s->moosefs);
	for (char **p = s->protect_extra; p && *p; p++)
		free(*p);
	free(s->protect_extra);
}

static int serve(void)
{
	struct serving s = { .sock = PROTOCOL_FD, .landlock_fd = -1 };
	int r = hello(&s);

	if (r >= 0)
		r = s.deletes ? delete_serve(&s) : intake_serve(&s);
	serving_done(&s);
	return r;
}

int main(void)
{
	int type = socket_type(PROTOCOL_FD), r;

	if (type != SOCK_SEQPACKET && type != SOCK_STREAM) {
		(void)fputs("reclaim-worker: is started by reclaimd, not by hand\n", stderr);
		return EXIT_FAILURE;
	}
	debug_begin();
	courtesy_show();
	r = surroundings_clear();
	if (r >= 0)
		r = type == SOCK_STREAM ? proxy_serve(PROTOCOL_FD) : serve();
	if (r < 0 && r != -EPIPE && type == SOCK_SEQPACKET)
		(void)complain("ends", r);
	/* Not exit: a process that may not be traced cannot be looked through for leaks. */
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
