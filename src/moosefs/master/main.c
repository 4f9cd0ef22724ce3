/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-moosefs: speaks to the master of a mounted MooseFS for a process that deletes, so that
 * what comes over the network is read by a process that can delete nothing itself. Has no
 * capability, opens no file and makes no system call but those that its two sockets take. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "master.h"
#include "sandbox/credentials.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"
#include "wire/wire.h"

/* A record of ENTRIES with the longest name. */
#define ENTRY_ROOM (NAME_MAX + 64)

struct service {
	struct master *master;
	struct wire_in in;
	struct wire_out out;
	uint64_t values[MASTER_VALUES];
	unsigned n_values;
};

/* From here on bytes of the network are read. */
static int confine(void)
{
	int r = landlock_restrict_proxy();

	return r < 0 ? r : seccomp_restrict_moosefs();
}

static int serve_open(struct service *s)
{
	const char *version = wire_get_string(&s->in);
	size_t len;
	const uint8_t *info = wire_get_bytes(&s->in, &len);
	int r = wire_end(&s->in);

	if (r < 0 || strcmp(version, RECLAIM_VERSION) != 0 || len != MASTERINFO_BYTES || s->master)
		return -EBADMSG;
	r = master_connect(&s->master, info);
	if (r >= 0)
		r = confine();
	return r < 0 ? r : master_register(s->master, info);
}

static int on_entry(const struct moosefs_entry *e, void *userdata)
{
	struct service *s = userdata;
	int r = 0;

	if (wire_room(&s->out) < ENTRY_ROOM) {
		r = wire_post(MASTER_FD, &s->out);
		wire_begin(&s->out, MASTER_ENTRIES, 0);
	}
	wire_put(&s->out, e->inode);
	wire_put(&s->out, e->nlink);
	wire_put(&s->out, e->chunks);
	wire_put(&s->out, e->is_directory);
	wire_put_string(&s->out, e->name);
	return r;
}

static int serve_list(struct service *s, uint32_t directory, uint32_t most)
{
	int n, r;

	wire_begin(&s->out, MASTER_ENTRIES, 0);
	n = master_list(s->master, directory, most, on_entry, s);
	r = wire_post(MASTER_FD, &s->out);
	if (n < 0 || r < 0)
		return n < 0 ? n : r;
	s->values[0] = (uint64_t)n;
	s->n_values = 1;
	return 0;
}

/* The name in a request; NULL if there is none that could be one. */
static const char *get_name(struct service *s)
{
	const char *name = wire_get_string(&s->in);

	return strlen(name) <= NAME_MAX ? name : NULL;
}

static int serve_census(struct service *s, uint32_t inode)
{
	struct moosefs_census c = { 0 };
	int r = master_census(s->master, inode, &c);

	s->values[0] = c.entries;
	s->values[1] = c.directories;
	s->values[2] = c.kept;
	s->values[3] = c.marked;
	s->n_values = 4;
	return r;
}

/* A request about an inode that came as a whole. */
static int serve_request(struct service *s)
{
	enum master_message type = s->in.type;
	bool has_inode = type != MASTER_BACKLOG;
	uint32_t inode = has_inode ? (uint32_t)wire_get_most(&s->in, UINT32_MAX) : 0;
	uint32_t most = type == MASTER_LIST ? (uint32_t)wire_get_most(&s->in, INT_MAX - 2) : 0;
	bool on = type == MASTER_MARK && wire_get_most(&s->in, 1);
	const char *name = type == MASTER_LOOKUP || type == MASTER_REMOVE ? get_name(s) : "";
	int r = wire_end(&s->in);
	uint32_t found = 0;

	if (r < 0 || !name || !s->master)
		return -EBADMSG;
	switch (type) {
	case MASTER_LOOKUP:
		r = master_lookup(s->master, inode, name, &found);
		s->values[0] = found;
		s->n_values = 1;
		return r;
	case MASTER_LIST:
		return serve_list(s, inode, most);
	case MASTER_CENSUS:
		return serve_census(s, inode);
	case MASTER_MARK:
		s->n_values = 1;
		return master_mark(s->master, inode, on, &s->values[0]);
	case MASTER_REMOVE:
		return master_remove(s->master, inode, name);
	case MASTER_TRASH_TIME:
		s->n_values = 1;
		return master_trash_time(s->master, inode, &s->values[0]);
	case MASTER_BACKLOG:
		s->n_values = 2;
		return master_backlog(s->master, &s->values[0], &s->values[1]);
	case MASTER_OPEN:
	case MASTER_ENTRIES:
	case MASTER_DONE:
		break;
	}
	return -EBADMSG;
}

/* Serves one request. Returns 0 or the negative errno that ends the process. */
static int serve_one(struct service *s)
{
	int r = wire_receive(MASTER_FD, &s->in, 0, /* allow_long= */ false), error;

	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	s->n_values = 0;
	error = s->in.type == MASTER_OPEN ? serve_open(s) : serve_request(s);
	wire_begin(&s->out, MASTER_DONE, 0);
	wire_put(&s->out, (uint64_t)-error);
	wire_put(&s->out, s->master ? master_took_usec(s->master) : 0);
	for (unsigned i = 0; error == 0 && i < s->n_values; i++)
		wire_put(&s->out, s->values[i]);
	r = wire_post(MASTER_FD, &s->out);
	return error == -EBADMSG ? error : r;
}

int main(void)
{
	struct service s = { 0 };
	socklen_t len = sizeof(int);
	int type = 0, r;

	if (getsockopt(MASTER_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		(void)fputs("reclaim-moosefs: is started by reclaim-worker and reclaimctl, not by "
			    "hand\n",
			    stderr);
		return EXIT_FAILURE;
	}
	r = close_range(MASTER_PIPE_FD + 1, ~0U, 0) < 0 ? -errno : 0;
	if (r >= 0)
		r = credentials_die_with_parent(MASTER_PIPE_FD);
	if (r >= 0)
		r = credentials_drop_all();
	while (r >= 0)
		r = serve_one(&s);
	/* Not exit: a process that may not be traced cannot be looked through for leaks. */
	_exit(r == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}
