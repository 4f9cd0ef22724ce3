/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of Varlink (varlink.h) know of each other. It owns its visitors and lists its
 * calls; a call holds its connection, so that an answer may come at any time. */
#pragma once

#include <systemd/sd-varlink.h>

#include "daemon/api/dbus/bus-state.h"
#include "daemon/api/fields.h"
#include "varlink.h"

#define VARLINK_INTERFACE "org.reclaimd.Reclaim"

struct varlink {
	struct bus *bus;
	sd_varlink_server *server;
	struct bus_socket *socket;
	struct listener listener;
	sd_event_source *end;
	LIST_HEAD(visitor_list, visitor) visitors;
	LIST_HEAD(call_list, varlink_call) calls;
};

/* A connection; the userdata of its sd_varlink, which has none any more once it is closed. */
struct visitor {
	struct varlink *varlink;
	sd_varlink *link;
	struct api_client *client;
	size_t unsent_bytes;
	bool monitors;
	bool lags; /* of what has happened, something has not been told */
	sd_event_source *cutting_off, *backlog;
	LIST_ENTRY(visitor) of_varlink;
};

/* Something of about so many bytes is about to be sent. A client that does not read is cut off. */
void visitor_sends(struct visitor *v, size_t bytes);
/* Whether all that was sent has gone. */
bool visitor_has_read(const struct visitor *v);
/* Ends it at the next turn of the loop. */
void visitor_cut_off(struct visitor *v);

/* ---- calls -------------------------------------------------------------------------------- */

struct varlink_call;
/* Begins an operation, which answers through call_answer, in this call or later. Returns 0; or a
 * negative errno, and what is in q->failure is answered. */
typedef int (*call_run_t)(struct varlink_call *q);

struct varlink_call {
	struct varlink *varlink; /* NULL once it is freed */
	LIST_ENTRY(varlink_call) of_varlink;
	sd_varlink *link;
	struct api_client *client;
	call_run_t run;
	bool oneway;                 /* no answer is waited for */
	bool more;                   /* a list comes as a whole, in as many answers as it takes */
	sd_json_variant *parameters; /* what was asked */
	/* The answer: an object; or, where `list` is its name, a list of pieces. */
	sd_json_variant *reply, **pieces;
	const char *list;
	size_t n_pieces;
	size_t names_bytes; /* taken from the quota */
	struct answer_size answer;
	uint64_t job;    /* that is asked for, where it is one */
	bool tried;      /* and a worker died of it, or with it */
	int error;       /* of making the answer */
	const char *bad; /* the parameter that cannot be what it is */
	struct failure failure;
	/* Of a list, with `more`: what asks for the rest of it, from there on, and no more than so
	 * many; and what waits until the client has read what was sent. */
	void (*go_on)(struct varlink_call *q);
	struct job_query query; /* of jobs; ids are the call's */
	enum pieces_of of;      /* of one job */
	uint64_t from, most;
	sd_event_source *reading;
};

/* Bind the methods of a file to the server. */
int call_bind_jobs(sd_varlink_server *s);
int call_bind_submit(sd_varlink_server *s);
int call_bind_views(sd_varlink_server *s);
int monitor_bind(sd_varlink_server *s);

/* What happened (of the type Happening) to a job: to clients that may see it. */
void monitor_tell_job(struct varlink *v, const char *happening, const struct job_record *r);
/* A property of the daemon has changed, named as in the D-Bus interface. */
void monitor_tell_daemon(struct varlink *v, const char *property);

/* What the server calls: finds the caller, and runs. */
int call_begin(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
	       void *userdata, call_run_t run);
#define VARLINK_METHOD(name, run)                                                                  \
	static int name(sd_varlink *link, sd_json_variant *parameters,                             \
			sd_varlink_method_flags_t flags, void *userdata)                           \
	{                                                                                          \
		return call_begin(link, parameters, flags, userdata, run);                         \
	}

/* The server ends: what is asked for meanwhile still answers, to no one. */
void call_stop(struct varlink_call *q);

/* Whether it can still be answered, or wants no answer. */
bool call_is_awaited(const struct varlink_call *q);

/* Begins once more, from the beginning. */
void call_again(struct varlink_call *q);
/* What the operations call back: answers, with what has been made of the answer, and frees q. */
void call_answer(const struct failure *f, void *userdata);

/* call_answer for a part of a list, after which the next one is asked for, if it is to come as a
 * whole and this was no more than one answer holds. */
void call_answer_part(const struct failure *f, void *userdata);
/* What is in one part of it. */
#define LIST_MOST 1000U

/* Sets q->failure and returns -EINVAL. */
int call_refuse(struct varlink_call *q, enum error_cause cause, const char *format, ...)
	_printf_(3, 4);

/* One more piece of the list, if it still fits into the answer. */
void call_append(struct varlink_call *q, const struct field *fields, const void *object);

/* ---- values ------------------------------------------------------------------------------- */

/* Reads the parameters into target. Returns 0, or a negative errno with q->bad. */
int call_read(struct varlink_call *q, const sd_json_dispatch_field *table, void *target);

/* Callbacks of such a table. What is null is left as it was. */
int read_number(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to);
int read_bool(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to);
int read_priority(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to);
/* Job numbers, malloc'ed. */
struct numbers {
	uint64_t *v;
	size_t n;
};
int read_numbers(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to);

/* For SD_JSON_BUILD_CALLBACK: a string as people may see it, escaped where it is not safe to show,
 * or not UTF-8, of which JSON is. */
int build_text(sd_json_variant **ret, const char *name, void *s);
#define BUILD_TEXT(s) SD_JSON_BUILD_CALLBACK(build_text, (void *)(s))

/* An object with these fields; and about how many bytes that is. */
int build_fields(sd_json_variant **ret, const struct field *fields, const void *object);
size_t build_bytes(const struct field *fields, const void *object);

extern const sd_varlink_interface vl_interface_reclaim;
