/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Monitor: what happens, told to clients that have asked for it, of jobs that they may see. What is
 * told is bounded by what a client reads: one that falls behind is told nothing more until it has
 * read all there is, and then that it has missed something. */
#include <errno.h>

#include "varlink-state.h"

/* What may be on its way to a client that is told more. */
#define BEHIND_BYTES MiB(1)
/* How often it is checked whether it has caught up. */
#define BACKLOG_USEC (200 * USEC_PER_MSEC)

static int notify(struct visitor *v, sd_json_variant *what, size_t bytes)
{
	int r;

	visitor_sends(v, bytes);
	r = sd_varlink_notify(v->link, what);
	if (r < 0)
		visitor_cut_off(v);
	return r;
}

static int notify_of(struct visitor *v, const char *happening)
{
	sd_json_variant *what = NULL;
	int r = sd_json_buildo(&what, SD_JSON_BUILD_PAIR_STRING("happening", happening));

	if (r >= 0)
		r = notify(v, what, 64);
	(void)sd_json_variant_unref(what);
	return r;
}

static int check_backlog_later(struct visitor *v);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct visitor *v = userdata;

	(void)source;
	(void)usec;
	if (!visitor_has_read(v))
		return check_backlog_later(v);
	v->lags = false;
	(void)notify_of(v, "lost");
	return 0;
}

static int check_backlog_later(struct visitor *v)
{
	v->backlog = sd_event_source_disable_unref(v->backlog);
	if (sd_event_add_time_relative(v->varlink->bus->event, &v->backlog, CLOCK_MONOTONIC,
				       BACKLOG_USEC, BACKLOG_USEC / 2, on_retry, v) < 0)
		visitor_cut_off(v);
	return 0;
}

/* Whether it is to be told something of about so many bytes. */
static bool is_told(struct visitor *v, size_t bytes)
{
	if (!v->monitors || v->cutting_off || v->lags)
		return false;
	if (visitor_has_read(v) || v->unsent_bytes + bytes <= BEHIND_BYTES)
		return true;
	v->lags = true;
	(void)check_backlog_later(v);
	return false;
}

static int build_job_happening(sd_json_variant **ret, const char *happening,
			       const struct job_record *r)
{
	sd_json_variant *job = NULL;
	int e = build_fields(&job, job_fields, r);

	if (e >= 0)
		e = sd_json_buildo(ret, SD_JSON_BUILD_PAIR_STRING("happening", happening),
				   SD_JSON_BUILD_PAIR_VARIANT("job", job));
	(void)sd_json_variant_unref(job);
	return e;
}

void monitor_tell_job(struct varlink *v, const char *happening, const struct job_record *r)
{
	sd_json_variant *what = NULL;
	struct visitor *i;
	size_t bytes = build_bytes(job_fields, r);

	LIST_FOREACH(i, &v->visitors, of_varlink) {
		if (!caller_may_see(&i->client->c, r) || !is_told(i, bytes))
			continue;
		if (!what && build_job_happening(&what, happening, r) < 0) {
			visitor_cut_off(i);
			continue;
		}
		(void)notify(i, what, bytes);
	}
	(void)sd_json_variant_unref(what);
}

void monitor_tell_daemon(struct varlink *v, const char *property)
{
	sd_json_variant *what = NULL;
	struct visitor *i;

	if (LIST_FIRST(&v->visitors) &&
	    sd_json_buildo(&what, SD_JSON_BUILD_PAIR_STRING("happening", "daemon"),
			   SD_JSON_BUILD_PAIR_STRING("property", property)) < 0)
		return;
	LIST_FOREACH(i, &v->visitors, of_varlink)
		if (is_told(i, 128))
			(void)notify(i, what, 128);
	(void)sd_json_variant_unref(what);
}

/* The connection is this call's from here on: it has no end but that of the connection. */
static int on_monitor(sd_varlink *link, sd_json_variant *parameters,
		      sd_varlink_method_flags_t flags, void *userdata)
{
	struct visitor *v = userdata;

	(void)link;
	(void)parameters;
	(void)flags;
	v->monitors = v->client->listens = true;
	(void)notify_of(v, "ready");
	return 0;
}

int monitor_bind(sd_varlink_server *s)
{
	return sd_varlink_server_bind_method(s, VARLINK_INTERFACE ".Monitor", on_monitor);
}
