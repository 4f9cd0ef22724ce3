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
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/workers/worker-handle-state.h"
#include "fuzz.h"
#include "base/fd.h"
#include "base/fleet-name.h"
#include "wire/protocol.h"

#define DELETES 1
#define NO_WELCOME 2
#define STOPS 4 /* and what is left of large files may be kept */

static int its = -1;
static unsigned asked, ended, demanded, given;

/* The linker puts these in the place of those that start and reap a process. */
int __wrap_process_start(const char *program, int sock, int *ret_pidfd);
void __wrap_process_reap(sd_event *event, int pidfd, int death_pipe, bool now,
			 const struct process_watch *w);

int __wrap_process_start(const char *program, int sock, int *ret_pidfd)
{
	(void)program;
	its = sock;
	*ret_pidfd = eventfd(0, EFD_CLOEXEC);
	return *ret_pidfd < 0 ? -errno : 0;
}

void __wrap_process_reap(sd_event *event, int pidfd, int death_pipe, bool now,
			 const struct process_watch *w)
{
	(void)event;
	(void)now;
	(void)w;
	(void)close(pidfd);
	(void)close(death_pipe);
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

static void on_validated(int r, const struct intake_validated *l, const struct intake_failure *f,
			 void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (l != NULL));
	must(!f || (r < 0 && f->cause && f->text));
	ended++;
}

static void on_range(uint64_t from, uint64_t to, int error, void *userdata)
{
	(void)userdata;
	must(from > 0 && from <= to && error <= 0);
}

static void on_staged(int r, int dirfd, const struct lasting_identity *id,
		      const struct intake_failure *f, void *userdata)
{
	(void)userdata;
	must(dirfd < 0 || r == 0);
	if (dirfd >= 0)
		(void)close(dirfd);
	must(r <= 0 && (r == 0) == (id != NULL));
	must(!f || (r < 0 && f->cause && f->text));
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

static void on_given(const struct given_unit *u, void *userdata)
{
	(void)userdata;
	given++;
	must(given <= demanded && is_component_path(u->unit.path) && u->unit.id.type == S_IFDIR);
	must((u->n > 0) == (u->unit.slices == 0) && u->n <= PROTOCOL_GIVEN);
	must(u->n > 0 || u->unit.slice < u->unit.slices);
	for (size_t i = 0; i < u->n; i++)
		must(is_component(u->names[i].name) && u->names[i].id.type == S_IFDIR);
}

static void on_mark(int r, const struct mark_message *m, void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (m != NULL));
	must(r < 0 || (*m->space && m->groups.len <= PROTOCOL_MARK_GROUPS * sizeof(gid_t)));
	ended++;
}

static void on_ran(int r, const struct run_result *res, void *userdata)
{
	(void)userdata;
	must(r <= 0 && (r == 0) == (res != NULL));
	ended++;
}

static void ask_intake(struct worker *w)
{
	static const struct intake_callbacks validate = { on_dir, on_entry, on_validated };
	static const struct staged_callbacks stage = { on_range, on_staged };
	struct intake_group g = {
		.dirfd = -1, .dir_path = "/a", .names = { "b", 2 }, .names_fd = -1
	};

	asked += worker_validate(w, 1, &g, 1, false, -1, &validate, NULL) >= 0;
	asked += worker_stage(w, &(struct stage_message){ 1, "job", true, true, its }, &stage,
			      NULL) >= 0;
	asked += worker_open_dir(w, -1, "/a", NULL, on_opened, NULL) >= 0;
	asked += worker_list_staging(w, its, NULL, on_listed_one, on_done, NULL) >= 0;
	asked += worker_remove_staging(w, its, "job", on_done, NULL) >= 0;
	asked += worker_read_mark(w, &(struct mark_place){ "/", 0, "host", NULL, "job" }, on_mark,
				  NULL) >= 0;
}

static void on_shrinks(int fd, uint64_t bytes, void *userdata)
{
	(void)bytes;
	(void)userdata;
	fd_closep(&fd);
}

