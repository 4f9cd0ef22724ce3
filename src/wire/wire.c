/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/sealed-file.h"

#define STRING_NULL UINT32_MAX

static void out_fds_close(struct wire_out *o)
{
	for (unsigned i = 0; i < o->n_fds; i++)
		fd_closep(&o->fds[i]);
	o->n_fds = 0;
}

void wire_out_done(struct wire_out *o)
{
	out_fds_close(o);
	free(o->data);
	*o = (struct wire_out){ 0 };
}

static void out_add(struct wire_out *o, const void *data, size_t len)
{
	assert(!o->packed && o->len <= o->cap);
	if (o->error || len == 0)
		return;
	if (len > WIRE_LONG - o->len) {
		o->error = -EMSGSIZE;
		return;
	}
	o->error = array_reserve(&o->data, &o->cap, MAX(o->len + len, (size_t)512), 1);
	if (o->error)
		return;
	memcpy(o->data + o->len, data, len);
	o->len += len;
}

void wire_begin(struct wire_out *o, uint32_t type, uint32_t serial)
{
	struct wire_header h = { .type = type, .serial = serial };

	out_fds_close(o);
	o->len = 0;
	o->packed = false;
	o->error = 0;
	out_add(o, &h, sizeof(h));
}

void wire_put(struct wire_out *o, uint64_t value)
{
	out_add(o, &value, sizeof(value));
}

void wire_put_bytes(struct wire_out *o, const void *data, size_t len)
{
	uint32_t n = (uint32_t)len;

	if (len >= STRING_NULL)
		o->error = -EMSGSIZE;
	out_add(o, &n, sizeof(n));
	out_add(o, data, len);
}

/* With its NUL, so that the receiver need not copy it. */
void wire_put_string(struct wire_out *o, const char *s)
{
	uint32_t none = STRING_NULL;

	if (s)
		wire_put_bytes(o, s, strlen(s) + 1);
	else
		out_add(o, &none, sizeof(none));
}

void wire_put_fd(struct wire_out *o, int fd)
{
	int own;

	if (o->error)
		return;
	/* One place is kept for what may have to go as a file. */
	if (o->n_fds >= WIRE_FDS - 1) {
		o->error = -EMSGSIZE;
		return;
	}
	own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own < 0)
		o->error = -errno;
	else
		o->fds[o->n_fds++] = own;
}

size_t wire_room(const struct wire_out *o)
{
	return o->len < WIRE_MESSAGE ? WIRE_MESSAGE - o->len : 0;
}

static const void *in_take(struct wire_in *in, size_t len)
{
	const void *at = in->at;

	if (in->error || in->left < len) {
		in->error = -EBADMSG;
		return NULL;
	}
	in->at += len;
	in->left -= len;
	return at;
}

uint64_t wire_get(struct wire_in *in)
{
	const void *at = in_take(in, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

uint64_t wire_get_most(struct wire_in *in, uint64_t most)
{
	uint64_t value = wire_get(in);

	if (value <= most)
		return value;
	in->error = -EBADMSG;
	return 0;
}

const void *wire_get_bytes(struct wire_in *in, size_t *ret_len)
{
	const void *at = in_take(in, sizeof(uint32_t));
	uint32_t n = 0;

	*ret_len = 0;
	if (at)
		memcpy(&n, at, sizeof(n));
	at = in_take(in, n);
	if (at)
		*ret_len = n;
	return at;
}

const char *wire_get_string_or_null(struct wire_in *in)
{
	static const uint32_t none = STRING_NULL;
	const char *s;
	size_t len;

	if (!in->error && in->left >= sizeof(none) && memcmp(in->at, &none, sizeof(none)) == 0) {
		(void)in_take(in, sizeof(none));
		return NULL;
	}
	s = wire_get_bytes(in, &len);
	if (s && len > 0 && memchr(s, '\0', len) == s + len - 1)
		return s;
	in->error = -EBADMSG;
	return "";
}

const char *wire_get_string(struct wire_in *in)
{
	const char *s = wire_get_string_or_null(in);

	if (s)
		return s;
	in->error = -EBADMSG;
	return "";
}

int wire_peek_fd(struct wire_in *in)
{
	assert(in->fd_at <= in->n_fds && in->n_fds <= WIRE_FDS);
	if (!in->error && in->fd_at < in->n_fds)
		return in->fds[in->fd_at++];
	in->error = -EBADMSG;
	return -1;
}

int wire_keep_fd(struct wire_in *in, int fd)
{
	for (unsigned i = 0; i < in->n_fds; i++)
		if (in->fds[i] == fd)
			in->fds[i] = -1;
	return fd;
}

int wire_get_fd(struct wire_in *in)
{
	return wire_keep_fd(in, wire_peek_fd(in));
}

int wire_end(struct wire_in *in)
{
	if (in->left > 0 || in->fd_at != in->n_fds)
		in->error = -EBADMSG;
	return in->error;
}

/* ---- through a socket ------------------------------------------------------------------------ */

static void body_write(FILE *f, const void *what)
{
	const struct wire_out *o = what;

	(void)fwrite(o->data + sizeof(struct wire_header), 1, o->len - sizeof(struct wire_header),
		     f);
}

/* Moves everything behind the header to a file. */
static int move_to_file(struct wire_out *o)
{
	int fd = sealed_file(body_write, o);

	if (fd < 0)
		return fd;
	assert(o->n_fds < WIRE_FDS);
	o->fds[o->n_fds++] = fd;
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

	if (r >= 0)
		r = wire_send(sock, o, 0);
	/* Kept until the next message, they would keep a filesystem from being unmounted. */
	out_fds_close(o);
	return r;
}

void wire_in_clear(struct wire_in *in)
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
	wire_in_clear(in);
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
	ssize_t n;
	int seals;

	if (in->left > 0 || in->n_fds == 0)
		return -EBADMSG;
	fd = fd_take(&in->fds[--in->n_fds]);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALED_FILE) != SEALED_FILE)
		return -EBADMSG;
	n = fd_read_all(fd, WIRE_LONG + 1, (char **)&in->file);
	if (n <= 0)
		return n < 0 && n != -EFBIG ? (int)n : -EBADMSG;
	in->at = in->file;
	in->left = (size_t)n;
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

	wire_in_clear(in);
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
