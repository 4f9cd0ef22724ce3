/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define ERRNO_MOST 4095

bool is_component(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && !memchr(name, '/', len) && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

bool is_component_path(const char *path)
{
	char name[NAME_MAX + 1];
	size_t len = strlen(path);

	for (const char *at = path; len > 0 && at <= path + len;) {
		size_t n = strcspn(at, "/");

		if (n > NAME_MAX)
			return false;
		memcpy(name, at, n);
		name[n] = '\0';
		if (!is_component(name))
			return false;
		at += n + 1;
	}
	return len < PATH_MAX;
}

/* ---- what fields are in a message --------------------------------------------------------- */

#define put_NUMBER wire_put
#define put_BOOL wire_put
#define put_ID wire_put
#define put_CAUSE wire_put
#define put_ERROR(o, error) wire_put(o, (uint64_t) - (error))
#define put_TEXT wire_put_string
#define put_OPT_TEXT wire_put_string
#define put_NAME wire_put_string
#define put_OPT_NAME wire_put_string
#define put_PATH wire_put_string
#define put_OPT_PATH wire_put_string
#define put_BYTES(o, bytes) wire_put_bytes(o, (bytes).data, (bytes).len)
#define put_FD wire_put_fd

static void put_OPT_FD(struct wire_out *o, int fd)
{
	wire_put(o, fd >= 0);
	if (fd >= 0)
		wire_put_fd(o, fd);
}

static void put_IDENTITY(struct wire_out *o, struct lasting_identity id)
{
	wire_put(o, id.fsid);
	wire_put(o, id.ino);
	wire_put(o, (uint64_t)id.btime_nsec);
	wire_put(o, id.type);
}

#define get_NUMBER wire_get
#define get_BOOL(in) wire_get_most(in, 1)
#define get_ID(in) ((wire_ID)wire_get_most(in, UINT32_MAX - 1))
#define get_CAUSE(in) ((wire_CAUSE)wire_get_most(in, ERROR_WORKER_LAST))
#define get_ERROR(in) (-(int)wire_get_most(in, ERRNO_MOST))
#define get_TEXT wire_get_string
#define get_OPT_TEXT wire_get_string_or_null
#define get_NAME(in) component_check(in, wire_get_string(in))
#define get_OPT_NAME(in) component_check(in, wire_get_string_or_null(in))
#define get_PATH(in) path_check(in, wire_get_string(in))
#define get_OPT_PATH(in) path_check(in, wire_get_string_or_null(in))
#define get_FD wire_peek_fd
#define get_OPT_FD(in) (wire_get_most(in, 1) ? wire_peek_fd(in) : -1)

static const char *component_check(struct wire_in *in, const char *name)
{
	if (name && !is_component(name))
		in->error = -EBADMSG;
	return name;
}

static const char *path_check(struct wire_in *in, const char *path)
{
	if (path && !is_component_path(path))
		in->error = -EBADMSG;
	return path;
}

static struct wire_bytes get_BYTES(struct wire_in *in)
{
	struct wire_bytes b;

	b.data = wire_get_bytes(in, &b.len);
	return b;
}

static struct lasting_identity get_IDENTITY(struct wire_in *in)
{
	struct lasting_identity id;

	id.fsid = wire_get(in);
	id.ino = wire_get(in);
	id.btime_nsec = (int64_t)wire_get(in);
	id.type = (uint32_t)wire_get_most(in, S_IFMT);
	if (id.type & ~(uint32_t)S_IFMT)
		in->error = -EBADMSG;
	return id;
}

/* ---- records and messages ----------------------------------------------------------------- */

#define PUT(type, name) put_##type(o, m->name);
#define GET(type, name) m->name = get_##type(in);
#define RECORD(s)                                                                                  \
	static void s##_put(struct wire_out *o, const void *from)                                  \
	{                                                                                          \
		const struct s *m = from;                                                          \
		FIELDS_##s(PUT)                                                                    \
	}                                                                                          \
	static void s##_get(struct wire_in *in, void *to)                                          \
	{                                                                                          \
		struct s *m = to;                                                                  \
		FIELDS_##s(GET)                                                                    \
	}
PROTOCOL_RECORDS(RECORD)

#define nothing_put NULL
#define nothing_get NULL
#define ROW(type, once, item)                                                                      \
	[type] = { true, { once##_put, item##_put }, { once##_get, item##_get } },

/* What there is once, and what is repeated. */
static const struct {
	bool known;
	void (*put[2])(struct wire_out *o, const void *from);
	void (*get[2])(struct wire_in *in, void *to);
} messages[] = { PROTOCOL_REQUESTS(ROW) PROTOCOL_ANSWERS(ROW) };

static void put(struct wire_out *o, bool item, const void *from)
{
	struct wire_header h;

	if (o->error)
		return;
	memcpy(&h, o->data, sizeof(h));
	assert(h.type < ELEMENTSOF(messages) && messages[h.type].known);
	assert(!item || messages[h.type].put[1]);
	if (messages[h.type].put[item])
		messages[h.type].put[item](o, from);
}

void protocol_put(struct wire_out *o, const void *once)
{
	put(o, /* item= */ false, once);
}

void protocol_put_item(struct wire_out *o, const void *item)
{
	put(o, /* item= */ true, item);
}

int protocol_get(struct wire_in *in, void *ret)
{
	if (in->type >= ELEMENTSOF(messages) || !messages[in->type].known)
		return in->error = -EBADMSG;
	if (messages[in->type].get[0])
		messages[in->type].get[0](in, ret);
	return messages[in->type].get[1] ? in->error : wire_end(in);
}

int protocol_get_item(struct wire_in *in, void *ret)
{
	if (in->error || in->left == 0)
		return wire_end(in);
	assert(in->type < ELEMENTSOF(messages) && messages[in->type].get[1]);
	messages[in->type].get[1](in, ret);
	return in->error ? in->error : 1;
}
