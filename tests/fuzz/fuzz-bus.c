/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Method calls with any arguments, on a connection to the daemon's objects: each is answered, and
 * names that come through are names. The manager is the one of the unit tests.
 *
 * An input is a byte that chooses the method, one of flags, and the marshalled arguments; with
 * OTHER_HEADER up to fifteen bytes of the header are others, by pairs of offset and value. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit/bus-server.h"
#include "daemon/api/dbus/bus-state.h"
#include "fuzz.h"
#include "base/fd.h"
#include "worker/proxy/proxy-header.h"

#define OF_A_JOB 1
#define ANY_SIGNATURE 2
#define AS_USER 4
#define OTHER_HEADER 8
#define NO_DESCRIPTORS 16
#define OF_THE_BUS 32

struct method {
	const char *interface, *member, *signature;
};

#define MANAGER "org.reclaimd1.Manager"
#define JOB "org.reclaimd1.Job"

/* What has come back. */
struct heard {
	uint8_t header[16];
	size_t have;
	uint64_t skip; /* of a message whose header has been seen */
	bool returned; /* the call was accepted */
};

static const struct method of_manager[] = {
	{ MANAGER, "SubmitFiles", "aha(uay)a{sv}" },
	{ MANAGER, "SubmitLists", "a(hh)a{sv}" },
	{ MANAGER, "Submit", "aaya{sv}" },
	{ MANAGER, "ListJobs", "a{sv}" },
	{ MANAGER, "ListJobsPacked", "a{sv}" },
	{ MANAGER, "GetJob", "t" },
	{ MANAGER, "Cancel", "at" },
	{ MANAGER, "Pause", "at" },
	{ MANAGER, "Resume", "at" },
	{ MANAGER, "SetPriority", "ats" },
	{ MANAGER, "SetDeadline", "att" },
	{ MANAGER, "Restore", "ta{sv}" },
	{ MANAGER, "Reload", "" },
	{ MANAGER, "Settle", "htt" },
	{ MANAGER, "PauseAll", "" },
	{ MANAGER, "ResumeAll", "" },
	{ MANAGER, "Subscribe", "" },
	{ MANAGER, "Unsubscribe", "" },
	{ MANAGER, "ListDevices", "" },
	{ MANAGER, "ListLatencies", "" },
	{ MANAGER, "ListPolicies", "" },
};

static const struct method of_job[] = {
	{ JOB, "GetProblems", "tu" }, { JOB, "GetEntries", "tu" }, { JOB, "Cancel", "" },
	{ JOB, "SetPriority", "s" },  { JOB, "SetDeadline", "t" }, { JOB, "Pause", "" },
	{ JOB, "Resume", "" },        { JOB, "Nothing", "s" },     { JOB, "GetKept", "tu" },
};

