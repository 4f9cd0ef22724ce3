/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "message-table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

void message_put_fd(struct wire_out *o, int fd)
{
	wire_put(o, fd >= 0);
	if (fd >= 0)
		wire_put_fd(o, fd);
}

void message_put_shared_identity(struct wire_out *o, struct lasting_identity id)
{
	wire_put(o, id.ino);
	wire_put(o, (uint64_t)id.btime_nsec);
	wire_put(o, id.type);
}

void message_put_identity(struct wire_out *o, struct lasting_identity id)
{
	wire_put(o, id.fsid);
	message_put_shared_identity(o, id);
}

const char *message_check_component(struct wire_in *in, const char *name)
{
	if (name && !is_component(name))
		in->error = -EBADMSG;
	return name;
}

const char *message_check_path(struct wire_in *in, const char *path)
{
	if (path && !is_component_path(path))
		in->error = -EBADMSG;
	return path;
}

struct wire_bytes message_get_bytes(struct wire_in *in)
{
	struct wire_bytes b;

	b.data = wire_get_bytes(in, &b.len);
	return b;
}

struct lasting_identity message_get_shared_identity(struct wire_in *in)
{
	struct lasting_identity id = { .ino = wire_get(in) };

	id.btime_nsec = (int64_t)wire_get(in);
	id.type = (uint32_t)wire_get_most(in, S_IFMT);
	if (id.type & ~(uint32_t)S_IFMT)
		in->error = -EBADMSG;
	return id;
}

struct lasting_identity message_get_identity(struct wire_in *in)
{
	uint64_t fsid = wire_get(in);
	struct lasting_identity id = message_get_shared_identity(in);

	id.fsid = fsid;
	return id;
}

static void put(const struct message_table *t, struct wire_out *o, bool item, const void *from)
{
	const struct message *m;
	struct wire_header h;

	if (o->error)
		return;
	memcpy(&h, o->data, sizeof(h));
	assert(h.type < t->n && t->v[h.type].known);
	m = &t->v[h.type];
	assert(!item || m->put[1]);
	if (m->put[item])
		m->put[item](o, from);
}

void message_put(const struct message_table *t, struct wire_out *o, const void *once)
{
	put(t, o, /* item= */ false, once);
}

void message_put_item(const struct message_table *t, struct wire_out *o, const void *item)
{
	put(t, o, /* item= */ true, item);
}

int message_get(const struct message_table *t, struct wire_in *in, void *ret)
{
	const struct message *m = in->type < t->n ? &t->v[in->type] : NULL;

	if (!m || !m->known)
		return in->error = -EBADMSG;
	if (m->get[0])
		m->get[0](in, ret);
	return m->get[1] ? in->error : wire_end(in);
}

int message_get_item(const struct message_table *t, struct wire_in *in, void *ret)
{
	if (in->error || in->left == 0)
		return wire_end(in);
	assert(in->type < t->n && t->v[in->type].get[1]);
	t->v[in->type].get[1](in, ret);
	return in->error ? in->error : 1;
}
