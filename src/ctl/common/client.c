/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "ctl/output/messages.h"
#include "base/error-table.h"
#include "base/fd.h"
#include "base/thread.h"

/* How long a verb that waits waits for a daemon that has ended: longer than a restart takes. */
#define AGAIN_USEC (30 * USEC_PER_SEC)
#define AGAIN_EVERY_USEC (200 * USEC_PER_MSEC)

struct client *client_free(struct client *c)
{
	if (!c)
		return NULL;
	reach_close(&c->way);
	agent_end(c->agent);
	free(c);
	return NULL;
}

static const char *runtime_dir(const struct options *o)
{
	return o->runtime_dir ? o->runtime_dir : reach_environment_dir();
}

static struct route route_of(const struct options *o, bool socket_first, bool start)
{
	return (struct route){ .dir = o->machine ? NULL : runtime_dir(o),
			       .machine = o->machine,
			       .socket_first = socket_first,
			       .start = start };
}

static int client_new(struct client **ret, const struct route *w)
{
	struct client *c = calloc(1, sizeof(*c));
	int r = c ? reach_daemon(&c->way, w) : -ENOMEM;

	*ret = r < 0 ? client_free(c) : c;
	return r;
}

static int machine_failed(const char *machine, int r)
{
	if (r == -EACCES || r == -EPERM) {
		complain(machine, "its system bus may not be opened: %s", strerror(-r));
		return EXIT_NOT_AUTHORIZED;
	}
	if (r == -EHOSTDOWN || r == -EINVAL)
		complain(machine, "no machine of this name runs: see machinectl list");
	else
		complain(machine,
			 "no daemon to talk to there (%s): start it (systemctl -M %s start "
			 "reclaimd)",
			 strerror(-r), machine);
	return EXIT_NO_DAEMON;
}

int client_open(struct client **ret, const struct options *o, bool socket_first)
{
	const char *dir = runtime_dir(o);
	const struct route w = route_of(o, socket_first, /* start= */ true);
	int r = client_new(ret, &w);

	if (r >= 0)
		return 0;
	if (o->machine)
		return machine_failed(o->machine, r);
	if (r == -EPIPE || r == -ECONNRESET) {
		complain("reclaimd",
			 "has closed the connection: it is stopping, or has too many of "
			 "yours: try again");
		return EXIT_FAILED;
	}
	if (r == -EACCES || r == -EPERM) {
		complain(dir ? dir : REACH_RUNTIME_DIR, "the daemon's socket may not be opened: %s",
			 strerror(-r));
		return EXIT_NOT_AUTHORIZED;
	}
	if (dir)
		complain(dir,
			 "no daemon to talk to (%s): start it (reclaimd --runtime-directory=...), "
			 "or delete without one (reclaimctl run)",
			 strerror(-r));
	else
		complain("reclaimd", "no daemon to talk to: start it (systemctl start reclaimd), "
				     "or delete without one (reclaimctl run)");
	return EXIT_NO_DAEMON;
}

struct client *client_try(const struct options *o, bool socket_first)
{
	const struct route w = route_of(o, socket_first, /* start= */ false);
	struct client *c;

	(void)client_new(&c, &w);
	return c;
}

void client_asks(struct client *c, const struct options *o)
{
	c->asks = !c->way.direct && geteuid() != 0 && !o->no_ask_password && isatty(STDIN_FILENO);
}

int client_broken(int r)
{
	if (r == -ENOMEM)
		complain("reclaimctl", "out of memory");
	else
		complain("reclaimd",
			 "speaks in a way that this reclaimctl does not understand "
			 "(%s): are both of the same version?",
			 strerror(-r));
	return EXIT_FAILED;
}

static int lost(int r)
{
	complain("reclaimd",
		 "is not to be reached any more (%s); what it has accepted goes on when "
		 "it is started again: see reclaimctl list",
		 strerror(-r));
	return EXIT_FAILED;
}

int client_again(struct client *c, const struct options *o)
{
	const struct route w = route_of(o, c->way.direct, /* start= */ false);
	uint64_t end = now_usec() + AGAIN_USEC;
	int r = -ENOTCONN;

	if (!o->quiet)
		complain("reclaimd", "has ended; waiting for it to come back");
	reach_close(&c->way);
	while (r < 0 && now_usec() < end) {
		(void)usleep(AGAIN_EVERY_USEC);
		r = reach_daemon(&c->way, &w);
	}
	return r < 0 ? lost(r) : 0;
}

/* ---- slow answers ------------------------------------------------------------------------- */

#define SLOW_USEC (5 * USEC_PER_SEC)

