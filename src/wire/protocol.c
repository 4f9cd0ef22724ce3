/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define ERRNO_MOST 4095

void wire_put_error(struct wire_out *o, int error)
{
	wire_put(o, (uint64_t)-error);
}

int wire_get_error(struct wire_in *in)
{
	return -(int)wire_get_most(in, ERRNO_MOST);
}

void wire_put_identity(struct wire_out *o, const struct lasting_identity *id)
{
	wire_put(o, id->fsid);
	wire_put(o, id->ino);
	wire_put(o, (uint64_t)id->btime_nsec);
	wire_put(o, id->type);
}

struct lasting_identity wire_get_identity(struct wire_in *in)
{
	struct lasting_identity id = { 0 };

	id.fsid = wire_get(in);
	id.ino = wire_get(in);
	id.btime_nsec = (int64_t)wire_get(in);
	id.type = (uint32_t)wire_get_most(in, S_IFMT);
	if (id.type & ~(uint32_t)S_IFMT)
		in->error = -EBADMSG;
	return id;
}

bool is_component(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && !memchr(name, '/', len) && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

const char *wire_get_component(struct wire_in *in)
{
	const char *name = wire_get_string(in);

	if (!in->error && !is_component(name))
		in->error = -EBADMSG;
	return name;
}