static void ask_delete(struct worker *w)
{
	static const struct run_callbacks run = {
		.problem = on_problem,
		.kept = on_kept,
		.ran = on_ran,
		.may_wait = true,
		.owes = true,
		.shrinks = on_shrinks,
		.given = on_given,
	};
	const struct run_item items[] = { { .seq = 3, .name = "3" }, { .seq = 5, .name = "5" } };

	for (int i = 0; i < 2; i++)
		asked += worker_run(w, its, NULL, 0, "/a", items, 2, &run, NULL) >= 0;
	/* Of the first one, which has begun. */
	demanded = 2;
	worker_demand(w, demanded);
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
static void answer(uint32_t type, uint32_t serial, unsigned n_fds, const void *data, size_t len)
{
	struct wire_out o = { 0 };
	int dir = open("/", (type == ANSWER_STAGED ? 0 : O_PATH) | O_DIRECTORY | O_CLOEXEC);

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

static void answer_all(sd_event *e, const struct worker *w, const uint8_t *data, size_t size)
{
	while (size >= 5 && !worker_ended(w)) {
		size_t len = data[3] | (size_t)data[4] << 8;

		len = MIN(len, size - 5);
		answer(data[0], data[1], data[2] % 4, data + 5, len);
		data += 5 + len;
		size -= 5 + len;
		turn(e);
		told(!worker_ended(w));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct credentials root = { 0 };
	struct worker_options o = { .program = "none", .credentials = &root, .landlock_fd = -1 };
	const uint64_t welcome[] = { PROTOCOL_VERSION, 6 };
	struct worker *w = NULL;
	sd_event *e = NULL;

	if (size < 1)
		return 0;
	asked = ended = demanded = given = 0;
	o.role = data[0] & DELETES ? WORKER_DELETE : WORKER_INTAKE;
	o.landlock_fd = o.role == WORKER_DELETE ? open("/", O_PATH | O_CLOEXEC) : -1;
	must(sd_event_new(&e) >= 0 && worker_new(&w, e, &o) >= 0);
	turn(e);
	if (!(data[0] & NO_WELCOME))
		answer(ANSWER_WELCOME, 0, 0, welcome, sizeof(welcome));
	(data[0] & DELETES ? ask_delete : ask_intake)(w);
	if (data[0] & STOPS)
		worker_stop(w);
	turn(e);
	answer_all(e, w, data + 1, size - 1);
	worker_free(w);
	turn(e);
	must(ended == asked);
	fd_closep(&its);
	fd_closep(&o.landlock_fd);
	(void)sd_event_unref(e);
	return 0;
}

/* ---- what a worker says that is none of the hostile ones ------------------------------------ */

static size_t message_begin(struct words *w, uint8_t type, uint8_t serial, uint8_t n_fds)
{
	const uint8_t first[] = { type, serial, n_fds, 0, 0 };

	say(w, first, sizeof(first));
	return w->n;
}

static void message_end(struct words *w, size_t from)
{
	uint16_t len = (uint16_t)(w->n - from);

	put_back(w, from - sizeof(len), &len, sizeof(len));
}

static void number(struct words *w, uint64_t n)
{
	say(w, &n, sizeof(n));
}

static void string(struct words *w, const char *s)
{
	uint32_t len = s ? (uint32_t)strlen(s) + 1 : UINT32_MAX;

	say(w, &len, sizeof(len));
	if (s)
		say(w, s, len);
}

static void identity(struct words *w)
{
	static const uint32_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO };

	number(w, any_number(w));
	number(w, any_number(w));
	number(w, any_number(w));
	number(w, types[choose(w, ELEMENTSOF(types))]);
}

/* 0 more often than not. */
static uint64_t error(struct words *w)
{
	uint64_t e = chance(w, 70) ? 0 : 1 + choose(w, 100);

	number(w, e);
	return e;
}

static void failure(struct words *w, bool failed)
{
	number(w, failed ? 1 + choose(w, ERROR_WORKER_LAST + 1) : ERROR_NONE);
	string(w, failed ? CHOOSE(w, "", "what it was", "\x1b[31m\n") : NULL);
}

static const char *component(struct words *w)
{
	return CHOOSE(w, "a", "b.tar.gz", " ", "...", "\xff", "x\ny");
}

static void alive(struct words *w, uint8_t serial)
{
	if (chance(w, 20))
		message_end(w, message_begin(w, ANSWER_ALIVE, serial, 0));
}

static void validated(struct words *w, uint8_t serial)
{
	uint32_t dirs = 1 + choose(w, 3), names = choose(w, 5);
	size_t at = message_begin(w, ANSWER_DIRS, serial, 0);

	for (uint32_t i = 1; i <= dirs; i++) {
		number(w, i);
		string(w, CHOOSE(w, "/", "/a", "/\xff"));
		identity(w);
	}
	message_end(w, at);
	alive(w, serial);
	at = message_begin(w, ANSWER_ENTRIES, serial, 0);
	for (uint32_t i = 0; i < names; i++) {
		number(w, 1 + choose(w, dirs));
		string(w, component(w));
		identity(w);
	}
	message_end(w, at);
	at = message_begin(w, ANSWER_VALIDATED, serial, 0);
	number(w, names);
	for (int i = 0; i < 5; i++)
		number(w, any_number(w));
	number(w, choose(w, 2));
	failure(w, chance(w, 30));
	message_end(w, at);
}

static void staged(struct words *w, uint8_t serial)
{
	size_t at = message_begin(w, ANSWER_RANGES, serial, 0);
	bool failed = chance(w, 30);
	uint64_t seq = 0;

	for (uint32_t i = choose(w, 4); i > 0; i--) {
		number(w, seq + 1);
		number(w, seq += 1 + choose(w, 3));
		(void)error(w);
	}
	message_end(w, at);
	at = message_begin(w, ANSWER_STAGED, serial, !failed);
	identity(w);
	failure(w, failed);
	number(w, !failed);
	message_end(w, at);
}

static void opened(struct words *w, uint8_t serial)
{
	bool failed = chance(w, 30);
	size_t at = message_begin(w, ANSWER_OPENED, serial, !failed);

	number(w, failed ? 1 + choose(w, 100) : 0);
	number(w, !failed);
	message_end(w, at);
}

static void done(struct words *w, uint8_t serial)
{
	size_t at = message_begin(w, ANSWER_DONE, serial, 0);

	(void)error(w);
	message_end(w, at);
}

static void marked(struct words *w, uint8_t serial)
{
	static const uint32_t groups[] = { 5, 7 }, type = S_IFDIR;
	uint32_t len = 4 * choose(w, 3);
	size_t at = message_begin(w, ANSWER_MARK, serial, 0);

	(void)error(w);
	string(w, CHOOSE(w, "", "space"));
	number(w, choose(w, 100));
	number(w, choose(w, 100));
	say(w, &len, sizeof(len));
	say(w, groups, len);
	string(w, component(w));
	number(w, 0);
	number(w, any_number(w));
	number(w, any_number(w));
	number(w, type);
	message_end(w, at);
}

static void listed(struct words *w, uint8_t serial)
{
	size_t at = message_begin(w, ANSWER_LISTING, serial, 0);

	for (uint32_t i = choose(w, 4); i > 0; i--) {
		string(w, component(w));
		identity(w);
	}
	message_end(w, at);
	done(w, serial);
}

static void unit_given(struct words *w, uint8_t serial)
{
	static const uint32_t type = S_IFDIR;
	uint32_t n = choose(w, 3);
	size_t at = message_begin(w, ANSWER_GIVEN, serial, 0);

	string(w, CHOOSE(w, "", "1", "1/a/b", "1/", "..", "/1"));
	for (uint32_t i = 0; i <= n; i++) {
		if (i > 0)
			string(w, component(w));
		for (int k = 0; k < 3; k++)
			number(w, any_number(w));
		number(w, type);
		if (i > 0)
			continue;
		number(w, n > 0 ? 0 : choose(w, 3));
		number(w, n > 0 ? 0 : choose(w, 4));
	}
	message_end(w, at);
}

static void ran(struct words *w, uint8_t serial, bool keeps)
{
	uint32_t units = choose(w, 3);
	size_t at;

	for (uint32_t i = 0; i < units; i++)
		unit_given(w, serial);

	if (chance(w, 30)) {
		at = message_begin(w, ANSWER_SHRINKS, serial, 1);
		number(w, any_number(w));
		message_end(w, at);
	}
	for (uint32_t i = choose(w, 3); i > 0; i--) {
		at = message_begin(w, ANSWER_PROBLEM, serial, 0);
		string(w, CHOOSE(w, "/a", "/a/\x1b"));
		string(w, CHOOSE(w, "is immutable", ""));
		(void)error(w);
		number(w, choose(w, 2));
		message_end(w, at);
	}
	alive(w, serial);
	at = message_begin(w, ANSWER_KEPT, serial, 0);
	for (uint32_t i = choose(w, 3); i > 0; i--) {
		number(w, 3 + choose(w, 3));
		number(w, 1 + choose(w, 100));
	}
	message_end(w, at);
	at = message_begin(w, ANSWER_RAN, serial, 0);
	(void)error(w);
	for (int i = 0; i < 4; i++)
		number(w, any_number(w));
	number(w, choose(w, 2));
	number(w, keeps ? 0 : choose(w, 2));
	number(w, keeps ? any_number(w) : 0);
	number(w, units);
	string(w, CHOOSE(w, "", "snapshot"));
	message_end(w, at);
}

void grammar(struct words *w)
{
	uint8_t flags = (uint8_t)choose(w, 8);
	size_t at;

	w->n = 0;
	say(w, &flags, 1);
	if (flags & NO_WELCOME) {
		at = message_begin(w, ANSWER_WELCOME, 0, 0);
		number(w, PROTOCOL_VERSION);
		number(w, choose(w, 8));
		message_end(w, at);
	}
	if (flags & DELETES) {
		bool early = chance(w, 30);

		if (early)
			done(w, 3);
		ran(w, 1, flags & STOPS);
		ran(w, 2, false);
		if (!early)
			done(w, 3);
		return;
	}
	validated(w, 1);
	staged(w, 2);
	opened(w, 3);
	listed(w, 4);
	done(w, 5);
	marked(w, 6);
}
