/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of the bus (bus.h) know of each other. A bus owns its links and lists its
 * requests; a request holds its link and its message, so that an answer may come at any time. */
#pragma once

#include <systemd/sd-bus.h>

#include "bus-quota.h"
#include "bus.h"
#include "daemon/api/caller.h"
#include "daemon/api/polkit-grant.h"
#include "daemon/api/operations.h"
#include "daemon/context/context.h"
#include "daemon/context/log.h"
#include "daemon/api/fields.h"
#include "base/macros.h"
#include "wire/protocol.h"

#define ROOT_PATH "/org/reclaimd1"
#define JOB_PREFIX ROOT_PATH "/job"
#define DEVICE_PREFIX ROOT_PATH "/device"
#define SPOOL_PREFIX ROOT_PATH "/spool"
#define POLICY_PREFIX ROOT_PATH "/policy"
#define MANAGER_INTERFACE "org.reclaimd1.Manager"
#define JOB_INTERFACE "org.reclaimd1.Job"
#define POLICY_INTERFACE "org.reclaimd1.Policy"
#define OBJECT_MANAGER "org.freedesktop.DBus.ObjectManager"
#define INTROSPECTABLE "org.freedesktop.DBus.Introspectable"

/* Room for an object path of a job. */
#define JOB_PATH_MAX 48
/* What a message that is no list may take. */
#define MESSAGE_BYTES_USUAL KiB(4)

struct system_link;
struct bus_socket;
struct guest;

#define DEVICES_MOST 64
#define SPOOLS_MOST 256
#define POLICIES_MOST 256

struct policy_timers;

struct bus {
	struct operations *operations;
	struct listener listener;
	sd_event *event;
	struct bus_options o;
	struct system_link *system;
	struct bus_socket *socket;
	sd_id128_t id; /* of the private socket, as a D-Bus server has one */
	LIST_HEAD(link_list, link) links;
	LIST_HEAD(request_list, bus_request) requests;
	LIST_HEAD(guest_list, guest) guests; /* of all sockets */
	LIST_HEAD(subscription_list, subscription) subscriptions;
	sd_event_source *telling; /* of them */
	uint64_t told_usec;
	struct quota *quota;
	uint64_t questions; /* that polkit was asked */
	bool polkit_silent; /* it did not answer last, and that has been said */
	struct device_view devices[DEVICES_MOST]; /* as they were a moment ago */
	size_t n_devices;
	uint64_t devices_usec; /* when; 0: never */
	/* As they were when they were asked for last. */
	struct spool_view spools[SPOOLS_MOST];
	struct policy_view policies[POLICIES_MOST];
	struct policy_timers *timers; /* of them */
};

/* A connection: to the system bus, or of a client of the private socket. */
struct link {
	struct bus *bus; /* NULL once it is cut */
	unsigned refs;
	sd_bus *conn;
	struct api_client *client;   /* the other end, or NULL: a bus with many senders */
	struct api_clients *clients; /* the senders, on a bus */
	size_t unsent_bytes;
	sd_event_source *cutting_off;
	LIST_ENTRY(link) of_bus;
	/* It is cut off, and b->links has it no more. */
	void (*gone)(struct link *l, void *userdata);
	void *userdata;
};

/* Serves all objects on a connection, which it owns from here on, also on failure. a is NULL for a
 * message bus; it is referred to. */
int link_new(struct link **ret, struct bus *b, sd_bus *conn, struct api_client *a);
struct link *link_unref(struct link *l);
/* Ends it now: not from one of its own callbacks. */
void link_cut(struct link *l);
/* Ends it at the next turn of the loop. */
void link_cut_off(struct link *l);
/* Whether neither side of a connection has been shut down. */
bool fd_lives(int fd);
/* Whether its other end is still connected, as far as can be known at once. */
bool link_lives(const struct link *l);
/* Something of about so many bytes has been sent. A client that does not read is cut off. */
void link_sent(struct link *l, size_t bytes);

/* ---- requests ----------------------------------------------------------------------------- */

/* How long an answer has become that may not get longer than it is let. */
struct answer_size {
	size_t bytes;
	bool full;
};

/* Whether another piece of about so many bytes fits into an answer of at most `most`; the first
 * always does, and after one that did not fit none does. */
bool answer_takes(struct answer_size *a, size_t bytes, size_t most);

