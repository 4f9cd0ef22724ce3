/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who is allowed in, sd-varlink does not decide: connections come by the same way as those of the
 * private socket (proxy-start.c), are counted together with them, and bring no descriptors. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <syslog.h>
#include <unistd.h>

#include "base/escape.h"
#include "varlink-state.h"

/* What may wait for a client that does not read, before it is cut off: more than any answer, which
 * are sent one after the other. */
#define UNSENT_BYTES_MOST MiB(4)

/* ---- connections -------------------------------------------------------------------------- */

bool visitor_has_read(const struct visitor *v)
{
	int events = sd_varlink_get_events(v->link);

	return events < 0 || !(events & EPOLLOUT);
}

static int on_cut_off(sd_event_source *source, void *userdata)
{
	struct visitor *v = userdata;

	(void)source;
	(void)sd_varlink_close(v->link);
	return 0;
}

void visitor_cut_off(struct visitor *v)
{
	if (!v->cutting_off)
		(void)sd_event_add_defer(v->varlink->bus->event, &v->cutting_off, on_cut_off, v);
}

void visitor_sends(struct visitor *v, size_t bytes)
{
	if (visitor_has_read(v))
		v->unsent_bytes = 0;
	v->unsent_bytes += bytes;
	if (v->unsent_bytes <= UNSENT_BYTES_MOST || v->cutting_off)
		return;
	log_user(LOG_NOTICE, v->client->c.id.uid, SD_ID128_NULL,
		 "A client of user %u does not read what it is sent; it is cut off.",
		 (unsigned)v->client->c.id.uid);
	visitor_cut_off(v);
}

static void on_disconnect(sd_varlink_server *server, sd_varlink *link, void *userdata)
{
	struct visitor *v = sd_varlink_set_userdata(link, NULL);

	(void)server;
	(void)userdata;
	if (!v)
		return;
	LIST_REMOVE(v, of_varlink);
	(void)sd_event_source_disable_unref(v->cutting_off);
	(void)sd_event_source_disable_unref(v->backlog);
	api_client_disconnect(v->client);
	(void)api_client_unref(v->client);
	free(v);
}

/* Takes the descriptor. */
static int on_guest(void *userdata, int fd, struct api_client *a)
{
	struct varlink *varlink = userdata;
	struct visitor *v = calloc(1, sizeof(*v));
	int r = v ? sd_varlink_server_add_connection(varlink->server, fd, &v->link) : -ENOMEM;

	if (r < 0) {
		(void)close(fd);
		free(v);
		return r;
	}
	v->varlink = varlink;
	v->client = api_client_ref(a);
	LIST_INSERT_HEAD(&varlink->visitors, v, of_varlink);
	(void)sd_varlink_set_userdata(v->link, v);
	return 0;
}

static const struct speech speech_varlink = { SPEECH_VARLINK, on_guest };

/* ---- all of it ---------------------------------------------------------------------------- */

static void visitors_close(struct varlink *v)
{
	while (LIST_FIRST(&v->visitors))
		(void)sd_varlink_close(LIST_FIRST(&v->visitors)->link);
}

/* sd-varlink would wait until every client has read what there is, for ever. */
static int on_end(sd_event_source *source, void *userdata)
{
	struct varlink *varlink = userdata;

	(void)source;
	for (struct visitor *v = LIST_FIRST(&varlink->visitors), *next; v; v = next) {
		next = LIST_NEXT(v, of_varlink);
		if (!visitor_has_read(v))
			(void)sd_varlink_process(v->link);
	}
	visitors_close(varlink);
	return 0;
}

static int server_make(struct varlink *v)
{
	int r = sd_varlink_server_new(&v->server, 0);

	if (r >= 0)
		r = sd_varlink_server_set_info(v->server, "The reclaimd project", "reclaimd",
					       RECLAIM_VERSION, NULL);
	/* Ours is the limit (bus-quota.c). */
	if (r >= 0)
		r = sd_varlink_server_set_connections_max(v->server, UINT32_MAX);
	if (r >= 0)
		r = sd_varlink_server_add_interface(v->server, &vl_interface_reclaim);
	if (r >= 0)
		r = call_bind_submit(v->server);
	if (r >= 0)
		r = call_bind_jobs(v->server);
	if (r >= 0)
		r = call_bind_views(v->server);
	if (r >= 0)
		r = monitor_bind(v->server);
	if (r >= 0)
		r = sd_varlink_server_bind_disconnect(v->server, on_disconnect);
	if (r < 0)
		return r;
	(void)sd_varlink_server_set_userdata(v->server, v);
	return sd_varlink_server_attach_event(v->server, v->bus->event, SD_EVENT_PRIORITY_NORMAL);
}

static void on_job_new(const struct job_record *r, void *userdata)
{
	monitor_tell_job(userdata, "new", r);
}

static void on_job_changed(const struct job_record *r, void *userdata)
{
	monitor_tell_job(userdata, "changed", r);
}

static void on_job_finished(const struct job_record *r, void *userdata)
{
	monitor_tell_job(userdata, "finished", r);
}

static void on_daemon_changed(const char *property, void *userdata)
{
	monitor_tell_daemon(userdata, property);
}

int varlink_new(struct varlink **ret, struct bus *b, const char *path)
{
	struct varlink *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return -ENOMEM;
	v->bus = b;
	r = server_make(v);
	if (r >= 0)
		r = sd_event_add_exit(b->event, &v->end, on_end, v);
	if (r >= 0)
		r = sd_event_source_set_priority(v->end, SD_EVENT_PRIORITY_IMPORTANT);
	if (r >= 0)
		r = bus_socket_new(&v->socket, b, path, &speech_varlink, v);
	if (r < 0) {
		(void)varlink_free(v);
		return r;
	}
	v->listener = (struct listener){ .job_new = on_job_new,
					 .job_changed = on_job_changed,
					 .job_finished = on_job_finished,
					 .daemon_changed = on_daemon_changed,
					 .userdata = v };
	operation_listen(b->operations, &v->listener);
	*ret = v;
	return 0;
}

struct varlink *varlink_free(struct varlink *v)
{
	struct varlink_call *q;

	if (!v)
		return NULL;
	operation_ignore(v->bus->operations, &v->listener);
	v->socket = bus_socket_free(v->socket);
	visitors_close(v);
	while ((q = LIST_FIRST(&v->calls)))
		call_stop(q);
	(void)sd_event_source_disable_unref(v->end);
	(void)sd_varlink_server_unref(v->server);
	free(v);
	return NULL;
}
