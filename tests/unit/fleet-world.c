/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-world.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/fd.h"
#include "config/config.h"
#include "daemon/fleet/fleet-link.h"

/* In place of the program, its process and its socket. */
struct fleet_link {
	const struct fleet_link_callbacks *callbacks; /* NULL: there is none */
	void *userdata;
	struct heard *open; /* that is being said, or NULL */
};

static struct fleet_link the_link;
static struct job_world *world;
static struct fleet *fleet;
static struct heard **heard;
static size_t n_heard;

int __wrap_program_find(const char *name, char *buf, size_t size);
int __wrap_fleet_link_new(struct fleet_link **ret, sd_event *event, const char *program,
			  const struct fleet_link_callbacks *callbacks, void *userdata);
struct fleet_link *__wrap_fleet_link_free(struct fleet_link *link);
struct wire_out *__wrap_fleet_link_say(struct fleet_link *link, enum fleet_request type);
void __wrap_fleet_link_send(struct fleet_link *link);

int __wrap_program_find(const char *name, char *buf, size_t size)
{
	(void)snprintf(buf, size, "/nowhere/%s", name);
	return 0;
}

int __wrap_fleet_link_new(struct fleet_link **ret, sd_event *event, const char *program,
			  const struct fleet_link_callbacks *callbacks, void *userdata)
{
	(void)event;
	(void)program;
	ck_assert_ptr_null(the_link.callbacks);
	the_link = (struct fleet_link){ .callbacks = callbacks, .userdata = userdata };
	*ret = &the_link;
	return 0;
}

struct fleet_link *__wrap_fleet_link_free(struct fleet_link *link)
{
	if (link)
		link->callbacks = NULL;
	return NULL;
}

struct wire_out *__wrap_fleet_link_say(struct fleet_link *link, enum fleet_request type)
{
	struct heard **at = array_add(&heard, &n_heard, sizeof(struct heard *));

	ck_assert_ptr_nonnull(link->callbacks);
	ck_assert_ptr_null(link->open);
	ck_assert_ptr_nonnull(at);
	*at = calloc(1, sizeof(**at));
	ck_assert_ptr_nonnull(*at);
	(*at)->type = type;
	wire_begin(&(*at)->out, type, 0);
	link->open = *at;
	return &link->open->out;
}

/* Of a message as it was put. */
static struct wire_in received(const struct wire_out *o, size_t len)
{
	struct wire_header header;

	ck_assert_int_eq(o->error, 0);
	ck_assert_uint_ge(len, sizeof(header));
	memcpy(&header, o->data, sizeof(header));
	return (struct wire_in){ .type = header.type,
				 .at = o->data + sizeof(header),
				 .left = len - sizeof(header) };
}

/* It must have the form of its type. */
void __wrap_fleet_link_send(struct fleet_link *link)
{
	struct heard *h = link->open;
	struct wire_in in = received(&h->out, h->out.len);
	union fleet_record item;
	int r;

	link->open = NULL;
	ck_assert_int_eq(fleet_get(&in, &h->is), 0);
	if (h->type != FLEET_JOIN && h->type != FLEET_PUBLISH && h->type != FLEET_FINISH)
		return;
	while ((r = fleet_get_item(&in, &item)) > 0)
		h->n_items++;
	ck_assert_int_eq(r, 0);
}

/* ---- what reclaim-fleet says -------------------------------------------------------------- */

static int report(struct wire_in in)
{
	ck_assert_ptr_nonnull(the_link.callbacks);
	return the_link.callbacks->report(&in, the_link.userdata);
}

static int say(const struct wire_out *o, size_t len)
{
	return report(received(o, len));
}

int fleet_says_bytes(uint32_t type, const uint8_t *data, size_t len)
{
	return report((struct wire_in){ .type = type, .at = data, .left = len });
}

int fleet_says(enum fleet_report type, const void *once)
{
	struct wire_out o = { 0 };
	int r;

	wire_begin(&o, type, 0);
	fleet_put(&o, once);
	r = say(&o, o.len);
	wire_out_done(&o);
	return r;
}