/* A thread that reports once, after SLOW_USEC, that a call has no answer yet. */
struct slow {
	char member[64]; /* a copy, because the message may move its text */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool running, is_answered; /* is_answered: under the lock */
};

static void *slow_main(void *userdata)
{
	struct slow *s = userdata;
	uint64_t until = now_usec() + SLOW_USEC;

	pthread_mutex_lock(&s->lock);
	while (!s->is_answered && now_usec() < until)
		cond_wait_until(&s->answered, &s->lock, until);
	if (!s->is_answered)
		complain("reclaimd",
			 "has not answered the call %s for 5 seconds; still waiting. systemctl "
			 "status reclaimd shows whether it is stopped",
			 s->member);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Without a thread the call is made all the same. */
static void slow_begin(struct slow *s, const char *member)
{
	*s = (struct slow){ .lock = PTHREAD_MUTEX_INITIALIZER,
			    .answered = PTHREAD_COND_INITIALIZER };
	(void)snprintf(s->member, sizeof(s->member), "%s", member);
	s->running = thread_start(&s->thread, slow_main, s) >= 0;
}

static void slow_end(struct slow *s)
{
	if (!s->running)
		return;
	pthread_mutex_lock(&s->lock);
	s->is_answered = true;
	pthread_cond_signal(&s->answered);
	pthread_mutex_unlock(&s->lock);
	(void)pthread_join(s->thread, NULL);
}

static bool is_cut(int r)
{
	return r == -ECONNRESET || r == -ENOTCONN || r == -EPIPE;
}

/* Says what the daemon, or the way to it, has against a call. */
static int call_failed(const struct client *c, const sd_bus_error *e, int r)
{
	static const struct {
		const char *name;
		const char *text; /* NULL: the daemon's own */
		int status;
		bool ended;
	} known[] = {
		{ SD_BUS_ERROR_ACCESS_DENIED, NULL, EXIT_NOT_AUTHORIZED, false },
		{ SD_BUS_ERROR_SERVICE_UNKNOWN, "has ended: start it (systemctl start reclaimd)",
		  EXIT_NO_DAEMON, true },
		{ SD_BUS_ERROR_NAME_HAS_NO_OWNER, NULL, EXIT_FAILED, true },
		{ SD_BUS_ERROR_DISCONNECTED, NULL, EXIT_FAILED, true },
		{ SD_BUS_ERROR_NOT_SUPPORTED,
		  "accepts descriptors only on its own socket, which cannot be reached: see "
		  "systemctl status reclaimd",
		  EXIT_NO_DAEMON, false },
		{ SD_BUS_ERROR_NO_REPLY,
		  "did not answer: see systemctl status reclaimd and reclaimctl list", EXIT_FAILED,
		  false },
		{ SD_BUS_ERROR_TIMEOUT,
		  "did not answer in time: see systemctl status reclaimd and reclaimctl list",
		  EXIT_FAILED, false },
	};
	enum error_cause cause = error_by_bus_name(e->name);
	int status = cause ? error_entry(cause)->exit_status : EXIT_FAILED;
	bool ended = cause == ERROR_BUSY || is_cut(r);
	const char *text = NULL;

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		if (sd_bus_error_has_name(e, known[i].name)) {
			ended = known[i].ended;
			status = known[i].status;
			text = known[i].text;
		}
	/* The bus says of one that has ended, at once, what is said of one that is slow. */
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY))
		ended = now_usec() < c->deadline_usec;
	if (c->outlives && ended)
		return CLIENT_LOST;
	if (c->hushed)
		return status;
	/* What the daemon says names what it is about. */
	if (text)
		complain("reclaimd", "%s", text);
	else if (is_cut(r))
		return lost(r);
	else if (cause)
		complain(NULL, "%s", e->message ? e->message : error_entry(cause)->text);
	else
		complain("reclaimd", "%s", e->message ? e->message : strerror(-r));
	return status;
}

sd_bus_message *client_message(struct client *c, const char *path, const char *interface,
			       const char *member)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(
		c->way.bus, &m, c->way.direct ? NULL : REACH_BUS_NAME, path, interface, member);

	if (r < 0) {
		(void)client_broken(r);
		return NULL;
	}
	if (c->outlives)
		(void)sd_bus_message_set_auto_start(m, false);
	return m;
}

/* Notes how long the answer to a call that begins now is waited for (0: as long as is usual). */
static void deadline_note(struct client *c, uint64_t timeout_usec)
{
	uint64_t now = now_usec();

	if (timeout_usec == 0)
		(void)sd_bus_get_method_call_timeout(c->way.bus, &timeout_usec);
	c->deadline_usec = now + MIN(timeout_usec, UINT64_MAX - now);
}

