/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-hold.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/program.h"
#include "base/spawn.h"

/* Told again when the target has changed by so much. */
#define CHANGED(a, b) ((a) > (b) + (b) / 4 || (b) > (a) + (a) / 4)

struct discard_hold {
	struct discard_request request; /* as last told */
	int sock;
};

/* Returns its socket or a negative errno. */
static int start(void)
{
	_cleanup_close_ int sock = -1, its = -1;
	char *const env[] = { NULL };
	char path[PATH_MAX];
	int pair[2], r;
	pid_t pid;

	if (geteuid() != 0)
		return -EPERM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	sock = pair[0];
	its = pair[1];
	r = program_find("reclaim-discards", path, sizeof(path));
	if (r >= 0)
		r = spawn_program(path, "reclaim-discards", env, &its, 1, /* own_group= */ true,
				  &pid);
	if (r < 0)
		return r;
	/* It leaves a process behind and ends at once. */
	(void)waitpid(pid, NULL, 0);
	return fd_take(&sock);
}

static int tell(struct discard_hold *h)
{
	return send(h->sock, &h->request, sizeof(h->request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0
		       ? -errno
		       : 0;
}

int discard_hold_new(struct discard_hold **ret, const struct discard_request *q)
{
	struct discard_hold *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->request = *q;
	r = h->sock = start();
	if (r >= 0)
		r = tell(h);
	if (r < 0) {
		discard_hold_free(h);
		return r;
	}
	*ret = h;
	return 0;
}

void discard_hold_target(struct discard_hold *h, uint64_t target_usec)
{
	if (!CHANGED(h->request.target_usec, target_usec))
		return;
	h->request.target_usec = target_usec;
	(void)tell(h);
}

bool discard_hold_works(const struct discard_hold *h)
{
	char byte;

	/* It says nothing, so that there is something to read only at the end. */
	return h && recv(h->sock, &byte, sizeof(byte), MSG_DONTWAIT) < 0;
}

struct discard_hold *discard_hold_free(struct discard_hold *h)
{
	if (!h)
		return NULL;
	fd_closep(&h->sock);
	free(h);
	return NULL;
}

void discard_hold_recover(void)
{
	_cleanup_(globfree) glob_t found = { 0 };
	int sock;

	if (glob(DISCARD_RUN "/" DISCARD_KEPT "*", 0, NULL, &found) != 0)
		return;
	sock = start();
	fd_closep(&sock);
}