/* What every object on a bus has. */
static const struct method of_bus[] = {
	{ "org.freedesktop.DBus.Properties", "GetAll", "s" },
	{ "org.freedesktop.DBus.Properties", "Get", "ss" },
	{ "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "" },
	{ "org.freedesktop.DBus.Introspectable", "Introspect", "" },
};

/* A message is written here: little endian, as long as it has to be. */
struct text {
	uint8_t v[8192];
	size_t n;
};

static void put(struct text *t, const void *p, size_t n)
{
	if (n > 0)
		memcpy(t->v + t->n, p, n);
	t->n += n;
}

static void put_u32(struct text *t, uint32_t v)
{
	put(t, &v, sizeof(v));
}

static void align(struct text *t, size_t to)
{
	while (t->n % to)
		t->v[t->n++] = 0;
}

static void field(struct text *t, uint8_t code, char type, const char *value)
{
	const char signature[] = { 1, type, 0 };
	uint8_t len = (uint8_t)strlen(value);

	align(t, 8);
	put(t, &code, 1);
	put(t, signature, sizeof(signature));
	if (type == 'g')
		put(t, &len, 1);
	else
		put_u32(t, len);
	put(t, value, len + 1U);
}

static void header(struct text *t, const struct method *m, bool job, const char *signature,
		   size_t body, uint32_t n_fds)
{
	static const uint8_t first[] = { 'l', SD_BUS_MESSAGE_METHOD_CALL, 0, 1 };
	static const uint8_t fds[] = { 9, 1, 'u', 0 };
	uint32_t len;

	put(t, first, sizeof(first));
	put_u32(t, (uint32_t)body);
	put_u32(t, /* serial */ 1);
	put_u32(t, 0);
	field(t, 1, 'o', job ? "/org/reclaimd1/job/1" : "/org/reclaimd1");
	field(t, 2, 's', m->interface);
	field(t, 3, 's', m->member);
	field(t, 6, 's', "org.reclaimd1");
	field(t, 8, 'g', signature);
	align(t, 8);
	put(t, fds, sizeof(fds));
	put_u32(t, n_fds);
	len = (uint32_t)(t->n - 16);
	memcpy(t->v + 12, &len, sizeof(len));
	align(t, 8);
}

static void post(int sock, const void *data, size_t len, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int) * 4)];
	} control = { .room = { 0 } };
	struct iovec v = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (n_fds > 0) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int) * n_fds) };
		memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
	}
	(void)sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void call_with(int sock, const uint8_t *data, size_t size, const int fds[2])
{
	uint8_t flags = data[1];
	bool job = flags & OF_A_JOB;
	const struct method *m = flags & OF_THE_BUS ? &of_bus[data[0] % ELEMENTSOF(of_bus)]
				 : job              ? &of_job[data[0] % ELEMENTSOF(of_job)]
						    : &of_manager[data[0] % ELEMENTSOF(of_manager)];
	char signature[32] = "";
	struct text t = { .n = 0 };
	uint32_t n_fds = flags & NO_DESCRIPTORS ? 0 : 2;

	data += 2;
	size -= 2;
	if (flags & ANY_SIGNATURE && size > 0) {
		size_t len = MIN((size_t)data[0] % 31, size - 1);

		memcpy(signature, data + 1, len);
		data += 1 + len;
		size -= 1 + len;
	} else {
		(void)stpcpy(signature, m->signature);
	}
	size = MIN(size, sizeof(t.v) - 1024);
	header(&t, m, job, signature, size, n_fds);
	if (flags & OTHER_HEADER)
		for (size_t i = size > 0 ? 1U + *data % 15U : 0; i > 0 && size >= 2; i--) {
			t.v[data[0] % t.n] = data[1];
			data += 2;
			size -= 2;
		}
	/* As the proxy does it. */
	if (!header_may_carry(t.v, t.n, n_fds))
		n_fds = 0;
	put(&t, data, size);
	post(sock, t.v, t.n, fds, n_fds);
}

static sd_bus *server_side(int fd)
{
	sd_bus *conn = NULL;
	sd_id128_t id;

	must(sd_id128_randomize(&id) >= 0 && sd_bus_new(&conn) >= 0);
	must(sd_bus_set_fd(conn, fd, fd) >= 0 && sd_bus_set_server(conn, true, id) >= 0);
	must(sd_bus_set_anonymous(conn, true) >= 0 &&
	     sd_bus_set_sender(conn, "org.reclaimd1") >= 0);
	must(sd_bus_negotiate_fds(conn, true) >= 0);
	must(sd_bus_set_close_on_exit(conn, false) >= 0);
	return conn;
}

static void hear_header(struct heard *h)
{
	uint32_t body, fields;

	memcpy(&body, h->header + 4, sizeof(body));
	memcpy(&fields, h->header + 12, sizeof(fields));
	must(h->header[0] == 'l' && h->header[3] == 1);
	h->returned = h->returned || h->header[1] == SD_BUS_MESSAGE_METHOD_RETURN;
	h->skip = body + ((uint64_t)fields + 7) / 8 * 8;
	h->have = 0;
}

static void hear(struct heard *h, const uint8_t *data, size_t size)
{
	while (size > 0) {
		size_t n = MIN(h->skip > 0 ? h->skip : sizeof(h->header) - h->have, size);

		if (h->skip > 0) {
			h->skip -= n;
		} else {
			memcpy(h->header + h->have, data, n);
			h->have += n;
			if (h->have == sizeof(h->header))
				hear_header(h);
		}
		data += n;
		size -= n;
	}
}