static void claimed_put(struct wire_out *o, const struct claimed_message *m,
			const struct unit_name *names, size_t n)
{
	wire_begin(o, FLEET_CLAIMED, 0);
	fleet_put(o, m);
	for (size_t i = 0; i < n; i++)
		fleet_put_item(o, &names[i]);
}

int fleet_says_claimed(const struct claimed_message *m, const struct unit_name *names, size_t n)
{
	struct wire_out o = { 0 };
	int r;

	claimed_put(&o, m, names, n);
	r = say(&o, o.len);
	wire_out_done(&o);
	return r;
}

size_t fleet_claimed_size(const struct claimed_message *m, const struct unit_name *names, size_t n)
{
	struct wire_out o = { 0 };
	size_t len;

	claimed_put(&o, m, names, n);
	len = o.len - sizeof(struct wire_header);
	wire_out_done(&o);
	return len;
}

int fleet_says_cut(const struct claimed_message *m, const struct unit_name *names, size_t n,
		   size_t len)
{
	struct wire_out o = { 0 };
	int r;

	claimed_put(&o, m, names, n);
	while (o.len < len + sizeof(struct wire_header))
		wire_put(&o, 0);
	r = say(&o, len + sizeof(struct wire_header));
	wire_out_done(&o);
	return r;
}

/* ---- what reclaimd says ------------------------------------------------------------------- */

const struct heard *fleet_heard(enum fleet_request type)
{
	for (size_t i = 0; i < n_heard; i++)
		if (heard[i]->type == type && !heard[i]->taken) {
			heard[i]->taken = true;
			return heard[i];
		}
	return NULL;
}

const struct heard *fleet_wait_heard(enum fleet_request type)
{
	const struct heard *h;

	job_world_until(world, (h = fleet_heard(type)));
	return h;
}

/* ---- its life ----------------------------------------------------------------------------- */

static void configure(struct config *c, const char *mount)
{
	if (c->fleet_database)
		return;
	c->fleet_database = strdup("host=/nowhere");
	c->fleet_name = strdup("a");
	c->fleet_filesystems = calloc(1, sizeof(*c->fleet_filesystems));
	ck_assert(c->fleet_database && c->fleet_name && c->fleet_filesystems);
	c->fleet_filesystems[0].path = strdup(mount);
	c->fleet_filesystems[0].name = strdup("shared");
	c->n_fleet_filesystems = 1;
}

void fleet_world_begin(struct job_world *w)
{
	const struct heard *h;

	world = w;
	/* A test that has failed has not ended its own. */
	the_link.callbacks = NULL;
	configure(w->context.config, w->mount);
	ck_assert_int_eq(fleet_new(&fleet, &w->jobs), 0);
	ck_assert_ptr_nonnull(fleet);
	/* When it is known which filesystem that is. */
	job_world_until(w, the_link.callbacks);
	the_link.callbacks->began(the_link.userdata);
	h = fleet_wait_heard(FLEET_JOIN);
	ck_assert_str_eq(h->is.join_message.host, "a");
	ck_assert_uint_eq(h->n_items, 1);
	ck_assert_int_eq(fleet_says(FLEET_JOINED, NULL), 0);
	/* As long as the mark of a unit allows. */
	ck_assert_int_eq(fleet_says(FLEET_LEASE, &(struct lease_message){ UINT64_MAX }), 0);
	h = fleet_wait_heard(FLEET_CAPACITY);
	ck_assert_str_eq(h->is.capacity_message.filesystem, "shared");
}

void fleet_world_leave(void)
{
	fleet = fleet_free(fleet);
	job_world_until(world, world->context.flows == 0);
}

void fleet_world_end(void)
{
	fleet_world_leave();
	for (size_t i = 0; i < n_heard; i++) {
		wire_out_done(&heard[i]->out);
		free(heard[i]);
	}
	free(heard);
	heard = NULL;
	n_heard = 0;
}

struct lasting_identity fleet_identity(const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct lasting_identity id;

	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(lasting_at(fd, "", &id), 0);
	id.fsid = 0;
	return id;
}
