/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a client may say on a Varlink connection: whatever is answered is JSON, and nothing is left
 * behind. It passes the proxy's framing and sd-varlink's own reading and comparing, as in the
 * daemon. The manager is the one of the unit tests.
 *
 * An input is a byte of flags and the stream, messages that end with a NUL; the same files are sent
 * to the real daemon by the booted test. Takes libsystemd 257. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit/bus-server.h"
#include "daemon/api/varlink/varlink-state.h"
#include "fuzz.h"
#include "worker/proxy/proxy-lines.h"

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
			  const struct speech *spoken, void *userdata);

int __wrap_bus_socket_new(struct bus_socket **ret, struct bus *b, const char *path,
			  const struct speech *spoken, void *userdata)
{
	(void)b;
	(void)path;
	*ret = NULL;
	(void)userdata;
	speech = spoken;
	return 0;
}

/* ---- the client --------------------------------------------------------------------------- */

static void stat_descriptor(struct heard *h)
{
	char *end;

	while ((end = memchr(h->v, '\0', h->n))) {
		sd_json_variant *answer = NULL;
		size_t n = (size_t)(end - h->v) + 1;

		must(sd_json_parse(h->v, 0, &answer, NULL, NULL) >= 0);
		must(sd_json_variant_is_object(answer));
		told(!sd_json_variant_by_key(answer, "error"));
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
		stat_descriptor(h);
	}
}

/* As the proxy does it: messages go when they are whole, and long ones in pieces. */
struct mouth {
	struct lines lines;
	char buf[512];
};

static void speak(struct mouth *m, int sock, const uint8_t *data, size_t size)
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
	static char room[HEARD_MOST];
	struct heard h = { .v = room };
	size_t half = data[0] & IN_HALVES ? (size - 1) / 2 : size - 1;
	struct mouth m = { 0 };

	speak(&m, sock, data + 1, half);
	turn(e, sock, &h);
	speak(&m, sock, data + 1 + half, size - 1 - half);
	turn(e, sock, &h);
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
	static const struct bus_options o = { .no_bus = true };
	unsigned before = descriptors();
	struct operations *m = server_operations_new();
	struct api_client *a = NULL;
	struct bus *b = NULL;
	struct varlink *v = NULL;
	sd_event *e = NULL;
	int pair[2];

	if (size >= 1) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		must(sd_event_new(&e) >= 0 && bus_new(&b, m, e, &o) >= 0);
		must(varlink_new(&v, b, "/nowhere") >= 0 && speech);
		must(api_client_from_socket(&a, pair[0]) >= 0);
		if (data[0] & AS_USER)
			a->c.id.uid = USER;
		must(speech->open(v, pair[0], a) >= 0);
		api_client_unref(a);
		talk(e, pair[1], data, size);
		varlink_free(v);
		bus_free(b);
		(void)close(pair[1]);
		(void)sd_event_unref(e);
	}
	server_operations_free(m);
	must(descriptors() == before);
	return 0;
}

/* ---- calls as clients make them -------------------------------------------------------------- */

struct parameter {
	const char *name;
	/* i: number, I: of a job, b, s: path, a before it: an array; others as they say */
	const char *type;
	bool needed;
};