/* The same call once more; now a person may be asked, for as long as the daemon thinks fit. */
static int call_asking(struct client *c, sd_bus_message *m, sd_bus_error *error,
		       sd_bus_message **ret_reply)
{
	_cleanup_message_ sd_bus_message *again =
		client_message(c, sd_bus_message_get_path(m), sd_bus_message_get_interface(m),
			       sd_bus_message_get_member(m));
	int r = again ? sd_bus_message_rewind(m, /* complete= */ true) : -ENOMEM;

	if (r >= 0)
		r = sd_bus_message_copy(again, m, /* all= */ true);
	if (r >= 0)
		r = sd_bus_message_set_allow_interactive_authorization(again, true);
	if (r < 0)
		return r;
	if (c->agent == 0)
		c->agent = agent_start();
	deadline_note(c, UINT64_MAX);
	return sd_bus_call(c->way.bus, again, UINT64_MAX, error, ret_reply);
}

/* Notes what a call has changed that the daemon has answered: verbs call for one job at a time. */
static void change_note(sd_bus_message *m, sd_bus_message *reply)
{
	static const struct {
		const char *member, *text;
		bool accepts; /* the answer is a new job, or 0 after a dry run */
	} changes[] = {
		{ "SubmitFiles", "was accepted", true },
		{ "SubmitLists", "was accepted", true },
		{ "Cancel", "was cancelled", false },
		{ "Pause", "was paused", false },
		{ "Resume", "was resumed", false },
		{ "SetPriority", "was changed", false },
		{ "SetDeadline", "was changed", false },
		{ "Restore", "was restored", false },
		{ "PauseAll", "all jobs were paused", false },
		{ "ResumeAll", "all jobs were resumed", false },
	};
	size_t i = 0;
	uint64_t id = 0;

	while (strcmp(changes[i].member, sd_bus_message_get_member(m)) != 0)
		if (++i == ELEMENTSOF(changes))
			return;
	if (changes[i].accepts)
		m = reply;
	if (sd_bus_message_has_signature(m, ""))
		outcome_note("%s", changes[i].text);
	(void)sd_bus_message_rewind(m, /* complete= */ true);
	if (sd_bus_message_get_signature(m, /* complete= */ true)[0] == 'a')
		(void)sd_bus_message_enter_container(m, 'a', "t");
	if (sd_bus_message_read_basic(m, 't', &id) > 0 && id > 0)
		outcome_note("job %" PRIu64 " %s", id, changes[i].text);
	(void)sd_bus_message_rewind(m, /* complete= */ true);
}

int client_send(struct client *c, sd_bus_message *m, uint64_t timeout_usec,
		sd_bus_message **ret_reply)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	enum error_cause cause;
	struct slow slow = { 0 };
	int r;

	deadline_note(c, timeout_usec);
	if (!c->hushed)
		slow_begin(&slow, sd_bus_message_get_member(m));
	r = sd_bus_call(c->way.bus, m, timeout_usec, &error, &reply);
	slow_end(&slow);
	cause = error_by_bus_name(error.name);
	if (r < 0 && c->asks && !c->hushed &&
	    (cause == ERROR_NO_SUCH_JOB || cause == ERROR_NOT_AUTHORIZED)) {
		sd_bus_error_free(&error);
		r = call_asking(c, m, &error, &reply);
	}
	if (r >= 0)
		change_note(m, reply);
	sd_bus_message_unref(m);
	if (r < 0)
		return call_failed(c, &error, r);
	if (ret_reply)
		*ret_reply = sd_bus_message_ref(reply);
	return 0;
}

int client_call(struct client *c, const char *path, const char *interface, const char *member,
		sd_bus_message **ret_reply, const char *types, ...)
{
	sd_bus_message *m = client_message(c, path, interface, member);
	va_list ap;
	int r;

	if (!m)
		return EXIT_FAILED;
	va_start(ap, types);
	r = types ? sd_bus_message_appendv(m, types, ap) : 0;
	va_end(ap);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	return client_send(c, m, 0, ret_reply);
}

int option_open(sd_bus_message *m, const char *name, const char *type)
{
	int r = sd_bus_message_open_container(m, 'e', "sv");

	if (r >= 0)
		r = sd_bus_message_append(m, "s", name);
	return r < 0 ? r : sd_bus_message_open_container(m, 'v', type);
}

int option_close(sd_bus_message *m, int r)
{
	for (int i = 0; r >= 0 && i < 2; i++)
		r = sd_bus_message_close_container(m);
	return r;
}
