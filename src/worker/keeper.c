/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "sandbox/credentials.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"
#include "wire/named-fd.h"

/* reclaimd has a bound of its own, far below this one. */
#define HELD_MOST 4096

struct held {
	char name[NAMED_FD_NAME];
	int fd;
};

struct keeper {
	struct held *v;
	size_t n;
};

static void drop(struct keeper *k, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++) {
		if (strcmp(k->v[i].name, name) == 0)
			fd_closep(&k->v[i].fd);
		else
			k->v[kept++] = k->v[i];
	}
	k->n = kept;
}

static void put(struct keeper *k, const char *name, int fd)
{
	struct held *h = k->n < HELD_MOST ? array_add(&k->v, &k->n, sizeof(*h)) : NULL;

	if (!h) {
		fd_closep(&fd);
		return;
	}
	*h = (struct held){ .fd = fd };
	memcpy(h->name, name, strlen(name));
}

static int hand_over(const struct keeper *k, int sock)
{
	int r = 0;

	for (size_t i = 0; i < k->n && r >= 0; i++)
		r = named_fd_send(sock, NAMED_FD_HELD, k->v[i].name, k->v[i].fd, 0);
	return r < 0 ? r : named_fd_send(sock, NAMED_FD_ALL, "", -1, 0);
}

/* Until the client closes, or says what makes no sense. */
static void client_serve(struct keeper *k, int sock)
{
	char name[NAMED_FD_NAME];
	enum named_fd_verb verb;
	int fd, r = 0;

	while (r >= 0 && (r = named_fd_receive(sock, &verb, name, &fd)) > 0) {
		if (verb == NAMED_FD_PUT && fd >= 0)
			put(k, name, fd);
		else
			fd_closep(&fd);
		if (verb == NAMED_FD_DROP)
			drop(k, name);
		if (verb == NAMED_FD_LIST)
			r = hand_over(k, sock);
	}
}

static bool is_ours(int sock)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

/* What holds things for years needs no right to anything, and no terminal. */
static int confine(void)
{
	int r = credentials_drop_all();

	(void)signal(SIGHUP, SIG_IGN);
	(void)prctl(PR_SET_NAME, "reclaim-keeper");
	/* Where reclaimd's standard error leads to may be closed before this ends. */
	if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0 || chdir("/") < 0)
		return -errno;
	if (r >= 0)
		r = landlock_restrict_proxy();
	if (r >= 0)
		r = seccomp_restrict(/* deletes= */ false);
	return r;
}

int keeper_serve(int listening)
{
	struct keeper k = { 0 };
	int r = confine();

	/* Here, so that a client sees this process at the other end. */
	if (r >= 0 && listen(listening, 4) < 0)
		r = -errno;
	while (r >= 0) {
		int sock = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0 && errno != EINTR && errno != ECONNABORTED)
			r = -errno;
		if (sock < 0)
			continue;
		if (is_ours(sock))
			client_serve(&k, sock);
		fd_closep(&sock);
		if (k.n == 0)
			break;
	}
	return MIN(r, 0);
}