/* What comes is heard, if it is of interest. */
static void turn(sd_event *e, int sock, struct heard *h)
{
	uint8_t buf[4096];
	ssize_t n;

	while (sd_event_run(e, 0) > 0)
		while ((n = recv(sock, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
			if (h)
				hear(h, buf, (size_t)n);
}

/* How many descriptors are open; there are few. */
static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char hello[] = "\0AUTH ANONYMOUS\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
	static const struct bus_options o = { .no_bus = true };
	unsigned before = descriptors();
	int pair[2], fds[2] = { open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
				memfd_create("names", MFD_CLOEXEC) };
	struct operations *m = server_operations_new();
	struct bus *b = NULL;
	struct api_client *a = NULL;
	struct link *l = NULL;
	struct heard h = { 0 };
	sd_event *e = NULL;
	sd_bus *conn;

	if (size >= 2) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		must(sd_event_new(&e) >= 0 && bus_new(&b, m, e, &o) >= 0);
		must(api_client_from_socket(&a, pair[0]) >= 0);
		if (data[1] & AS_USER)
			a->c.id.uid = USER;
		conn = server_side(pair[0]);
		must(link_new(&l, b, conn, a) >= 0 && sd_bus_start(conn) >= 0);
		api_client_unref(a);
		post(pair[1], hello, sizeof(hello) - 1, NULL, 0);
		turn(e, pair[1], NULL);
		call_with(pair[1], data, size, fds);
		turn(e, pair[1], &h);
		told(h.returned);
		bus_free(b);
		(void)close(pair[1]);
		(void)sd_event_unref(e);
	}
	server_operations_free(m);
	(void)close(fds[0]);
	(void)close(fds[1]);
	must(descriptors() == before);
	return 0;
}

/* ---- calls as clients make them -------------------------------------------------------------- */

/* The body begins behind the two bytes of an input. */
static void pad(struct words *w, size_t to)
{
	while ((w->n - 2) % to && w->n < w->most)
		say(w, "", 1);
}

static void say_u32(struct words *w, uint32_t v)
{
	pad(w, 4);
	say(w, &v, sizeof(v));
}

static void say_u64(struct words *w, uint64_t v)
{
	pad(w, 8);
	say(w, &v, sizeof(v));
}

static void say_string(struct words *w, const char *s)
{
	say_u32(w, (uint32_t)strlen(s));
	say(w, s, strlen(s) + 1);
}

static void say_bytes(struct words *w, const char *s)
{
	say_u32(w, (uint32_t)strlen(s));
	say(w, s, strlen(s));
}

static void say_signature(struct words *w, const char *s)
{
	uint8_t len = (uint8_t)strlen(s);

	say(w, &len, 1);
	say(w, s, len + 1U);
}

struct array {
	size_t length, from;
};

static struct array array_begin(struct words *w, size_t align)
{
	struct array a;

	say_u32(w, 0);
	a.length = w->n - 4;
	pad(w, align);
	a.from = w->n;
	return a;
}

static void array_end(struct words *w, struct array a)
{
	uint32_t len = (uint32_t)(w->n - a.from);

	put_back(w, a.length, &len, sizeof(len));
}

static const char *any_path(struct words *w)
{
	return CHOOSE(w, "/a", "/a/b c", "/", "/\xff\x1b", "/a/../b", "/x/y/");
}

static const char *any_name(struct words *w)
{
	return CHOOSE(w, "a", "b.tar.gz", "...", "\xff", " ", "x\ny");
}

static void say_ids(struct words *w)
{
	struct array a = array_begin(w, 8);

	for (uint32_t i = 1 + choose(w, 2); i > 0; i--)
		say_u64(w, 1 + choose(w, chance(w, 80) ? 2 : 5));
	array_end(w, a);
}

static const struct {
	const char *name, *type;
} options[] = {
	{ "undo-usec", "t" }, { "bytes", "t" },     { "deadline-usec", "t" }, { "priority", "s" },
	{ "dry-run", "b" },   { "display", "aay" }, { "origin", "s" },        { "records", "b" },
	{ "states", "as" },   { "uid", "u" },       { "finished", "b" },      { "since-id", "t" },
	{ "limit", "u" },     { "ids", "at" },      { "directory", "h" },     { "name", "ay" },
};

/* n: of directories that were given */
static void say_value(struct words *w, const char *name, const char *type, uint32_t n)
{
	struct array a;

	if (strcmp(type, "t") == 0) {
		say_u64(w, chance(w, 90) ? choose(w, 3600) : any_number(w));
	} else if (strcmp(type, "s") == 0) {
		say_string(w, strcmp(name, "origin") == 0 ? "policy:backups"
							  : CHOOSE(w, "low", "normal", "high"));
	} else if (strcmp(type, "ay") == 0) {
		say_bytes(w, any_name(w));
	} else if (strcmp(type, "at") == 0) {
		say_ids(w);
	} else if (strcmp(type, "aay") == 0 || strcmp(type, "as") == 0) {
		a = array_begin(w, 4);
		for (uint32_t i = 0; i < n; i++) {
			if (type[1] == 's')
				say_string(w, CHOOSE(w, "held", "done", "running"));
			else
				say_bytes(w, any_path(w));
		}
		array_end(w, a);
	} else {
		say_u32(w, choose(w, 2));
	}
}

static void say_options(struct words *w, const char *known, uint32_t n)
{
	struct array a = array_begin(w, 8);

	for (size_t i = 0; i < ELEMENTSOF(options); i++) {
		if (!strstr(known, options[i].name) || !chance(w, 30))
			continue;
		/* A directory is where a name is. */
		if (strcmp(options[i].name, "name") == 0)
			continue;
		pad(w, 8);
		say_string(w, options[i].name);
		say_signature(w, options[i].type);
		say_value(w, options[i].name, options[i].type, n);
	}
	array_end(w, a);
}

static void say_submit(struct words *w, const char *member)
{
	uint32_t n = 1 + choose(w, 3);
	struct array a = array_begin(w, strcmp(member, "SubmitLists") == 0 ? 8 : 4);

	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(member, "Submit") == 0) {
			say_bytes(w, any_path(w));
			continue;
		}
		if (strcmp(member, "SubmitLists") == 0)
			pad(w, 8);
		say_u32(w, 0);
		if (strcmp(member, "SubmitLists") == 0)
			say_u32(w, 1);
	}
	array_end(w, a);
	if (strcmp(member, "SubmitFiles") == 0) {
		a = array_begin(w, 8);
		for (uint32_t i = 0; i < n + choose(w, 3); i++) {
			pad(w, 8);
			say_u32(w, i % n);
			say_bytes(w, any_name(w));
		}
		array_end(w, a);
	}
	say_options(w,
		    strcmp(member, "Submit") == 0 ? "undo-usec deadline-usec priority dry-run"
		    : strcmp(member, "SubmitLists") == 0
			    ? "undo-usec deadline-usec priority dry-run display records"
			    : "undo-usec deadline-usec priority dry-run display origin",
		    n);
}

