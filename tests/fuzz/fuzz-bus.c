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
#include "daemon/bus-internal.h"
#include "fuzz.h"
#include "util/fd.h"
#include "worker/pump-header.h"

#define OF_A_JOB 1
#define ANY_SIGNATURE 2
#define AS_USER 4
#define OTHER_HEADER 8

struct method {
	const char *member, *signature;
};

static const struct method of_manager[] = {
	{ "SubmitFiles", "aha(uay)a{sv}" },
	{ "SubmitLists", "a(hh)a{sv}" },
	{ "Submit", "aaya{sv}" },
	{ "ListJobs", "a{sv}" },
	{ "ListJobsPacked", "a{sv}" },
	{ "GetJob", "t" },
	{ "Cancel", "at" },
	{ "Pause", "at" },
	{ "Resume", "at" },
	{ "Restore", "ta{sv}" },
	{ "Reload", "" },
	{ "PauseAll", "" },
	{ "ResumeAll", "" },
	{ "ListDevices", "" },
};

static const struct method of_job[] = {
	{ "GetProblems", "tu" }, { "GetContents", "tu" }, { "Cancel", "" },
	{ "Pause", "" },         { "Resume", "" },        { "Nothing", "s" },
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
	field(t, 2, 's', job ? "org.reclaimd1.Job" : "org.reclaimd1.Manager");
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
	const struct method *m = job ? &of_job[data[0] % ELEMENTSOF(of_job)]
				     : &of_manager[data[0] % ELEMENTSOF(of_manager)];
	char signature[32] = "";
	struct text t = { .n = 0 };
	size_t n_fds;

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
	header(&t, m, job, signature, size, 2);
	if (flags & OTHER_HEADER)
		for (size_t i = size > 0 ? 1U + *data % 15U : 0; i > 0 && size >= 2; i--) {
			t.v[data[0] % t.n] = data[1];
			data += 2;
			size -= 2;
		}
	/* As the pump does it. */
	n_fds = header_may_carry(t.v, t.n, 2) ? 2 : 0;
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

static void turn(sd_event *e, int sock)
{
	char buf[4096];

	while (sd_event_run(e, 0) > 0)
		while (recv(sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
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
	struct manager *m = server_manager_new();
	struct bus *b = NULL;
	struct asker *a = NULL;
	struct link *l = NULL;
	sd_event *e = NULL;
	sd_bus *conn;

	if (size >= 2) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		must(sd_event_new(&e) >= 0 && bus_new(&b, m, e, &o) >= 0);
		must(asker_from_socket(&a, pair[0]) >= 0);
		if (data[1] & AS_USER)
			a->c.id.uid = USER;
		conn = server_side(pair[0]);
		must(link_new(&l, b, conn, a) >= 0 && sd_bus_start(conn) >= 0);
		asker_unref(a);
		post(pair[1], hello, sizeof(hello) - 1, NULL, 0);
		turn(e, pair[1]);
		call_with(pair[1], data, size, fds);
		turn(e, pair[1]);
		bus_free(b);
		(void)close(pair[1]);
		(void)sd_event_unref(e);
	}
	server_manager_free(m);
	(void)close(fds[0]);
	(void)close(fds[1]);
	must(descriptors() == before);
	return 0;
}
