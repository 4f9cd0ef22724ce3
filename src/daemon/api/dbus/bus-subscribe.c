/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Subscribe: a client that shows jobs follows all that it may see, without asking for any of them
 * again. What has changed is collected and sent to that client alone, four times a second at most,
 * as lines of ListJobs: so it may say whose a job is, and what of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/context/timer.h"

#define TELL_USEC (250 * USEC_PER_MSEC)
/* A message that is as long as this goes at once. */
#define MESSAGE_BYTES_MOST MiB(1)

struct subscription {
	LIST_ENTRY(subscription) of_bus;
	struct bus *bus;
	struct link *link;
	struct api_client *client;
	struct client_watch watch; /* whether the client is still on its bus */
	bool watches;
	sd_bus_message *m; /* what is to be told, or NULL: nothing has changed */
	size_t bytes;
};

static struct subscription *subscription_free(struct subscription *s)
{
	LIST_REMOVE(s, of_bus);
	if (s->watches)
		LIST_REMOVE(&s->watch, link);
	quota_give(s->bus->quota, s->client->account, QUOTA_SUBSCRIPTIONS, 1);
	(void)sd_bus_message_unref(s->m);
	(void)api_client_unref(s->client);
	(void)link_unref(s->link);
	free(s);
	return NULL;
}

static void on_left(struct client_watch *w)
{
	(void)subscription_free(
		(struct subscription *)(void *)((char *)w - offsetof(struct subscription, watch)));
}

/* The same client may be known anew: it is by its name on the bus that it stays the same. */
static struct subscription *subscription_find(const struct bus_request *q)
{
	const char *name = q->client->bus_name;
	struct subscription *s;

	LIST_FOREACH(s, &q->bus->subscriptions, of_bus)
		if (s->link == q->link && (!name || strcmp(s->client->bus_name, name) == 0))
			break;
	return s;
}

/* ---- telling ------------------------------------------------------------------------------ */

static int message_begin(struct subscription *s)
{
	char signature[SIGNATURE_SIZE + 2] = "(";
	int r = sd_bus_message_new_signal(s->link->conn, &s->m, ROOT_PATH, MANAGER_INTERFACE,
					  "JobsChanged");

	*fields_signature(job_line_fields, signature + 1) = ')';
	if (r >= 0 && s->client->bus_name)
		r = sd_bus_message_set_destination(s->m, s->client->bus_name);
	if (r >= 0)
		r = sd_bus_message_open_container(s->m, 'a', signature);
	s->bytes = 0;
	return r;
}

/* What cannot be told would be missed: the client is to see that it is no longer told anything. */
static void send(struct subscription *s)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = s->m;
	int r = m ? sd_bus_message_close_container(m) : 0;

	s->m = NULL;
	if (!m)
		return;
	if (r >= 0)
		r = sd_bus_send(s->link->conn, m, NULL);
	link_sent(s->link, s->bytes + MESSAGE_BYTES_USUAL);
	if (r < 0)
		link_cut_off(s->link);
}

static int on_tell(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct bus *b = userdata;
	struct subscription *s;

	(void)source;
	(void)usec;
	b->told_usec = now_usec();
	LIST_FOREACH(s, &b->subscriptions, of_bus)
		send(s);
	return 0;
}

/* At once where nothing was told a moment ago. */
static int tell_soon(struct bus *b)
{
	uint64_t now = now_usec(), next = MAX(b->told_usec + TELL_USEC, now);

	if (timer_is_set(b->telling))
		return 0;
	return timer_after(b->event, &b->telling, next - now, 1, on_tell, b, "subscriptions");
}

static void tell(struct subscription *s, const struct job_record *r)
{
	int e = s->m ? 0 : message_begin(s);

	if (e >= 0)
		e = message_append_struct(s->m, job_line_fields, r);
	s->bytes += fields_bytes(job_line_fields, r) + STRUCT_BYTES;
	if (e >= 0)
		e = tell_soon(s->bus);
	if (e < 0)
		link_cut_off(s->link);
	else if (s->bytes >= MESSAGE_BYTES_MOST)
		send(s);
}

void subscriptions_tell(struct bus *b, const struct job_record *r)
{
	struct subscription *s;

	LIST_FOREACH(s, &b->subscriptions, of_bus)
		if (caller_may_see(&s->client->c, r) && !s->link->cutting_off)
			tell(s, r);
}

void subscriptions_cut(struct link *l)
{
	for (struct subscription *s = LIST_FIRST(&l->bus->subscriptions), *next; s; s = next) {
		next = LIST_NEXT(s, of_bus);
		if (s->link == l)
			(void)subscription_free(s);
	}
}

/* ---- calls -------------------------------------------------------------------------------- */

static int subscription_new(struct bus_request *q)
{
	struct subscription *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct subscription){ .bus = q->bus,
				    .link = q->link,
				    .client = api_client_ref(q->client) };
	q->link->refs++;
	q->client->listens = true;
	LIST_INSERT_HEAD(&q->bus->subscriptions, s, of_bus);
	if (!q->client->bus_name)
		return 0;
	s->watch.left = on_left;
	s->watches = true;
	LIST_INSERT_HEAD(&q->client->watches, &s->watch, link);
	return 0;
}

static int call_subscribe(struct bus_request *q)
{
	int r;

	if (subscription_find(q)) {
		request_answer(NULL, q);
		return 0;
	}
	if (q->client->gone || q->client->unwatched)
		return request_refuse(q, ERROR_UNSUPPORTED,
				      "The message bus does not tell when you leave it: use the "
				      "private socket.");
	r = quota_take(q->bus->quota, q->client->account, QUOTA_SUBSCRIPTIONS, 1);
	if (r < 0)
		return request_refuse(q, error_from_errno(r, ERROR_AT_QUOTA),
				      "Too many clients follow all jobs: end some of them.");
	r = subscription_new(q);
	if (r < 0)
		quota_give(q->bus->quota, q->client->account, QUOTA_SUBSCRIPTIONS, 1);
	else
		request_answer(NULL, q);
	return r;
}

static int call_unsubscribe(struct bus_request *q)
{
	struct subscription *s = subscription_find(q);

	if (s)
		(void)subscription_free(s);
	request_answer(NULL, q);
	return 0;
}

const struct call subscribe_calls[] = {
	{ MANAGER_INTERFACE, "Subscribe", call_subscribe, 0 },
	{ MANAGER_INTERFACE, "Unsubscribe", call_unsubscribe, 0 },
	{ 0 },
};
