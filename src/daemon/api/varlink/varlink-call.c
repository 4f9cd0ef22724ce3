/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A method call on its way:
 *
 *   parameters --checked by sd-varlink--> quota --> run() --> operation ... --> call_answer
 *
 * A connection has one call at a time: sd-varlink reads the next one when that is answered. But a
 * call that wants no answer is over for it at once, so there may be more of these. A client that
 * has gone meanwhile gets no answer, which is no error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "daemon/context/failure.h"
#include "daemon/context/timer.h"
#include "varlink-state.h"

#define LIST_BYTES_MOST MiB(1)
/* What an answer takes that is no list. */
#define ANSWER_BYTES_USUAL KiB(4)

/* How often it is checked whether a client has read the last part of a list. */
#define READING_USEC (5 * USEC_PER_MSEC)

static void pieces_clear(struct varlink_call *q)
{
	sd_json_variant_unref_many(q->pieces, q->n_pieces); /* and frees the array */
	q->pieces = NULL;
	q->n_pieces = 0;
}

static void call_free(struct varlink_call *q)
{
	if (q->varlink) {
		struct quota *quota = q->varlink->bus->quota;

		quota_give(quota, q->client->account, QUOTA_CALLS, 1);
		quota_give(quota, q->client->account, QUOTA_NAMES, q->names_bytes);
		LIST_REMOVE(q, of_varlink);
	}
	(void)sd_event_source_disable_unref(q->reading);
	free((void *)q->query.ids);
	pieces_clear(q);
	(void)sd_json_variant_unref(q->reply);
	(void)sd_json_variant_unref(q->parameters);
	(void)api_client_unref(q->client);
	(void)sd_varlink_unref(q->link);
	free(q);
}

/* ---- the answer --------------------------------------------------------------------------- */

/* The library returns the error that it sends, too: only what it cannot send counts. */
static int send_failure(sd_varlink *link, const struct failure *f)
{
	char name[96];
	int r;

	(void)snprintf(name, sizeof(name), VARLINK_INTERFACE ".%s", error_entry(f->cause)->name);
	r = sd_varlink_errorbo(link, name, SD_JSON_BUILD_PAIR("message", BUILD_TEXT(f->text.line)));
	return r == -ENOBUFS || r == -ENOMEM ? r : 0;
}

static int send_bad(sd_varlink *link, const char *parameter)
{
	_cleanup_free_ char *shown = escape_line(parameter);
	int r = sd_varlink_error_invalid_parameter_name(link, shown ? shown : "");

	return r == -ENOBUFS || r == -ENOMEM ? r : 0;
}

static int send_reply(struct varlink_call *q)
{
	if (q->error < 0)
		return q->error;
	if (q->list)
		return sd_varlink_replybo(
			q->link, SD_JSON_BUILD_PAIR_VARIANT_ARRAY(q->list, q->pieces, q->n_pieces));
	return sd_varlink_reply(q->link, q->reply);
}

static int answer_send(struct varlink_call *q, const struct failure *f)
{
	struct failure broken;
	int r;

	if (q->bad)
		return send_bad(q->link, q->bad);
	if (f && f->cause)
		return send_failure(q->link, f);
	r = send_reply(q);
	if (r >= 0)
		return r;
	failure_set(&broken, ERROR_FAILED, "The answer could not be made: %s.", strerror(-r));
	return send_failure(q->link, &broken);
}

void call_answer(const struct failure *f, void *userdata)
{
	struct varlink_call *q = userdata;
	struct visitor *v = sd_varlink_get_userdata(q->link);

	if (v && !q->oneway) {
		visitor_sends(v, q->answer.bytes + ANSWER_BYTES_USUAL);
		/* A client that gets no answer must not wait for it. */
		if (answer_send(q, f) < 0)
			visitor_cut_off(v);
	}
	call_free(q);
}

/* ---- lists as a whole --------------------------------------------------------------------- */

static int read_later(struct varlink_call *q);

static int on_reading(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct varlink_call *q = userdata;
	const struct visitor *v = sd_varlink_get_userdata(q->link);

	(void)source;
	(void)usec;
	if (v && q->varlink && visitor_has_read(v))
		q->go_on(q);
	else if (!v || !q->varlink || (q->error = read_later(q)) < 0)
		call_answer(NULL, q);
	return 0;
}

