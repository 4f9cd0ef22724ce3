/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "authority.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define POLKIT "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE POLKIT ".Authority"
#define ALLOW_USER_INTERACTION 1U

/* polkit may have to be started first; and a password may need a person who is not at the machine.
 */
#define QUIET_USEC (10 * USEC_PER_SEC)
#define INTERACTIVE_USEC (300 * USEC_PER_SEC)

/* A question that is open. */
struct inquiry {
	struct client_watch watch; /* of the caller */
	LIST_ENTRY(inquiry) link;
	struct authority *authority;
	char id[32]; /* by which polkit knows it */
	sd_bus_slot *call;
	verdict_t told;
	void *userdata;
};

struct authority {
	sd_bus *bus;
	uint64_t asked;
	LIST_HEAD(inquiry_list, inquiry) open;
};

int authority_new(struct authority **ret, sd_bus *bus)
{
	struct authority *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->bus = bus;
	*ret = a;
	return 0;
}

static void inquiry_end(struct inquiry *i, enum verdict v, const char *trouble)
{
	verdict_t told = i->told;
	void *userdata = i->userdata;

	LIST_REMOVE(i, link);
	LIST_REMOVE(&i->watch, link);
	(void)sd_bus_slot_unref(i->call);
	free(i);
	told(v, trouble, userdata);
}

struct authority *authority_free(struct authority *a)
{
	for (struct inquiry *i = a ? LIST_FIRST(&a->open) : NULL, *next; i; i = next) {
		next = LIST_NEXT(i, link);
		inquiry_end(i, VERDICT_NO, "the message bus has gone");
	}
	free(a);
	return NULL;
}

/* A password dialog that is open is no longer needed. That this may not arrive is no harm: polkit
 * forgets what it is not waited for. */
static void take_back(struct inquiry *i)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(i->authority->bus, &m, POLKIT, POLKIT_PATH,
					       POLKIT_INTERFACE, "CancelCheckAuthorization");

	if (r >= 0)
		r = sd_bus_message_append(m, "s", i->id);
	if (r >= 0)
		r = sd_bus_message_set_expect_reply(m, false);
	if (r >= 0)
		r = sd_bus_message_set_auto_start(m, false);
	if (r >= 0)
		(void)sd_bus_send(i->authority->bus, m, NULL);
}

static int verdict_read(sd_bus_message *m, enum verdict *ret)
{
	int yes = 0, challenge = 0, r;

	if (!sd_bus_message_has_signature(m, "(bba{ss})"))
		return -EBADMSG;
	r = sd_bus_message_enter_container(m, 'r', "bba{ss}");
	if (r >= 0)
		r = sd_bus_message_read(m, "bb", &yes, &challenge);
	if (r < 0)
		return r;
	*ret = yes ? VERDICT_YES : challenge ? VERDICT_CHALLENGE : VERDICT_NO;
	return 0;
}

static int on_verdict(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	enum verdict v = VERDICT_NO;
	struct inquiry *i = userdata;

	(void)error;
	if (e) { /* also that it took too long */
		take_back(i);
		inquiry_end(i, VERDICT_NO, e->message ? e->message : e->name);
	} else if (verdict_read(m, &v) < 0) {
		inquiry_end(i, VERDICT_NO, "its answer is not to be understood");
	} else {
		inquiry_end(i, v, NULL);
	}
	return 0;
}

static void on_left(struct client_watch *w)
{
	struct inquiry *i = (struct inquiry *)(void *)((char *)w - offsetof(struct inquiry, watch));

	take_back(i);
	inquiry_end(i, VERDICT_NO, NULL);
}

/* ---- asking ------------------------------------------------------------------------------- */

static int details_append(sd_bus_message *m, const struct question *q)
{
	int r = sd_bus_message_open_container(m, 'a', "{ss}");

	for (size_t k = 0; r >= 0 && k < q->n_details; k++)
		r = sd_bus_message_append(m, "{ss}", q->details[k].name, q->details[k].value);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int polkit_call(struct inquiry *i, const struct question *q)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(i->authority->bus, &m, POLKIT, POLKIT_PATH,
					       POLKIT_INTERFACE, "CheckAuthorization");

	if (r >= 0)
		r = sd_bus_message_append(m, "(sa{sv})s", "system-bus-name", 1, "name", "s",
					  q->caller->bus_name, q->action);
	if (r >= 0)
		r = details_append(m, q);
	if (r >= 0)
		r = sd_bus_message_append(m, "us", q->interactive ? ALLOW_USER_INTERACTION : 0U,
					  i->id);
	return r < 0 ? r
		     : sd_bus_call_async(i->authority->bus, &i->call, m, on_verdict, i,
					 q->interactive ? INTERACTIVE_USEC : QUIET_USEC);
}

int authority_ask(struct authority *a, const struct question *q, verdict_t told, void *userdata)
{
	struct inquiry *i;
	int r;

	if (q->caller->gone)
		return -ENOTCONN;
	i = calloc(1, sizeof(*i));
	if (!i)
		return -ENOMEM;
	*i = (struct inquiry){
		.watch = { .left = on_left }, .authority = a, .told = told, .userdata = userdata
	};
	(void)snprintf(i->id, sizeof(i->id), "reclaimd-%" PRIu64, ++a->asked);
	r = polkit_call(i, q);
	if (r < 0) {
		free(i);
		return r;
	}
	LIST_INSERT_HEAD(&q->caller->watches, &i->watch, link);
	LIST_INSERT_HEAD(&a->open, i, link);
	return 0;
}
