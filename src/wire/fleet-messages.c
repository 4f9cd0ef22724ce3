/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-messages.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define ERRNO_MOST 4095

/* ---- what fields are in a message --------------------------------------------------------- */

#define put_NUMBER wire_put
#define put_BOOL wire_put
#define put_ID wire_put
#define put_ERROR(o, error) wire_put(o, (uint64_t) - (error))
#define put_TEXT wire_put_string
#define put_OPT_TEXT wire_put_string
#define put_NAME wire_put_string

static void put_IDENTITY(struct wire_out *o, struct lasting_identity id)
{
	wire_put(o, id.ino);
	wire_put(o, (uint64_t)id.btime_nsec);
	wire_put(o, id.type);
}

#define get_NUMBER wire_get
#define get_BOOL(in) wire_get_most(in, 1)
#define get_ID(in) ((wire_ID)wire_get_most(in, UINT32_MAX - 1))
#define get_ERROR(in) (-(int)wire_get_most(in, ERRNO_MOST))
#define get_TEXT wire_get_string
#define get_OPT_TEXT wire_get_string_or_null

static const char *get_NAME(struct wire_in *in)
{
	const char *name = wire_get_string(in);

	if (!is_component(name))
		in->error = -EBADMSG;
	return name;
}

static struct lasting_identity get_IDENTITY(struct wire_in *in)
{
	struct lasting_identity id = { .ino = wire_get(in) };

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
FLEET_RECORDS(RECORD)

#define nothing_put NULL
#define nothing_get NULL
#define ROW(type, once, item)                                                                      \
	[type] = { true, { once##_put, item##_put }, { once##_get, item##_get } },

/* What there is once, and what is repeated. */
static const struct {
	bool known;
	void (*put[2])(struct wire_out *o, const void *from);
	void (*get[2])(struct wire_in *in, void *to);
} messages[] = { FLEET_REQUESTS(ROW) FLEET_REPORTS(ROW) };

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

void fleet_put(struct wire_out *o, const void *once)
{
	put(o, /* item= */ false, once);
}

void fleet_put_item(struct wire_out *o, const void *item)
{
	put(o, /* item= */ true, item);
}

int fleet_get(struct wire_in *in, void *ret)
{
	if (in->type >= ELEMENTSOF(messages) || !messages[in->type].known)
		return in->error = -EBADMSG;
	if (messages[in->type].get[0])
		messages[in->type].get[0](in, ret);
	return messages[in->type].get[1] ? in->error : wire_end(in);
}

int fleet_get_item(struct wire_in *in, void *ret)
{
	if (in->error || in->left == 0)
		return wire_end(in);
	assert(in->type < ELEMENTSOF(messages) && messages[in->type].get[1]);
	messages[in->type].get[1](in, ret);
	return in->error ? in->error : 1;
}

/* ---- what is more than a type ------------------------------------------------------------- */

bool fleet_path_is_valid(const char *path)
{
	char name[NAME_MAX + 1];

	if (path[0] == '\0')
		return true;
	if (strlen(path) >= FLEET_PATH_SIZE)
		return false;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (len > NAME_MAX)
			return false;
		memcpy(name, path, len);
		name[len] = '\0';
		if (!is_component(name))
			return false;
		if (path[len] == '\0')
			return true;
		path += len + 1;
	}
}

bool fleet_slice_is_valid(uint64_t slice, uint64_t slices, size_t n_names)
{
	if (slices == 0)
		return slice == 0 && n_names > 0 && n_names <= FLEET_NAMES;
	return slices <= FLEET_SLICES && slice < slices && n_names == 0;
}