struct bus_request {
	struct bus *bus; /* NULL once it is freed */
	struct link *link;
	LIST_ENTRY(bus_request) of_bus;
	const struct call *call;
	sd_bus_message *m;     /* what was asked */
	sd_bus_message *reply; /* what has been written of the answer */
	struct api_client *client;
	struct caller caller; /* the client's, with what it has been granted for this call */
	struct grant *grant;  /* what polkit is asked for */
	const uint64_t *ids;  /* of what is to be acted on, the message's or this request's */
	size_t n_ids, n_own;  /* n_own: that are the caller's, and finished */
	size_t names_bytes;   /* taken from the quota */
	size_t asks;          /* likewise */
	struct answer_size answer;
	struct packed {
		char *v;
		size_t n, size;
	} numbers, texts;          /* what goes into the answer as it is */
	const char *property;      /* that is asked for, in the message; NULL: all */
	uint64_t job;              /* that is asked for, where it is one */
	bool asked;                /* polkit has been asked, or need not be */
	bool asked_person;         /* and it asks a person */
	sd_bus_slot *polkit;       /* while it thinks */
	char polkit_id[32];        /* by which it knows the question */
	struct client_watch watch; /* whether the client still waits, then */
	bool seen;                 /* something has been found */
	bool tried;                /* and a worker died of it, or with it */
	int error;                 /* of writing the answer */
	struct failure failure;
};

/* Begins an operation, which answers through one of the functions below, in this call or later.
 * Returns 0; or a negative errno, and what is in q->failure is answered. */
struct call {
	const char *interface, *member;
	int (*run)(struct bus_request *q);
	enum act act; /* where that is what it does */
};

extern const struct call manager_calls[], submit_calls[], list_calls[], job_calls[],
	subscribe_calls[], policy_calls[];

/* The handler of every method in our vtables; userdata is the link. */
int request_begin(sd_bus_message *m, void *userdata, sd_bus_error *error);

/* Begins once more, from the beginning of the message. */
void request_again(struct bus_request *q);

/* What the operations call back: answers, with q->reply where there is one, and frees q. */
void request_answer(const struct failure *f, void *userdata);

/* The same where polkit is asked if it takes more than the caller's own authority (bus-polkit.c).
 * q->ids are the jobs that it is about; none: all jobs. */
void request_decide(const struct failure *f, void *userdata);

/* The link is cut: what polkit thinks about is refused. */
void polkit_cut(struct link *l);

/* A job has changed, become one or ended: to those who have subscribed and may see it. */
void subscriptions_tell(struct bus *b, const struct job_record *r);
/* The link is cut. */
void subscriptions_cut(struct link *l);

/* Makes q->reply, to be filled in. */
int request_reply(struct bus_request *q);

/* answer_takes for what has not failed yet. */
bool request_fits(struct bus_request *q, size_t bytes, size_t most);

/* Makes q->reply with a list of structures that have these fields, and begins it. */
int request_list(struct bus_request *q, const struct field *fields);
/* One more, if it fits into an answer of at most so many bytes. */
void request_append(struct bus_request *q, const struct field *fields, const void *object,
		    size_t most);
/* request_answer for such a list. */
void request_listed(const struct failure *f, void *userdata);
/* Has the record of q->job seen, and answers then. */
void request_read_job(struct bus_request *q, job_seen_t seen);

/* Sets q->failure and returns -EINVAL. */
int request_refuse(struct bus_request *q, enum error_cause cause, const char *format, ...)
	_printf_(3, 4);

/* Answers a message that there is no request of. */
int message_refuse(sd_bus_message *m, const struct failure *f);

/* ---- what is in a message ----------------------------------------------------------------- */

struct option {
	const char *name, *type;
	size_t offset; /* in the target: of a value of that type (bool for "b") */
	/* Reads the value, where it is another one or must be checked, to there. Returns 0 or a
	 * negative errno, with q->failure where it is refused. */
	int (*set)(struct bus_request *q, sd_bus_message *m, void *to);
};

/* Reads an a{sv} in which every key is one of options, at most once. */
int arguments_options(struct bus_request *q, const struct option *options, size_t n, void *target);

/* A byte string and its length, in the message, without the NUL at its end where it has one. */
int arguments_string(sd_bus_message *m, const char **ret, size_t *ret_len);
/* The same, malloc'ed and without any other NUL; `what` it is, for the message. */
int arguments_bytes(struct bus_request *q, sd_bus_message *m, const char *what, char **ret);

/* Refuse descriptor number i of a message if its flags show that it is not a directory, or that no
 * names can be read from it. They ask only for the flags: any other call on a client's descriptor
 * may block forever. The proxy and the intake worker check the rest. Return 0 or a negative errno,
 * with q->failure. */
int arguments_directory(struct bus_request *q, int fd, const char *what, size_t i);
int arguments_list_file(struct bus_request *q, int fd, size_t i);

