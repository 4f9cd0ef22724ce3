/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a client may say on a Varlink connection: whatever is answered is JSON, and nothing is left
 * behind. It passes the pump's framing and sd-varlink's own reading and comparing, as in the
 * daemon. The manager is the one of the unit tests.
 *
 * An input is a byte of flags and the stream, messages that end with a NUL; the same files are sent
 * to the real daemon by the booted test. Takes libsystemd 257. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit/bus-server.h"
#include "daemon/varlink-internal.h"
#include "fuzz.h"
#include "worker/pump-lines.h"

#define AS_USER 1
#define IN_HALVES 2

#define HEARD_MOST MiB(8)

/* What has come back and is not a whole message yet. */
struct heard {
	char *v;
	size_t n;
};

/* ---- where a guest would come in ---------------------------------------------------------- */

static const struct speech *speech;

int __wrap_bus_socket_new(struct bus_socket **ret, struct bus *b, const char *path,
			  const struct speech *spoken);

int __wrap_bus_socket_new(struct bus_socket **ret, struct bus *b, const char *path,
			  const struct speech *spoken)
{
	(void)b;
	(void)path;
	*ret = NULL;
	speech = spoken;
	return 0;
}

/* ---- the client --------------------------------------------------------------------------- */

static void look_at(struct heard *h)
{
	char *end;

	while ((end = memchr(h->v, '\0', h->n))) {
		sd_json_variant *answer = NULL;
		size_t n = (size_t)(end - h->v) + 1;

		must(sd_json_parse(h->v, 0, &answer, NULL, NULL) >= 0);
		must(sd_json_variant_is_object(answer));
		(void)sd_json_variant_unref(answer);
		h->n -= n;
		memmove(h->v, end + 1, h->n);
	}
}

static void turn(sd_event *e, int sock, struct heard *h)
{
	ssize_t n = 1;

	while (sd_event_run(e, 0) > 0 || n > 0) {
		n = recv(sock, h->v + h->n, HEARD_MOST - h->n, MSG_DONTWAIT);
		if (n <= 0)
			continue;
		h->n += (size_t)n;
		look_at(h);
	}
}

/* As the pump does it: messages go when they are whole, and long ones in pieces. */
struct mouth {
	struct lines lines;
	char buf[512];
};

static void say(struct mouth *m, int sock, const uint8_t *data, size_t size)
{
	size_t n;
	bool is_long;

	while (size > 0) {
		n = MIN(size, sizeof(m->buf) - m->lines.held);
		memcpy(m->buf + m->lines.held, data, n);
		m->lines.held += n;
		data += n;
		size -= n;
		while (lines_ready(&m->lines, m->buf, sizeof(m->buf), &n, &is_long) == 0 && n > 0) {
			(void)send(sock, m->buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
			(void)lines_gone(&m->lines, m->buf, n);
		}
	}
}

static void talk(sd_event *e, int sock, const uint8_t *data, size_t size)
{
	struct heard h = { .v = malloc(HEARD_MOST) };
	size_t half = data[0] & IN_HALVES ? (size - 1) / 2 : size - 1;
	struct mouth m = { 0 };

	must(h.v);
	say(&m, sock, data + 1, half);
	turn(e, sock, &h);
	say(&m, sock, data + 1 + half, size - 1 - half);
	turn(e, sock, &h);
	free(h.v);
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
	static const struct bus_options o = { .no_bus = true, .varlink = "/nowhere" };
	unsigned before = descriptors();
	struct manager *m = server_manager_new();
	struct asker *a = NULL;
	struct bus *b = NULL;
	sd_event *e = NULL;
	int pair[2];

	if (size >= 1) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		must(sd_event_new(&e) >= 0 && bus_new(&b, m, e, &o) >= 0 && speech);
		must(asker_from_socket(&a, pair[0]) >= 0);
		if (data[0] & AS_USER)
			a->c.id.uid = USER;
		must(speech->open(b, pair[0], a) >= 0);
		asker_unref(a);
		talk(e, pair[1], data, size);
		bus_free(b);
		(void)close(pair[1]);
		(void)sd_event_unref(e);
	}
	server_manager_free(m);
	must(descriptors() == before);
	return 0;
}
