/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "database.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/debug.h"
#include "base/macros.h"

/* Nothing that is asked takes longer, but for a server that is not there any more. */
#define CONNECT_USEC (10 * USEC_PER_SEC)
#define STATEMENT_USEC (30 * USEC_PER_SEC)

enum phase { PHASE_CLOSED, PHASE_CONNECTING, PHASE_IDLE, PHASE_BUSY };

struct database {
	sd_event *event;
	sd_event_source *io, *patience, *failed;
	const struct database_events *events;
	void *userdata;
	PGconn *conn;
	enum phase phase;
	PGresult *result; /* of the statement under way, so far */
	const char *why;  /* it has failed where no connection could tell */
};

char *database_string_check(const char *string)
{
	char *text = NULL;
	PQconninfoOption *options = PQconninfoParse(string, &text);
	char *copy = NULL;

	if (!options)
		copy = strdup(text ? text : "out of memory");
	PQconninfoFree(options);
	PQfreemem(text);
	return copy;
}

/* What the string does not say: a server that is gone is noticed before its host's lease is over.
 * The later of two settings counts, and the string is last. */
static PGconn *connect_with(const char *string, const char *name,
			    PGconn *(*start)(const char *const *, const char *const *, int))
{
	char program[128];
	const char *const keys[] = { "fallback_application_name",
				     "client_encoding",
				     "connect_timeout",
				     "keepalives_idle",
				     "keepalives_interval",
				     "keepalives_count",
				     "tcp_user_timeout",
				     "dbname",
				     NULL };
	const char *const values[] = {
		program, "UTF8", "10", "5", "5", "3", "20000", string, NULL
	};

	(void)snprintf(program, sizeof(program), "reclaim-fleet %s", name);
	return start(keys, values, /* expand_dbname= */ 1);
}

PGconn *database_connect_now(const char *string, const char *name)
{
	return connect_with(string, name, PQconnectdbParams);
}

/* Nothing that the server says of its own goes to standard error. */
static void notice_drop(void *userdata, const PGresult *result)
{
	(void)userdata;
	debug_log("the database says: %s", PQresultErrorMessage(result));
}

void database_close(struct database *d)
{
	/* Before the socket is closed, whose number may come again. */
	d->io = sd_event_source_disable_unref(d->io);
	d->patience = sd_event_source_disable_unref(d->patience);
	d->failed = sd_event_source_disable_unref(d->failed);
	PQclear(d->result);
	d->result = NULL;
	PQfinish(d->conn);
	d->conn = NULL;
	d->phase = PHASE_CLOSED;
}

static void lose(struct database *d, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	database_close(d);
	d->events->on_lost(copy ? copy : "out of memory", d->userdata);
}

static int on_failed(sd_event_source *s, void *userdata)
{
	struct database *d = userdata;

	(void)s;
	lose(d, d->why);
	return 0;
}

/* It is told from the event loop, not to a caller in the midst of something. */
static void fail_later(struct database *d, const char *why)
{
	d->why = why;
	if (d->failed)
		return;
	/* Without memory for it, patience tells. */
	(void)sd_event_add_defer(d->event, &d->failed, on_failed, d);
}

static int on_patience(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct database *d = userdata;

	(void)s;
	(void)usec;
	lose(d, d->phase == PHASE_CONNECTING ? "the database does not answer"
					     : "the database does not answer any more");
	return 0;
}

static void patience_set(struct database *d, uint64_t usec)
{
	d->patience = sd_event_source_disable_unref(d->patience);
	if (usec > 0)
		(void)sd_event_add_time_relative(d->event, &d->patience, CLOCK_MONOTONIC, usec,
						 /* accuracy= */ 0, on_patience, d);
}

static int on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata);

/* The socket of a connection that is being made may be another one each time. */
static void io_watch(struct database *d, uint32_t events)
{
	int fd = PQsocket(d->conn), r;

	if (d->io && sd_event_source_get_io_fd(d->io) == fd && d->phase != PHASE_CONNECTING) {
		r = sd_event_source_set_io_events(d->io, events);
	} else {
		d->io = sd_event_source_disable_unref(d->io);
		r = fd < 0 ? -EBADF : sd_event_add_io(d->event, &d->io, fd, events, on_io, d);
	}
	if (r < 0)
		fail_later(d, "its socket cannot be watched");
}

