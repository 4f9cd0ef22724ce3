/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "proxy.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox/seccomp.h"
#include "sandbox/credentials.h"
#include "sandbox/landlock.h"
#include "proxy-header.h"
#include "proxy-lines.h"
#include "base/fd.h"
#include "wire/protocol.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* Twice what the names in one call may be. */
#define MESSAGE_BYTES_MOST MiB(16)
/* What takes no permit. */
#define SHORT_BYTES KiB(64)
/* At most, in one go (the kernel's SCM_MAX_FD). */
#define FDS_MOST 253
/* Before a D-Bus message says how long it is. */
#define HEAD_BYTES 16
/* What the lines end with that come before the first message. */
#define BEGIN "BEGIN\r\n"

struct way {
	int from, to;
	size_t at, end; /* what is to be written of buf */
	char buf[KiB(64)];
};

struct proxy {
	enum protocol_speech speech;
	struct way up, down; /* to reclaimd, to the client */
	int permits;
	bool permitted, waits; /* for a permit */
	int nothing;
	size_t begun;           /* how much of BEGIN has been seen */
	size_t head, head_most; /* how much of the header has been read, and is known of */
	uint64_t left;          /* of the body */
	struct lines lines;     /* of Varlink, in up.buf */
	int fds[FDS_MOST];      /* that came with what is in up.buf */
	size_t n_fds;
};

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
};

/* ---- descriptors -------------------------------------------------------------------------- */

/* Replaces *fd by an O_PATH descriptor of the same directory, by which the daemon recognises a
 * directory without asking its filesystem. Returns false if it is not a directory. */
static bool reopen_directory(int *fd)
{
	char link[sizeof("/proc/self/fd/") + 12];
	int r;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", *fd);
	r = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r < 0)
		return false;
	(void)close(*fd);
	*fd = r;
	return true;
}

/* Returns true if names can be read from fd, and closing it never waits for another process: it is
 * a regular file in memory or on a local filesystem. Asking may hang. That harms only this
 * connection.
 */
static bool is_list(int fd)
{
	struct statx sx;
	struct statfs fs;

	if (fcntl(fd, F_GETFL) & O_PATH)
		return false;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &sx) <
		    0 ||
	    !S_ISREG(sx.stx_mode) || fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == EXT4_SUPER_MAGIC ||
	       fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC;
}

static int fds_take(struct proxy *p, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		/* Those that are not taken go with this process. */
		if (n > FDS_MOST - p->n_fds)
			return -EMSGSIZE;
		memcpy(p->fds + p->n_fds, CMSG_DATA(c), n * sizeof(int));
		p->n_fds += n;
	}
	return 0;
}

/* Receives up to `size` bytes, and the descriptors that come with them. Returns as recv(2), but an
 * error as a negative errno. */
static ssize_t receive(struct proxy *p, int sock, void *buf, size_t size)
{
	union control control;
	struct iovec v = { .iov_base = buf, .iov_len = size };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	int r = n < 0 ? -errno : fds_take(p, &m);

	return r < 0 ? r : n;
}

static void fds_close(struct proxy *p)
{
	while (p->n_fds > 0)
		(void)close(p->fds[--p->n_fds]);
}

static void fds_put(struct proxy *p, union control *c, struct msghdr *m)
{
	int pass[FDS_MOST];

	for (size_t i = 0; i < p->n_fds; i++) {
		int *fd = &p->fds[i];

		pass[i] = fd_is_directory(*fd) || reopen_directory(fd) || is_list(*fd) ? *fd
										       : p->nothing;
	}
	c->header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(p->n_fds * sizeof(int)) };
	memcpy(CMSG_DATA(&c->header), pass, p->n_fds * sizeof(int));
	m->msg_control = c;
	m->msg_controllen = CMSG_SPACE(p->n_fds * sizeof(int));
}

/* ---- up: from the client ------------------------------------------------------------------ */

/* Reads no further than the end of what comes before the first message. Descriptors that come with
 * it are left to the kernel. Returns as receive. */
static ssize_t read_lines(struct proxy *p)
{
	ssize_t n = recv(p->up.from, p->up.buf, sizeof(p->up.buf), MSG_PEEK);
	ssize_t end = 0;

	while (end < n && p->begun < strlen(BEGIN)) {
		char c = p->up.buf[end++];

		p->begun = c == BEGIN[p->begun] ? p->begun + 1 : c == BEGIN[0] ? 1 : 0;
	}
	if (n > 0)
		n = recv(p->up.from, p->up.buf, (size_t)end, 0);
	return n < 0 ? -errno : n;
}