static int read_later(struct varlink_call *q)
{
	return timer_after(q->varlink->bus->event, &q->reading, READING_USEC, READING_USEC,
			   on_reading, q, "varlink-list");
}

/* A client that does not read what it is sent has no more made for it. */
static int part_send(struct varlink_call *q, struct visitor *v)
{
	int r;

	visitor_sends(v, q->answer.bytes + ANSWER_BYTES_USUAL);
	r = sd_varlink_notifybo(q->link,
				SD_JSON_BUILD_PAIR_VARIANT_ARRAY(q->list, q->pieces, q->n_pieces));
	q->most -= MIN(q->most, (uint64_t)q->n_pieces);
	pieces_clear(q);
	q->answer = (struct answer_size){ 0 };
	return r;
}

void call_answer_part(const struct failure *f, void *userdata)
{
	struct varlink_call *q = userdata;
	struct visitor *v = sd_varlink_get_userdata(q->link);
	bool is_last = !q->answer.full && q->n_pieces < LIST_MOST;

	if (!v || !q->varlink || !q->more || is_last || q->most <= q->n_pieces || (f && f->cause) ||
	    q->error < 0) {
		call_answer(f, q);
		return;
	}
	q->error = part_send(q, v);
	if (q->error >= 0)
		q->error = read_later(q);
	if (q->error < 0)
		call_answer(NULL, q);
}

void call_stop(struct varlink_call *q)
{
	LIST_REMOVE(q, of_varlink);
	q->varlink = NULL;
	if (q->reading)
		call_answer(NULL, q);
}

bool call_is_awaited(const struct varlink_call *q)
{
	const struct visitor *v = sd_varlink_get_userdata(q->link);

	return q->oneway || (v && !v->cutting_off && fd_lives(sd_varlink_get_fd(q->link)));
}

int call_refuse(struct varlink_call *q, enum error_cause cause, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	failure_setv(&q->failure, cause, format, ap);
	va_end(ap);
	return -EINVAL;
}

void call_append(struct varlink_call *q, const struct field *fields, const void *object)
{
	sd_json_variant **to;

	if (q->error < 0 || !answer_takes(&q->answer, build_bytes(fields, object), LIST_BYTES_MOST))
		return;
	to = array_add(&q->pieces, &q->n_pieces, sizeof(sd_json_variant *));
	q->error = to ? build_fields(to, fields, object) : -ENOMEM;
}

/* ---- the beginning ------------------------------------------------------------------------ */

static void call_run(struct varlink_call *q)
{
	int r = q->run(q);

	if (r >= 0)
		return;
	if (!q->failure.cause && !q->bad)
		(void)call_refuse(q, ERROR_FAILED, "%s.", strerror(-r));
	call_answer(&q->failure, q);
}

void call_again(struct varlink_call *q)
{
	quota_give(q->varlink->bus->quota, q->client->account, QUOTA_NAMES, q->names_bytes);
	q->names_bytes = 0;
	call_run(q);
}

int call_begin(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
	       void *userdata, call_run_t run)
{
	struct visitor *v = userdata;
	struct varlink_call *q;
	struct failure full;
	int r;

	if (v->cutting_off)
		return -ESHUTDOWN;
	r = quota_take(v->varlink->bus->quota, v->client->account, QUOTA_CALLS, 1);
	if (r < 0) {
		failure_set(&full, error_from_errno(r, ERROR_AT_QUOTA),
			    "Too many calls wait for their answers: go on when some have come.");
		return send_failure(link, &full);
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		quota_give(v->varlink->bus->quota, v->client->account, QUOTA_CALLS, 1);
		return -ENOMEM;
	}
	q->varlink = v->varlink;
	q->link = sd_varlink_ref(link);
	q->client = api_client_ref(v->client);
	q->run = run;
	q->oneway = flags & SD_VARLINK_METHOD_ONEWAY;
	q->more = flags & SD_VARLINK_METHOD_MORE;
	q->parameters = sd_json_variant_ref(parameters);
	LIST_INSERT_HEAD(&v->varlink->calls, q, of_varlink);
	call_run(q);
	return 0;
}
