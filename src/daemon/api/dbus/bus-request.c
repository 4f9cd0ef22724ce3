/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A method call on its way:
 *
 *   message --credentials--> caller --quota--> run() --> operation ... --> request_answer
 *
 * On the private socket the caller is known; on a bus its driver is asked first. The message is
 * held until the answer is sent; a client that has gone meanwhile gets none, which is no error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/context/failure.h"

static const struct call *const calls[] = { manager_calls, submit_calls,    list_calls,  job_calls,
					    view_calls,    subscribe_calls, policy_calls };

static const struct call *find_call(const char *interface, const char *member)
{
	for (size_t i = 0; i < ELEMENTSOF(calls); i++)
		for (const struct call *c = calls[i]; c->member; c++)
			if (strcmp(c->interface, interface) == 0 && strcmp(c->member, member) == 0)
				return c;
	return NULL;
}

static void request_free(struct bus_request *q)
{
	if (q->bus && q->client) {
		quota_give(q->bus->quota, q->client->account, QUOTA_ASKS, q->asks);
		quota_give(q->bus->quota, q->client->account, QUOTA_CALLS, 1);
		quota_give(q->bus->quota, q->client->account, QUOTA_NAMES, q->names_bytes);
	}
	if (q->bus)
		LIST_REMOVE(q, of_bus);
	free(q->numbers.v);
	free(q->texts.v);
	(void)sd_bus_message_unref(q->reply);
	(void)sd_bus_message_unref(q->m);
	(void)grant_free(q->grant);
	(void)api_client_unref(q->client);
	(void)link_unref(q->link);
	free(q);
}

int message_refuse(sd_bus_message *m, const struct failure *f)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	char name[64];

	(void)snprintf(name, sizeof(name), ERROR_PREFIX "%s", error_entry(f->cause)->name);
	(void)sd_bus_error_set(&error, name, f->text.line);
	return sd_bus_reply_method_error(m, &error);
}

void request_answer(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;
	struct failure broken;
	int r = q->error;

	if (!f || !f->cause)
		f = &q->failure;
	if (f->cause) {
		(void)message_refuse(q->m, f);
	} else {
		if (r >= 0 && !q->reply)
			r = request_reply(q);
		if (r >= 0)
			r = sd_bus_send(q->link->conn, q->reply, NULL);
		if (r < 0) {
			failure_set(&broken, ERROR_FAILED, "The answer could not be made: %s.",
				    strerror(-r));
			(void)message_refuse(q->m, &broken);
		}
	}
	link_sent(q->link, q->answer.bytes + MESSAGE_BYTES_USUAL);
	request_free(q);
}

int request_reply(struct bus_request *q)
{
	return sd_bus_message_new_method_return(q->m, &q->reply);
}

bool answer_takes(struct answer_size *a, size_t bytes, size_t most)
{
	a->full = a->full || (a->bytes > 0 && a->bytes + bytes > most);
	if (!a->full)
		a->bytes += bytes;
	return !a->full;
}

bool request_fits(struct bus_request *q, size_t bytes, size_t most)
{
	return q->error >= 0 && answer_takes(&q->answer, bytes, most);
}

int request_list(struct bus_request *q, const struct field *fields)
{
	char signature[SIGNATURE_SIZE + 2] = "(";
	int r = request_reply(q);

	*fields_signature(fields, signature + 1) = ')';
	return r < 0 ? r : sd_bus_message_open_container(q->reply, 'a', signature);
}

void request_append(struct bus_request *q, const struct field *fields, const void *object,
		    size_t most)
{
	if (request_fits(q, fields_bytes(fields, object) + STRUCT_BYTES, most))
		q->error = message_append_struct(q->reply, fields, object);
}

void request_listed(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
	request_answer(f, q);
}

void request_read_job(struct bus_request *q, job_seen_t seen)
{
	const struct job_query query = { .finished = true, .ids = &q->job, .n_ids = 1, .limit = 1 };

	operation_list(q->bus->operations, &q->client->c, &query, seen, request_answer, q);
}

int request_refuse(struct bus_request *q, enum error_cause cause, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	failure_setv(&q->failure, cause, format, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *quota_words(int r)
{
	switch (r) {
	case -EDQUOT:
		return "too many calls of this user wait for their answers: go on when some have "
		       "come";
	case -ENFILE:
		return "too many calls wait for their answers: try again";
	default:
		return strerror(-r);
	}
}

static void request_run(struct bus_request *q)
{
	int r = q->call->run(q);

	if (r >= 0)
		return;
	if (!q->failure.cause && r == -ENOMEM)
		(void)request_refuse(q, ERROR_FAILED, "out of memory");
	else if (!q->failure.cause)
		(void)request_refuse(q, ERROR_INVALID_ARGUMENT,
				     "The arguments of %s cannot be read: %s.", q->call->member,
				     strerror(-r));
	request_answer(&q->failure, q);
}

void request_again(struct bus_request *q)
{
	quota_give(q->bus->quota, q->client->account, QUOTA_NAMES, q->names_bytes);
	q->names_bytes = 0;
	(void)sd_bus_message_rewind(q->m, /* complete= */ true);
	request_run(q);
}

static void on_client(struct api_client *a, const char *why, void *userdata)
{
	struct bus_request *q = userdata;
	int r = -ESRCH;

	if (!a)
		(void)request_refuse(q, ERROR_NOT_AUTHORIZED, "Who asks is not known: %s.", why);
	else if (!q->bus)
		(void)request_refuse(q, ERROR_BUSY, "The daemon is stopping.");
	else
		r = quota_take(q->bus->quota, a->account, QUOTA_CALLS, 1);
	if (r >= 0) {
		q->client = api_client_ref(a);
		q->caller = a->c;
		request_run(q);
		return;
	}
	if (!q->failure.cause)
		(void)request_refuse(q, error_from_errno(r, ERROR_AT_QUOTA), "%s: %s.",
				     q->call->member, quota_words(r));
	request_answer(&q->failure, q);
}

static struct bus_request *request_new(struct link *l, sd_bus_message *m, const struct call *c)
{
	struct bus_request *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->bus = l->bus;
	q->link = l;
	l->refs++;
	q->call = c;
	q->m = sd_bus_message_ref(m);
	LIST_INSERT_HEAD(&l->bus->requests, q, of_bus);
	return q;
}

int request_begin(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const struct call *c =
		find_call(sd_bus_message_get_interface(m), sd_bus_message_get_member(m));
	const char *sender = sd_bus_message_get_sender(m);
	struct link *l = userdata;
	struct failure unknown;
	struct bus_request *q;
	int r = 0;

	(void)error;
	if (!c || !l->bus || l->cutting_off)
		return -ESHUTDOWN;
	if (!l->client && !sender) {
		failure_set(&unknown, ERROR_NOT_AUTHORIZED,
			    "Who asks is not known: the message has no sender.");
		r = message_refuse(m, &unknown);
		return r < 0 ? r : 1;
	}
	q = request_new(l, m, c);
	if (!q)
		return -ENOMEM;
	if (l->client)
		on_client(l->client, NULL, q);
	else
		r = api_clients_find(l->clients, sender, on_client, q);
	if (r < 0) {
		(void)request_refuse(q, ERROR_FAILED, "Who asks cannot be found out: %s.",
				     strerror(-r));
		request_answer(&q->failure, q);
	}
	return 1;
}
