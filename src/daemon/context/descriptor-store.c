/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "descriptor-store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "log.h"
#include "wire/named-fd.h"

#define SOCKET "keeper"
/* What begins so is ours, and no socket that systemd listens at. */
#define PREFIX "reclaim-"

/* A keeper answers at once, unless it hangs in a filesystem. */
#define ANSWER_SECONDS 5

#define KEEPER_ROOM 1024

struct descriptor_store {
	const char *state_dir, *worker_program;
	unsigned systemd_room; /* 0: a keeper holds them */
	int sock;              /* to the keeper; -1: none */
	pid_t keeper;          /* a child of ours; 0: it was there before, or there is none */
	bool failed;           /* there is none to be had */
};

/* ---- systemd ----------------------------------------------------------------------------------
 */

/* Told by systemd 254 and later, to the process that it started itself. */
static unsigned systemd_room(void)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID"), *room = getenv("FDSTORE");

	if (!getenv("NOTIFY_SOCKET") || !pid || !room || strtol(pid, NULL, 10) != getpid())
		return 0;
	return (unsigned)strtoul(room, NULL, 10);
}

static void systemd_take(void (*each)(const char *name, int fd, void *userdata), void *userdata)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(/* unset_environment= */ 0, &names);

	for (int i = 0; i < n; i++) {
		if (strncmp(names[i], PREFIX, strlen(PREFIX)) == 0)
			each(names[i] + strlen(PREFIX), SD_LISTEN_FDS_START + i, userdata);
		free(names[i]);
	}
	free(names);
}

/* ---- the keeper -------------------------------------------------------------------------------
 */

/* Its address: by the directory's descriptor, as the path may be longer than an address. */
static int address(const struct descriptor_store *s, struct sockaddr_un *ret, int *ret_dirfd)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*ret_dirfd = open(s->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dirfd < 0)
		return -errno;
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" SOCKET,
		       *ret_dirfd);
	return 0;
}

static int keeper_connect(struct descriptor_store *s)
{
	_cleanup_close_ int dirfd = -1, sock = -1;
	struct timeval patience = { .tv_sec = ANSWER_SECONDS };
	struct sockaddr_un at;
	int r = address(s, &at, &dirfd);

	if (r < 0)
		return r;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	s->sock = fd_take(&sock);
	return 0;
}

static int keeper_start(struct descriptor_store *s)
{
	_cleanup_close_ int dirfd = -1, sock = -1;
	char *env[DEBUG_ENVIRONMENT];
	struct sockaddr_un at;
	int r = address(s, &at, &dirfd);

	if (r < 0)
		return r;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* That of one that has ended. */
	if (sock < 0 || (unlinkat(dirfd, SOCKET, 0) < 0 && errno != ENOENT) ||
	    bind(sock, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(sock, 1) < 0)
		return -errno;
	debug_environment(env);
	return spawn_program(s->worker_program, "reclaim-keeper", env, &sock, 1,
			     /* own_group= */ true, &s->keeper);
}

static void keeper_lost(struct descriptor_store *s, int r)
{
	fd_closep(&s->sock);
	if (s->keeper > 0 && waitpid(s->keeper, NULL, WNOHANG) == s->keeper)
		s->keeper = 0;
	if (!s->failed)
		log_line(LOG_WARNING,
			 "The process that would hold large files over a restart (reclaim-keeper) "
			 "cannot be used: %s. If reclaimd ends, the kernel frees at once what is "
			 "left of them",
			 strerror(-r));
	s->failed = true;
}

/* Takes what it holds up to the end of the list. Returns 0 or a negative errno. */
static int keeper_take(struct descriptor_store *s,
		       void (*each)(const char *name, int fd, void *userdata), void *userdata)
{
	char name[NAMED_FD_NAME];
	enum named_fd_verb verb = NAMED_FD_HELD;
	int fd, r = named_fd_send(s->sock, NAMED_FD_LIST, "", -1, 0);

	if (r < 0)
		return r;
	while ((r = named_fd_receive(s->sock, &verb, name, &fd)) > 0 && verb == NAMED_FD_HELD)
		each(name, fd, userdata);
	return r < 0 ? r : r == 0 ? -EPIPE : verb == NAMED_FD_ALL ? 0 : -EBADMSG;
}

/* Is there one? Started when it is needed. */
static bool keeper_is_there(struct descriptor_store *s)
{
	int r;

	if (s->sock >= 0 || s->failed)
		return s->sock >= 0;
	r = keeper_start(s);
	if (r >= 0)
		r = keeper_connect(s);
	if (r < 0)
		keeper_lost(s, r);
	return r >= 0;
}

static bool keeper_tell(struct descriptor_store *s, enum named_fd_verb verb, const char *name,
			int fd)
{
	int r = named_fd_send(s->sock, verb, name, fd, MSG_DONTWAIT);

	if (r < 0)
		keeper_lost(s, r);
	return r >= 0;
}

/* ---- both -------------------------------------------------------------------------------------
 */

int descriptor_store_new(struct descriptor_store **ret, const char *state_dir,
			 const char *worker_program)
{
	struct descriptor_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct descriptor_store){ .state_dir = state_dir,
					.worker_program = worker_program,
					.systemd_room = systemd_room(),
					.sock = -1 };
	*ret = s;
	return 0;
}

struct descriptor_store *descriptor_store_free(struct descriptor_store *s)
{
	if (!s)
		return NULL;
	fd_closep(&s->sock);
	free(s);
	return NULL;
}

void descriptor_store_take(struct descriptor_store *s,
			   void (*each)(const char *name, int fd, void *userdata), void *userdata)
{
	int r;

	if (s->systemd_room > 0) {
		systemd_take(each, userdata);
		return;
	}
	r = keeper_connect(s);
	if (r >= 0)
		r = keeper_take(s, each, userdata);
	/* There was none, or it was just about to end. */
	if (r == -ENOENT || r == -ECONNREFUSED || r == -EPIPE || r == -ECONNRESET)
		fd_closep(&s->sock);
	else if (r < 0)
		keeper_lost(s, r);
}

unsigned descriptor_store_room(struct descriptor_store *s)
{
	return s->systemd_room > 0 ? s->systemd_room : keeper_is_there(s) ? KEEPER_ROOM : 0;
}

bool descriptor_store_put(struct descriptor_store *s, const char *name, int fd)
{
	char state[96];

	if (s->systemd_room == 0)
		return keeper_is_there(s) && keeper_tell(s, NAMED_FD_PUT, name, fd);
	/* What is polled is taken out when it hangs up, which a file never does. */
	(void)snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=" PREFIX "%s\nFDPOLL=0", name);
	return sd_pid_notify_with_fds(0, /* unset_environment= */ 0, state, &fd, 1) > 0;
}

void descriptor_store_drop(struct descriptor_store *s, const char *name)
{
	if (s->systemd_room > 0)
		(void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" PREFIX "%s", name);
	else if (s->sock >= 0)
		(void)keeper_tell(s, NAMED_FD_DROP, name, -1);
}

void descriptor_store_describe(const struct descriptor_store *s, char *buf, size_t size)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	if (s->systemd_room > 0) {
		(void)snprintf(buf, size,
			       "systemd holds them (`systemctl clean --what=fdstore reclaimd` has "
			       "the kernel free them at once)");
		return;
	}
	(void)getsockopt(s->sock, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	(void)snprintf(buf, size,
		       "process %d (reclaim-keeper) holds them (`kill %d` has the kernel free them "
		       "at once)",
		       (int)(s->keeper > 0 ? s->keeper : peer.pid),
		       (int)(s->keeper > 0 ? s->keeper : peer.pid));
}
