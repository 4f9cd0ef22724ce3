/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/array.h"
#include "base/fd.h"

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

int wire_get_fd(struct wire_in *in)
{
	if (in->error || in->fd_at >= in->n_fds) {
		in->error = -EBADMSG;
		return -1;
	}
	return fd_take(&in->fds[in->fd_at++]);
}

int wire_end(struct wire_in *in)
{
	if (in->left > 0 || in->fd_at != in->n_fds)
		in->error = -EBADMSG;
	return in->error;
}