/* An array of job ids, which is the message's. */
int arguments_ids(struct bus_request *q, sd_bus_message *m, const uint64_t **ret, size_t *ret_n);

/* An enum job_priority, by its name; also as what reads an option. */
int arguments_priority(struct bus_request *q, sd_bus_message *m, void *to);

/* NULL if a string is a name for one component, else what is wrong with it. */
const char *arguments_name_wrong(const char *name, size_t len);

/* Strings of a message must be UTF-8: others are escaped. */
int message_append_text(sd_bus_message *m, const char *s);
void job_path(char *buf, uint64_t id);
/* The number in the path of a job's object, or 0. */
uint64_t job_path_parse(const char *path);

/* ---- objects ------------------------------------------------------------------------------ */

extern const sd_bus_vtable manager_vtable[], job_vtable[], policy_vtable[];

/* Every user may call; the operations decide what is allowed. */
#define METHOD(member, in, in_names, out, out_names)                                               \
	SD_BUS_METHOD_WITH_NAMES(member, in, in_names, out, out_names, request_begin,              \
				 SD_BUS_VTABLE_UNPRIVILEGED)
/* A field as a property, for a function get_property. */
#define PROPERTY(name, type, kind, member, change)                                                 \
	SD_BUS_PROPERTY(name, type, get_property, 0, FIELD_##change),

/* What a structure takes in a message besides its fields, about. */
#define STRUCT_BYTES 32

/* Room for the types of all fields of an object. */
#define SIGNATURE_SIZE 64
/* Returns where it ends; what is behind is left as it was. */
char *fields_signature(const struct field *fields, char *ret);

int message_append_field(sd_bus_message *m, const struct field *f, const void *object);
int message_append_variant(sd_bus_message *m, const struct field *f, const void *object);
int message_append_struct(sd_bus_message *m, const struct field *fields, const void *object);
/* As a{sv}. */
int message_append_properties(sd_bus_message *m, const struct field *fields, const void *object);
/* An object with its only interface, as GetManagedObjects has it: {oa{sa{sv}}}. */
int message_append_managed(sd_bus_message *m, const char *path, const char *interface,
			   const struct field *fields, const void *object);

int views_export(struct link *l);
/* Appends {oa{sa{sv}}} for every device, spool and policy. */
int views_append_managed(struct bus *b, sd_bus_message *m);
/* Fill b->devices, b->spools and b->policies; return how many there are. */
size_t bus_devices_snapshot(struct bus *b);
size_t bus_spools_snapshot(struct bus *b);
size_t bus_policies_snapshot(struct bus *b);
/* Makes the answer of Get or, with NULL, of GetAll of one of them: the object that was called. */
int views_append_properties(struct bus_request *q, const char *property);
void device_views_clear(struct bus *b);
extern const struct call view_calls[];

/* Calls done, in this call or later, when it is known when policies run next. */
void policy_timers_update(struct bus *b, void (*done)(void *userdata), void *userdata);
/* The link to the system bus is cut. */
void policy_timers_cut(struct bus *b);
int policy_timers_new(struct policy_timers **ret);
struct policy_timers *policy_timers_free(struct policy_timers *t);

/* ---- signals, the two ways in ------------------------------------------------------------- */

void signals_listen(struct bus *b);
void signals_ignore(struct bus *b);

int system_link_new(struct system_link **ret, struct bus *b);
struct system_link *system_link_free(struct system_link *s);
/* The connection, or NULL: there is none just now. s may be NULL. */
sd_bus *system_link_connection(const struct system_link *s);
/* What is spoken on a socket of ours. */
struct speech {
	enum protocol_speech id;
	/* Serves a guest: takes our end of the connection to its proxy; a is referred to. Returns 0
	 * or a negative errno, with which the connection is closed. */
	int (*open)(void *userdata, int fd, struct api_client *a);
};

extern const struct speech speech_private;

struct bus_socket {
	struct bus *bus;
	const struct speech *speech;
	void *userdata; /* of the speech */
	int fd;
	char *path;
	bool made; /* to be removed; not where systemd listens */
	sd_event_source *source, *timer;
};

/* Listens at the path, or goes on listening where systemd does for us. */
int bus_socket_new(struct bus_socket **ret, struct bus *b, const char *path,
		   const struct speech *speech, void *userdata);
struct bus_socket *bus_socket_free(struct bus_socket *s);

/* Serves a client that has connected to such a socket. Takes the descriptor of the connection,
 * which is closed where it cannot be served. */
int guest_new(struct bus_socket *s, int fd);
/* Forgets all clients of the socket. */
void guests_free(struct bus_socket *s);