/* Sees how long the message is. */
static int length_read(struct proxy *p)
{
	uint64_t most;
	bool little = p->up.buf[0] == 'l';
	uint32_t body, fields;

	if (!little && p->up.buf[0] != 'B')
		return -EBADMSG;
	memcpy(&body, p->up.buf + 4, sizeof(body));
	memcpy(&fields, p->up.buf + 12, sizeof(fields));
	body = little ? le32toh(body) : be32toh(body);
	fields = little ? le32toh(fields) : be32toh(fields);
	most = HEAD_BYTES + (((uint64_t)fields + 7) & ~UINT64_C(7));
	if (most > sizeof(p->up.buf) || body > MESSAGE_BYTES_MOST)
		return -EMSGSIZE;
	p->head_most = (size_t)most;
	p->left = body;
	return 0;
}

/* The header is whole: it goes on, and what may not come with it does not. */
static int head_end(struct proxy *p)
{
	p->up.end = p->head_most;
	p->waits = p->head_most + p->left > SHORT_BYTES && !p->permitted;
	if (p->n_fds > 0 && !header_may_carry((const uint8_t *)p->up.buf, p->head_most, p->n_fds))
		fds_close(p);
	return 1;
}

static int head_read(struct proxy *p, size_t n)
{
	int r = 0;

	p->head += n;
	if (p->head == HEAD_BYTES && p->head_most == HEAD_BYTES)
		r = length_read(p);
	if (r < 0)
		return r;
	return p->head < p->head_most ? 1 : head_end(p);
}

/* Reads no further than the end of a message, so that its descriptors come with it. */
static ssize_t read_message(struct proxy *p)
{
	if (p->head < p->head_most)
		return receive(p, p->up.from, p->up.buf + p->head, p->head_most - p->head);
	return receive(p, p->up.from, p->up.buf, MIN(p->left, sizeof(p->up.buf)));
}

/* Of Varlink: lets go what may. */
static int lines_release(struct proxy *p)
{
	bool is_long;
	int r = lines_ready(&p->lines, p->up.buf, sizeof(p->up.buf), &p->up.end, &is_long);

	p->up.at = 0;
	p->waits = is_long && !p->permitted;
	return r < 0 ? r : 1;
}

/* Descriptors mean nothing there: they are received only to be closed here. */
static int varlink_read(struct proxy *p)
{
	ssize_t n = receive(p, p->up.from, p->up.buf + p->lines.held,
			    sizeof(p->up.buf) - p->lines.held);

	fds_close(p);
	if (n <= 0)
		return n == -EAGAIN || n == -EINTR ? 1 : (int)n;
	p->lines.held += (size_t)n;
	assert(p->lines.held <= sizeof(p->up.buf));
	return lines_release(p);
}

/* Returns 1, 0 at the end, or a negative errno. */
static int dbus_read(struct proxy *p)
{
	bool lines = p->begun < strlen(BEGIN);
	ssize_t n = lines ? read_lines(p) : read_message(p);

	if (n <= 0)
		return n == -EAGAIN || n == -EINTR ? 1 : (int)n;
	p->up.at = p->up.end = 0;
	if (!lines && p->head < p->head_most)
		return head_read(p, (size_t)n);
	/* Descriptors come with the beginning of a message. */
	if (p->n_fds > 0)
		return -EBADMSG;
	p->up.end = (size_t)n;
	if (!lines)
		p->left -= (size_t)n;
	return 1;
}

static int up_read(struct proxy *p)
{
	return p->speech == SPEECH_VARLINK ? varlink_read(p) : dbus_read(p);
}

static int permit_give(struct proxy *p)
{
	const uint64_t one = 1;

	if (!p->permitted)
		return 1;
	p->permitted = false;
	return write(p->permits, &one, sizeof(one)) < 0 ? -errno : 1;
}

/* What was to be written has been. */
static int varlink_written(struct proxy *p)
{
	int r = lines_gone(&p->lines, p->up.buf, p->up.end) ? permit_give(p) : 1;

	return r < 0 ? r : lines_release(p);
}

static int dbus_written(struct proxy *p)
{
	if (p->head < p->head_most || p->left > 0)
		return 1;
	/* That was the last of a message. */
	p->head = 0;
	p->head_most = HEAD_BYTES;
	return permit_give(p);
}

