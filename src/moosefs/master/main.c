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
	union master_values values;
};

static int serve_open(struct service *s)
{
	const char *version = wire_get_string(&s->in);
	size_t len;
	const uint8_t *info = wire_get_bytes(&s->in, &len);
	int r = wire_end(&s->in);

	if (r < 0 || strcmp(version, RECLAIM_VERSION) != 0 || len != MASTERINFO_BYTES || s->master)
		return -EBADMSG;
	r = master_connect(&s->master, info);
	/* From here on bytes of the network are read. */
	if (r >= 0)
		r = landlock_restrict_proxy();
	if (r >= 0)
		r = seccomp_restrict_moosefs();
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

static int serve_request(struct service *s)
{
	struct master_request q = { .type = s->in.type };
	int r, posted = 0;

	q.inode = (uint32_t)wire_get_most(&s->in, UINT32_MAX);
	q.number = (uint32_t)wire_get_most(&s->in, INT_MAX - 2);
	q.name = wire_get_string(&s->in);
	if (wire_end(&s->in) < 0 || q.type < MASTER_LOOKUP || q.type > MASTER_BACKLOG ||
	    strlen(q.name) > NAME_MAX || !s->master || (q.type == MASTER_MARK && q.number > 1))
		return -EBADMSG;
	wire_begin(&s->out, MASTER_ENTRIES, 0);
	r = master_ask(s->master, &q, &s->values, on_entry, s);
	if (q.type == MASTER_LIST)
		posted = wire_post(MASTER_FD, &s->out);
	return r < 0 ? r : posted;
}

/* Serves one request. Returns 0 or the negative errno that ends the process. */
static int serve_one(struct service *s)
{
	int r = wire_receive(MASTER_FD, &s->in, 0, /* allow_long= */ false), error;

	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	s->values = (union master_values){ .v = { 0 } };
	error = s->in.type == MASTER_OPEN ? serve_open(s) : serve_request(s);
	wire_begin(&s->out, MASTER_DONE, 0);
	wire_put(&s->out, (uint64_t)-error);
	wire_put(&s->out, s->master ? master_took_usec(s->master) : 0);
	for (size_t i = 0; error == 0 && i < ELEMENTSOF(s->values.v); i++)
		wire_put(&s->out, s->values.v[i]);
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
