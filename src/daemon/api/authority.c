/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "authority.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define DRIVER "org.freedesktop.DBus"
#define DRIVER_PATH "/org/freedesktop/DBus"
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
	struct authority *authority;
	char id[32]; /* by which polkit knows it */
	char *subject;
	sd_bus_slot *watch, *look, *call;
	verdict_t told;
	void *userdata;
	struct inquiry *next;
};

struct authority {
	sd_bus *bus;
	uint64_t asked;
	struct inquiry *open;
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

static void inquiry_free(struct inquiry *i)
{
	(void)sd_bus_slot_unref(i->watch);
	(void)sd_bus_slot_unref(i->look);
	(void)sd_bus_slot_unref(i->call);
	free(i->subject);
	free(i);
}

static void inquiry_end(struct inquiry *i, enum verdict v, const char *trouble)
{
	struct inquiry **at = &i->authority->open;
	verdict_t told = i->told;
	void *userdata = i->userdata;

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	inquiry_free(i);
	told(v, trouble, userdata);
}

struct authority *authority_free(struct authority *a)
{
	while (a && a->open)
		inquiry_end(a->open, VERDICT_NO, "the message bus has gone");
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

/* ---- is the caller still there? ------------------------------------------------------------- */

static void subject_gone(struct inquiry *i)
{
	take_back(i);
	inquiry_end(i, VERDICT_NO, NULL);
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name, *before, *now;
	struct inquiry *i = userdata;

	(void)error;
	if (sd_bus_message_read(m, "sss", &name, &before, &now) >= 0 &&
	    strcmp(name, i->subject) == 0 && now[0] == '\0')
		subject_gone(i);
	return 0;
}

static int on_watching(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	(void)error;
	if (sd_bus_message_is_method_error(m, NULL)) {
		take_back(userdata);
		inquiry_end(userdata, VERDICT_NO,
			    "the message bus does not tell when the caller leaves it");
	}
	return 0;
}

/* It may have left before it was watched. */
static int on_has_owner(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	int there = 0;

	(void)error;
	if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "b", &there) < 0 ||
	    !there)
		subject_gone(userdata);
	return 0;
}

static int subject_watch(struct inquiry *i)
{
	char rule[512];
	sd_bus *bus = i->authority->bus;
	int n = snprintf(rule, sizeof(rule),
			 "type='signal',sender='" DRIVER "',path='" DRIVER_PATH
			 "',interface='" DRIVER "',member='NameOwnerChanged',arg0='%s'",
			 i->subject),
	    r;

	if (n < 0 || (size_t)n >= sizeof(rule))
		return -ENAMETOOLONG;
	r = sd_bus_add_match_async(bus, &i->watch, rule, on_owner_changed, on_watching, i);
	return r < 0 ? r
		     : sd_bus_call_method_async(bus, &i->look, DRIVER, DRIVER_PATH, DRIVER,
						"NameHasOwner", on_has_owner, i, "s", i->subject);
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
					  q->subject, q->action);
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
	struct inquiry *i = calloc(1, sizeof(*i));
	int r = -ENOMEM;

	if (!i)
		return r;
	*i = (struct inquiry){ .authority = a, .told = told, .userdata = userdata };
	(void)snprintf(i->id, sizeof(i->id), "reclaimd-%" PRIu64, ++a->asked);
	i->subject = strdup(q->subject);
	if (i->subject)
		r = subject_watch(i);
	if (r >= 0)
		r = polkit_call(i, q);
	if (r < 0) {
		inquiry_free(i);
		return r;
	}
	i->next = a->open;
	a->open = i;
	return 0;
}
