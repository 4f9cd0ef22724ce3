/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-worker: does for reclaimd what touches a user's tree, as that user.
 * This file becomes the submitter, in the order that nothing of a request is read before all is
 * given up. Then serve the intake role (intake-loop.c), which validates, stages and restores, the
 * delete role (deleter.c), or the proxy between reclaimd and one client (proxy/); or it holds
 * descriptors, and nothing else (keeper.c). */
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
#include "keeper.h"
#include "last-reference-process.h"
#include "worker/proxy/proxy.h"
#include "wire/remote-pace.h"
#include "serving.h"
#include "caller-view.h"
#include "base/array.h"
#include "base/thread.h"
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

static bool is_listening(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

/* Reads the first message. */
static int hello_take(struct serving *s, struct hello_message *h)
{
	struct protected_path path;
	size_t n = 0;
	int r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true);

	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	if (s->in.type != REQUEST_HELLO)
		return -EPROTO;
	r = protocol_get(&s->in, h);
	if (r >= 0 && (h->version != PROTOCOL_VERSION || h->deletes != (h->landlock >= 0) ||
		       (h->pace < 0) != (h->pace_page < 0) || h->groups.len % sizeof(gid_t) != 0))
		return -EPROTO;
	while (r >= 0 && (r = protocol_get_item(&s->in, &path)) > 0)
		r = strings_add(&s->protect_extra, &n, strdup(path.path));
	return r;
}

/* Becomes the submitter, and says so. Nothing of any request is read before. */
static int hello(struct serving *s)
{
	struct hello_message h = { 0 };
	int r = hello_take(s, &h), abi = 0;
	void *page = NULL;

	if (r >= 0)
		page = mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE, MAP_SHARED, h.page, 0);
	if (page == MAP_FAILED)
		r = -errno;
	else
		s->page = page;
	if (r >= 0 && h.pace >= 0)
		r = remote_pace_new(&s->pace, wire_keep_fd(&s->in, h.pace), h.pace_page);
	if (r < 0)
		return complain("invalid greeting from reclaimd", r);
	s->serial = s->in.serial;
	s->deletes = h.deletes;
	s->stall_usec = h.uid == 0 ? h.stall_usec : 0;
	/* Without it large files are unlinked whole, and jobs say so. */
	if (s->deletes)
		s->last_reference = last_reference_process_start(h.landlock);
	/* Before this process loses the right to start it. */
	if (s->deletes)
		(void)moosefs_start(&s->moosefs, h.landlock, NULL);
	r = credentials_become(h.uid, h.gid, h.groups.data, h.groups.len / sizeof(gid_t),
			       s->deletes);
	if (r >= 0)
		r = credentials_die_with_parent(
			wire_keep_fd(&s->in, h.death_pipe)); /* stays open */
	if (r < 0)
		return complain("cannot become the submitter", r);
	/* As the submitter, and before Landlock: a file is read for it. */
	if (s->moosefs && moosefs_connect(s->moosefs, h.landlock) < 0)
		s->moosefs = moosefs_close(s->moosefs);
	abi = s->deletes ? landlock_restrict_deleter(h.landlock) : landlock_restrict_intake();
	if (abi < 0)
		return complain("cannot restrict itself with Landlock", abi);
	wire_in_clear(&s->in);
	r = seccomp_restrict(s->deletes);
	if (r < 0)
		return complain("cannot restrict its system calls with seccomp", r);
	return answer(s, ANSWER_WELCOME,
		      &(struct welcome_message){ PROTOCOL_VERSION, (uint64_t)abi });
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
	struct serving s = { .sock = PROTOCOL_FD };
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
		r = is_listening(PROTOCOL_FD) ? keeper_serve(PROTOCOL_FD)
		    : type == SOCK_STREAM     ? proxy_serve(PROTOCOL_FD)
					      : serve();
	if (r < 0 && r != -EPIPE && type == SOCK_SEQPACKET)
		(void)complain("ends", r);
	/* Not exit: a process that may not be traced cannot be looked through for leaks. */
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