static int up_write(struct proxy *p)
{
	union control control = { .room = { 0 } };
	struct iovec v = { .iov_base = p->up.buf + p->up.at, .iov_len = p->up.end - p->up.at };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n;

	if (p->n_fds > 0)
		fds_put(p, &control, &m);
	n = sendmsg(p->up.to, &m, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	p->up.at += (size_t)n;
	assert(p->up.at <= p->up.end && p->up.end <= sizeof(p->up.buf));
	/* This may be the end of this process; reclaimd has what it gets. */
	fds_close(p);
	if (p->up.at < p->up.end)
		return 1;
	return p->speech == SPEECH_VARLINK ? varlink_written(p) : dbus_written(p);
}

static int permit_take(struct proxy *p)
{
	uint64_t one;

	if (read(p->permits, &one, sizeof(one)) < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	p->permitted = true;
	p->waits = false;
	return 1;
}

/* ---- down: from reclaimd ------------------------------------------------------------------ */

static int down_read(struct way *w)
{
	ssize_t n = recv(w->from, w->buf, sizeof(w->buf), 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	w->at = 0;
	w->end = (size_t)n;
	return n > 0;
}

static int down_write(struct way *w)
{
	ssize_t n = send(w->to, w->buf + w->at, w->end - w->at, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	w->at += (size_t)n;
	assert(w->at <= w->end && w->end <= sizeof(w->buf));
	return 1;
}

static bool is_empty(const struct way *w)
{
	return w->at == w->end;
}

/* reclaimd has closed: its last words, as far as the client takes them at once. */
static void drain(struct way *w)
{
	do {
		while (!is_empty(w)) {
			size_t before = w->at;

			if (down_write(w) < 0 || w->at == before)
				return;
		}
	} while (down_read(w) > 0 && !is_empty(w));
}

/* ------------------------------------------------------------------------------------------- */

/* Waits for something to do, and does it. Returns 1, 0 at the end, or a negative errno. */
static int turn(struct proxy *p)
{
	bool up = !is_empty(&p->up), down = !is_empty(&p->down);
	struct pollfd v[] = {
		{ .fd = p->up.from, .events = (short)((up ? 0 : POLLIN) | (down ? POLLOUT : 0)) },
		{ .fd = p->up.to,
		  .events = (short)((down ? 0 : POLLIN) | (up && !p->waits ? POLLOUT : 0)) },
		{ .fd = p->waits ? p->permits : -1, .events = POLLIN },
	};
	int r = 1;

	/* That the client has closed is seen when it is read from. */
	if (v[0].events == 0)
		v[0].fd = -1;
	if (poll(v, 3, -1) < 0)
		return errno == EINTR ? 1 : -errno;
	if (v[1].revents & (POLLHUP | POLLERR)) {
		drain(&p->down);
		return 0;
	}
	if (v[2].revents)
		r = permit_take(p);
	if (r > 0 && !up && v[0].revents & (POLLIN | POLLHUP | POLLERR))
		r = up_read(p);
	if (r > 0 && !is_empty(&p->up) && !p->waits)
		r = up_write(p);
	if (r > 0 && !down && v[1].revents & POLLIN)
		r = down_read(&p->down);
	if (r > 0 && !is_empty(&p->down))
		r = down_write(&p->down);
	return r;
}

/* Takes what reclaimd has begun with. */
static int greeting_take(struct proxy *p, int sock)
{
	char byte;
	ssize_t n = receive(p, sock, &byte, 1);

	if (n < 0)
		return (int)n;
	if (n == 0 || p->n_fds != 2)
		return -EPROTO;
	p->up.from = p->down.to = p->fds[0];
	p->up.to = p->down.from = sock;
	p->permits = p->fds[1];
	p->speech = byte == SPEECH_VARLINK ? SPEECH_VARLINK : SPEECH_DBUS;
	p->n_fds = 0;
	return 0;
}

static int become_client(int client)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);
	int r;

	if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	r = credentials_become(cred.uid, cred.gid, NULL, 0, /* deletes= */ false);
	if (r >= 0)
		r = landlock_restrict_proxy();
	return r < 0 ? r : seccomp_restrict(/* deletes= */ false);
}

int proxy_serve(int sock)
{
	struct proxy p = { .head_most = HEAD_BYTES };
	int r;

	(void)prctl(PR_SET_NAME, "reclaim-proxy");
	r = greeting_take(&p, sock);
	if (r < 0)
		return r;
	p.nothing = open("/dev/null", O_PATH | O_CLOEXEC);
	if (p.nothing < 0)
		return -errno;
	r = become_client(p.up.from);
	if (r < 0)
		return r;
	do
		r = turn(&p);
	while (r > 0);
	(void)permit_give(&p);
	return r;
}