static const struct method {
	const char *name;
	struct parameter parameters[7];
} methods[] = {
	{ "Submit",
	  { { "paths", "as", true },
	    { "pathsBase64", "base64", false },
	    { "undoUSec", "i", false },
	    { "deadlineUSec", "i", false },
	    { "priority", "priority", false },
	    { "bytes", "i", false },
	    { "dryRun", "b", false } } },
	{ "GetJob", { { "id", "I", true } } },
	{ "ListJobs",
	  { { "states", "states", false },
	    { "uid", "i", false },
	    { "finished", "b", false },
	    { "sinceId", "i", false },
	    { "limit", "i", false },
	    { "ids", "aI", false } } },
	{ "GetProblems",
	  { { "id", "I", true }, { "offset", "i", false }, { "limit", "i", false } } },
	{ "GetEntries",
	  { { "id", "I", true }, { "offset", "i", false }, { "limit", "i", false } } },
	{ "GetKept", { { "id", "I", true }, { "after", "i", false }, { "limit", "i", false } } },
	{ "Cancel", { { "ids", "aI", true } } },
	{ "Pause", { { "ids", "aI", true } } },
	{ "Resume", { { "ids", "aI", true } } },
	{ "SetPriority", { { "ids", "aI", true }, { "priority", "priority", true } } },
	{ "SetDeadline", { { "ids", "aI", true }, { "deadlineUSec", "i", true } } },
	{ "PauseAll", { { 0 } } },
	{ "ResumeAll", { { 0 } } },
	{ "Restore", { { "id", "I", true } } },
	{ "ListSpools", { { 0 } } },
	{ "ListDevices", { { 0 } } },
	{ "ListLatencies", { { 0 } } },
	{ "ListPolicies", { { 0 } } },
	{ "PlanPolicy", { { "name", "s", true } } },
	{ "RunPolicy", { { "name", "s", true } } },
	{ "GetStatus", { { 0 } } },
	{ "GetMetrics", { { 0 } } },
	{ "Reload", { { 0 } } },
	{ "Monitor", { { 0 } } },
};

static void say_value(struct words *w, const char *type)
{
	if (type[0] == 'a') {
		sayf(w, "[");
		for (uint32_t i = 1 + choose(w, 3); i > 0; i--) {
			say_value(w, type + 1);
			sayf(w, "%s", i > 1 ? "," : "");
		}
		sayf(w, "]");
	} else if (strcmp(type, "i") == 0) {
		sayf(w, "%llu",
		     (unsigned long long)(chance(w, 90) ? 1 + choose(w, 9) : any_number(w)));
	} else if (strcmp(type, "I") == 0) {
		sayf(w, "%u", 1 + choose(w, chance(w, 80) ? 2 : 5));
	} else if (strcmp(type, "b") == 0) {
		sayf(w, "%s", CHOOSE(w, "true", "false"));
	} else if (strcmp(type, "s") == 0) {
		sayf(w, "\"%s\"", CHOOSE(w, "/a", "/a/b c", "/\\u001b", "/a/\\\"", "/\xc3\xa9"));
	} else if (strcmp(type, "base64") == 0) {
		sayf(w, "%s", CHOOSE(w, "[\"L2E=\"]", "[\"L/8=\"]", "[]"));
	} else if (strcmp(type, "states") == 0) {
		sayf(w, "%s", CHOOSE(w, "[\"held\"]", "[\"done\",\"partial\"]", "[]"));
	} else {
		sayf(w, "%s", CHOOSE(w, "\"low\"", "\"normal\"", "\"high\""));
	}
}

static void say_parameters(struct words *w, const struct method *m)
{
	bool first = true;

	sayf(w, "{");
	for (const struct parameter *p = m->parameters; p->name; p++) {
		if (!p->needed && !chance(w, 25))
			continue;
		sayf(w, "%s\"%s\":", first ? "" : ",", p->name);
		if (!p->needed && chance(w, 10))
			sayf(w, "null");
		else
			say_value(w, p->type);
		first = false;
	}
	sayf(w, "}");
}

/* One more message. */
void grammar(struct words *w)
{
	const struct method *m = &methods[choose(w, ELEMENTSOF(methods))];
	uint8_t flags = (uint8_t)((chance(w, 20) ? AS_USER : 0) | (chance(w, 20) ? IN_HALVES : 0));

	if (w->n == 0)
		say(w, &flags, 1);
	if (chance(w, 10)) {
		sayf(w, "%s", "{\"method\":\"org.varlink.service.GetInfo\"}");
	} else {
		sayf(w, "{\"method\":\"org.reclaimd.Reclaim.%s\"", m->name);
		if (m->parameters[0].name || chance(w, 50)) {
			sayf(w, ",\"parameters\":");
			say_parameters(w, m);
		}
		if (strcmp(m->name, "Monitor") == 0)
			sayf(w, ",\"more\":true");
		else if (chance(w, 5))
			sayf(w, ",\"oneway\":true");
		sayf(w, "}");
	}
	say(w, "", 1);
}
