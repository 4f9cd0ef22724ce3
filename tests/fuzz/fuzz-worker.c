/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A hostile worker: whatever it answers, callbacks hear only of what makes sense, and each request
 * ends exactly once. The real thing but for the process, in whose place this is.
 *
 * An input is a byte of flags, and messages: type, serial number, how many descriptors, length (two
 * bytes), and so many bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/worker-internal.h"
#include "fuzz.h"
#include "util/fd.h"
#include "wire/protocol.h"

#define DELETES 1
#define NO_WELCOME 2

static int its = -1;
static unsigned asked, ended;

/* The linker puts these in the place of those that start and bury a process. */
int __wrap_process_start(const char *program, int sock, int *ret_pidfd);
void __wrap_process_bury(sd_event *event, int pidfd, int leash, bool now);

int __wrap_process_start(const char *program, int sock, int *ret_pidfd)
{
	(void)program;
	its = sock;
	*ret_pidfd = eventfd(0, EFD_CLOEXEC);
	return *ret_pidfd < 0 ? -errno : 0;
}

void __wrap_process_bury(sd_event *event, int pidfd, int leash, bool now)
{
	(void)event;
	(void)now;
	(void)close(pidfd);
	(void)close(leash);
}

static void on_dir(const struct intake_dir *d, void *userdata)
{
	(void)userdata;
	must(d->dir > 0 && d->path);
}

static void on_entry(const struct entry_record *e, void *userdata)
{
	(void)userdata;
	must(is_component(e->name) && e->dir > 0 && e->seq > 0);
}

static void on_looked(int r, const struct intake_looked *l, const struct intake_failure *f,
		      void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (l != NULL));
	must(!f || (r < 0 && f->name && f->text));
	ended++;
}

static void on_range(uint64_t from, uint64_t to, int error, void *userdata)
{
	(void)userdata;
	must(from > 0 && from <= to && error <= 0);
}

static void on_staged(int r, const struct lasting_identity *id, const struct intake_failure *f,
		      void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (id != NULL));
	must(!f || (r < 0 && f->name && f->text));
	ended++;
}

static void on_opened(int r, int fd, void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (fd >= 0));
	fd_closep(&fd);
	ended++;
}

static void on_listed_one(const char *name, const struct lasting_identity *id, void *userdata)
{
	(void)userdata;
	must(is_component(name) && id);
}

static void on_done(int r, void *userdata)
{
	(void)userdata;
	must(r <= 0);
	ended++;
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	(void)userdata;
	must(p->path && p->what && p->error <= 0);
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	(void)userdata;
	must(seq >= 3 && seq <= 5 && error < 0);
}

static void on_ran(int r, const struct run_result *res, void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (res != NULL));
	ended++;
}

static void ask_intake(struct worker *w)
{
	static const struct intake_callbacks look = { on_dir, on_entry, on_looked };
	static const struct staged_callbacks stage = { on_range, on_staged };
	struct intake_group g = {
		.dirfd = -1, .dir_path = "/a", .names = "b", .names_len = 2, .names_fd = -1
	};

	asked += worker_look(w, 1, &g, 1, &look, NULL) >= 0;
	asked += worker_stage(w, 1, its, "job", &stage, NULL) >= 0;
	asked += worker_open_dir(w, -1, "/a", NULL, on_opened, NULL) >= 0;
	asked += worker_list_staging(w, its, NULL, on_listed_one, on_done, NULL) >= 0;
	asked += worker_remove_staging(w, its, "job", on_done, NULL) >= 0;
}

static void ask_delete(struct worker *w)
{
	static const struct run_callbacks run = { on_problem, on_kept, on_ran, true };
	const struct run_item items[] = { { .seq = 3, .name = "3" }, { .seq = 5, .name = "5" } };

	for (int i = 0; i < 2; i++)
		asked += worker_run(w, its, NULL, 0, "/a", items, 2, &run, NULL) >= 0;
	asked += worker_flush(w, its, &items[0].name, 1, on_done, NULL) >= 0;
}

static void turn(sd_event *e)
{
	uint8_t buf[512];

	while (sd_event_run(e, 0) > 0)
		;
	while (recv(its, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

/* What the real one would say, but for the content. */
static void say(uint32_t type, uint32_t serial, unsigned n_fds, const void *data, size_t len)
{
	struct wire_out o = { 0 };
	int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	wire_begin(&o, type, serial);
	for (unsigned i = 0; i < n_fds; i++)
		wire_put_fd(&o, i % 2 ? its : dir);
	/* Behind the header, as it is. */
	o.data = realloc(o.data, o.len + len + 1);
	must(o.data);
	if (len > 0)
		memcpy(o.data + o.len, data, len);
	o.len += len;
	if (wire_pack(&o) >= 0)
		(void)wire_send(its, &o, MSG_DONTWAIT);
	wire_out_done(&o);
	(void)close(dir);
}

static void say_all(sd_event *e, const struct worker *w, const uint8_t *data, size_t size)
{
	while (size >= 5 && !worker_ended(w)) {
		size_t len = data[3] | (size_t)data[4] << 8;

		len = MIN(len, size - 5);
		say(data[0], data[1], data[2] % 4, data + 5, len);
		data += 5 + len;
		size -= 5 + len;
		turn(e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct submitter root = { 0 };
	struct worker_options o = { .program = "none", .submitter = &root, .fence_fd = -1 };
	const uint64_t welcome[] = { PROTOCOL_VERSION, 6 };
	struct worker *w = NULL;
	sd_event *e = NULL;

	if (size < 1)
		return 0;
	asked = ended = 0;
	o.role = data[0] & DELETES ? WORKER_DELETE : WORKER_INTAKE;
	o.fence_fd = o.role == WORKER_DELETE ? open("/", O_PATH | O_CLOEXEC) : -1;
	must(sd_event_new(&e) >= 0 && worker_new(&w, e, &o) >= 0);
	turn(e);
	if (!(data[0] & NO_WELCOME))
		say(ANSWER_WELCOME, 0, 0, welcome, sizeof(welcome));
	(data[0] & DELETES ? ask_delete : ask_intake)(w);
	turn(e);
	say_all(e, w, data + 1, size - 1);
	worker_free(w);
	turn(e);
	must(ended == asked);
	fd_closep(&its);
	fd_closep(&o.fence_fd);
	(void)sd_event_unref(e);
	return 0;
}