static void say_arguments(struct words *w, const struct method *m, bool job)
{
	if (strncmp(m->member, "Submit", 6) == 0) {
		say_submit(w, m->member);
	} else if (strcmp(m->signature, "a{sv}") == 0) {
		say_options(w, "states uid finished since-id limit ids", choose(w, 3));
	} else if (strcmp(m->signature, "at") == 0) {
		say_ids(w);
	} else if (m->signature[0] == 't') {
		say_u64(w, 1 + choose(w, 3));
		if (strcmp(m->signature, "tu") == 0)
			say_u32(w, choose(w, 10));
		else if (m->signature[1])
			say_options(w, "directory", 0);
	} else if (m->signature[0] == 's') {
		say_string(w, job ? JOB : MANAGER);
		if (m->signature[1])
			say_string(w, job ? CHOOSE(w, "State", "Path", "Staging")
					  : CHOOSE(w, "Paused", "Jobs", "Features"));
	}
}

void grammar(struct words *w)
{
	bool job = chance(w, 30), bus = chance(w, 20);
	const struct method *of = bus ? of_bus : job ? of_job : of_manager;
	uint8_t which = (uint8_t)choose(w, bus   ? ELEMENTSOF(of_bus)
					   : job ? ELEMENTSOF(of_job)
						 : ELEMENTSOF(of_manager));
	uint8_t flags = (uint8_t)((bus ? OF_THE_BUS : 0) | (job ? OF_A_JOB : 0) |
				  (chance(w, 20) ? AS_USER : 0));

	if (!strpbrk(of[which].signature, "hv"))
		flags |= NO_DESCRIPTORS;
	w->n = 0;
	say(w, &which, 1);
	say(w, &flags, 1);
	say_arguments(w, &of[which], job);
}
