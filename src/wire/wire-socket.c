/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How messages get through a socket. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire.h"

/* Nobody can change or shorten it any more: it is read without a copy having to be compared. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static int write_all(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Moves everything behind the header to a file. */
static int move_to_file(struct wire_out *o)
{
	_cleanup_close_ int fd = memfd_create("reclaim-message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, o->data + sizeof(struct wire_header),
		      o->len - sizeof(struct wire_header));
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	o->fds[o->n_fds++] = fd_take(&fd);
	o->len = sizeof(struct wire_header);
	return 0;
}

int wire_pack(struct wire_out *o)
{
	struct wire_header h;
	bool is_long = o->len > WIRE_MESSAGE;
	int r;

	if (o->error || o->packed)
		return o->error;
	r = is_long ? move_to_file(o) : 0;
	if (r < 0)
		return o->error = r;
	memcpy(&h, o->data, sizeof(h));
	h.n_fds = o->n_fds;
	h.is_long = is_long;
	memcpy(o->data, &h, sizeof(h));
	o->packed = true;
	return 0;
}

int wire_send(int sock, const struct wire_out *o, int flags)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * WIRE_FDS)];
	} control = { 0 };
	struct iovec iov = { .iov_base = o->data, .iov_len = o->len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (o->n_fds > 0) {
		struct cmsghdr *c;

		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * o->n_fds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * o->n_fds);
		memcpy(CMSG_DATA(c), o->fds, sizeof(int) * o->n_fds);
	}
	do
		n = sendmsg(sock, &m, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int wire_post(int sock, struct wire_out *o)
{
	int r = wire_pack(o);

	return r < 0 ? r : wire_send(sock, o, 0);
}

static void in_clear(struct wire_in *in)
{
	for (unsigned i = 0; i < in->n_fds; i++)
		fd_closep(&in->fds[i]);
	free(in->file);
	in->file = NULL;
	in->n_fds = in->fd_at = 0;
	in->left = 0;
	in->error = 0;
}

void wire_in_done(struct wire_in *in)
{
	in_clear(in);
	free(in->data);
	*in = (struct wire_in){ 0 };
}

/* Takes over all descriptors that came, also of a message that is refused then. */
static int fds_take(struct wire_in *in, struct msghdr *m)
{
	int r = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (in->n_fds < WIRE_FDS) {
				in->fds[in->n_fds++] = fd;
			} else {
				fd_closep(&fd);
				r = -EBADMSG;
			}
		}
	}
	return r;
}

/* Reads the file that a long message came with. */
static int read_file(struct wire_in *in)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t done = 0;
	int seals;

	if (in->left > 0 || in->n_fds == 0)
		return -EBADMSG;
	fd = fd_take(&in->fds[--in->n_fds]);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    st.st_size > (off_t)WIRE_LONG)
		return -EBADMSG;
	in->file = malloc((size_t)st.st_size);
	if (!in->file)
		return -ENOMEM;
	while (done < (size_t)st.st_size) {
		ssize_t n = pread(fd, in->file + done, (size_t)st.st_size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		done += (size_t)n;
	}
	in->at = in->file;
	in->left = done;
	return 0;
}

static int message_check(struct wire_in *in, size_t len, bool allow_long)
{
	struct wire_header h;

	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, in->data, sizeof(h));
	if (h.n_fds != in->n_fds || h.is_long > allow_long)
		return -EBADMSG;
	in->type = h.type;
	in->serial = h.serial;
	in->at = in->data + sizeof(h);
	in->left = len - sizeof(h);
	return h.is_long ? read_file(in) : 0;
}

int wire_receive(int sock, struct wire_in *in, int flags, bool allow_long)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * WIRE_FDS)];
	} control = { 0 };
	struct iovec iov = { .iov_len = WIRE_MESSAGE };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	int r;

	in_clear(in);
	if (!in->data)
		in->data = malloc(WIRE_MESSAGE);
	if (!in->data)
		return -ENOMEM;
	iov.iov_base = in->data;
	m.msg_control = control.buf;
	m.msg_controllen = sizeof(control.buf);
	do
		n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	r = fds_take(in, &m);
	if (r >= 0 && (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		r = -EBADMSG;
	if (r >= 0)
		r = message_check(in, (size_t)n, allow_long);
	return r < 0 ? r : 1;
}