static void connect_go_on(struct database *d)
{
	switch (PQconnectPoll(d->conn)) {
	case PGRES_POLLING_READING:
		io_watch(d, EPOLLIN);
		break;
	case PGRES_POLLING_WRITING:
		io_watch(d, EPOLLOUT);
		break;
	case PGRES_POLLING_OK:
		if (PQsetnonblocking(d->conn, 1) < 0) {
			lose(d, PQerrorMessage(d->conn));
			break;
		}
		io_watch(d, EPOLLIN);
		d->phase = PHASE_IDLE;
		patience_set(d, 0);
		d->events->on_connected(d->userdata);
		break;
	case PGRES_POLLING_FAILED:
	default:
		lose(d, PQerrorMessage(d->conn));
		break;
	}
}

static void notices_tell(struct database *d)
{
	/* What is told may close the connection. */
	for (PGnotify *n; d->conn && (n = PQnotifies(d->conn));) {
		d->events->on_notice(n->extra, d->userdata);
		PQfreemem(n);
	}
}

static void results_take(struct database *d)
{
	while (d->phase == PHASE_BUSY && !PQisBusy(d->conn)) {
		PGresult *next = PQgetResult(d->conn);

		if (next) {
			/* One statement has one; of more, an error counts. */
			if (d->result && PQresultStatus(next) != PGRES_FATAL_ERROR) {
				PQclear(next);
				continue;
			}
			PQclear(d->result);
			d->result = next;
			continue;
		}
		next = d->result;
		d->result = NULL;
		d->phase = PHASE_IDLE;
		patience_set(d, 0);
		/* What the library says of its own is of the connection. */
		if (!next || (PQresultStatus(next) == PGRES_FATAL_ERROR &&
			      database_error_code(next)[0] == '\0')) {
			PQclear(next);
			lose(d, PQerrorMessage(d->conn));
			return;
		}
		d->events->on_result(next, d->userdata);
		PQclear(next);
	}
}

static int on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct database *d = userdata;
	int left;

	(void)s;
	(void)fd;
	if (d->phase == PHASE_CONNECTING) {
		connect_go_on(d);
		return 0;
	}
	if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR) && PQconsumeInput(d->conn) == 0) {
		lose(d, PQerrorMessage(d->conn));
		return 0;
	}
	left = PQflush(d->conn);
	if (left < 0) {
		lose(d, PQerrorMessage(d->conn));
		return 0;
	}
	io_watch(d, left > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
	results_take(d);
	if (d->conn && PQstatus(d->conn) != CONNECTION_OK)
		lose(d, PQerrorMessage(d->conn));
	notices_tell(d);
	return 0;
}

void database_connect(struct database *d, const char *string, const char *name)
{
	database_close(d);
	d->phase = PHASE_CONNECTING;
	patience_set(d, CONNECT_USEC);
	d->conn = connect_with(string, name, PQconnectStartParams);
	if (!d->conn) {
		fail_later(d, "out of memory");
		return;
	}
	(void)PQsetNoticeReceiver(d->conn, notice_drop, NULL);
	if (PQstatus(d->conn) == CONNECTION_BAD)
		fail_later(d, PQerrorMessage(d->conn));
	else
		/* As PQconnectPoll had said PGRES_POLLING_WRITING. */
		io_watch(d, EPOLLOUT);
}

bool database_is_idle(const struct database *d)
{
	return d->phase == PHASE_IDLE && !d->failed;
}

void database_send(struct database *d, const char *statement, const struct parameters *p)
{
	int left;

	d->phase = PHASE_BUSY;
	patience_set(d, STATEMENT_USEC);
	if (p->failed) {
		fail_later(d, "out of memory");
		return;
	}
	if (PQsendQueryParams(d->conn, statement, p->n, NULL, p->v, NULL, NULL, 0) == 0) {
		fail_later(d, PQerrorMessage(d->conn));
		return;
	}
	left = PQflush(d->conn);
	if (left < 0)
		fail_later(d, PQerrorMessage(d->conn));
	else if (left > 0)
		io_watch(d, EPOLLIN | EPOLLOUT);
}

const char *database_error_code(const PGresult *result)
{
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return code ? code : "";
}

const char *database_error_text(const PGresult *result)
{
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	return text ? text : PQresultErrorMessage(result);
}

int database_new(struct database **ret, sd_event *event, const struct database_events *events,
		 void *userdata)
{
	struct database *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->event = sd_event_ref(event);
	d->events = events;
	d->userdata = userdata;
	*ret = d;
	return 0;
}

struct database *database_free(struct database *d)
{
	if (!d)
		return NULL;
	database_close(d);
	sd_event_unref(d->event);
	free(d);
	return NULL;
}
