/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "companion.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "answers.h"
#include "base/array.h"
#include "base/escape.h"
#include "claims.h"
#include "companion-state.h"
#include "reports.h"
#include "session.h"

#define LEASE_MSEC 30000
#define LEASE_MSEC_LEAST 100
#define LEASE_MSEC_MOST 600000

/* The database may be gone; reclaimd waits for nothing, but the end of its service does. */
#define LEAVE_USEC (10 * USEC_PER_SEC)

static const struct database_events database_events = {
	.on_connected = answers_begin,
	.on_lost = session_lost,
	.on_result = answers_take,
	.on_notice = answers_notice,
};

/* ---- what reclaimd says --------------------------------------------------------------------- */

static int copy(char **ret, const char *text, size_t most)
{
	size_t len = strlen(text);

	if (len == 0 || len > most)
		return -EBADMSG;
	/* A text of the database's. */
	*ret = escape_line(text);
	return *ret ? 0 : -ENOMEM;
}

static int share_add(struct companion *c, const struct join_filesystem *m)
{
	struct share *s;
	int r;

	if (c->n_shares >= FLEET_FILESYSTEMS || !fleet_name_is_valid(m->name) ||
	    share_find(c, m->name))
		return -EBADMSG;
	s = array_add(&c->shares, &c->n_shares, sizeof(*s));
	if (!s)
		return -ENOMEM;
	fleet_name_copy(s->name, m->name);
	r = copy(&s->identity, m->identity, 255);
	return r < 0 ? r : copy(&s->path, m->path, FLEET_PATH_SIZE - 1);
}

static int on_join_message(struct companion *c, const struct join_message *m)
{
	_cleanup_free_ char *wrong = NULL;
	struct join_filesystem fs;
	int r;

	if (c->string || m->version != FLEET_VERSION || !fleet_name_is_valid(m->host) ||
	    (m->lease_msec > 0 &&
	     (m->lease_msec < LEASE_MSEC_LEAST || m->lease_msec > LEASE_MSEC_MOST)))
		return -EBADMSG;
	c->lease_msec = m->lease_msec > 0 ? m->lease_msec : LEASE_MSEC;
	fleet_name_copy(c->host, m->host);
	c->string = strdup(m->database);
	if (!c->string)
		return -ENOMEM;
	r = copy(&c->boot, m->boot, 64);
	if (r >= 0)
		r = copy(&c->uid_space, m->uid_space, 255);
	while (r >= 0 && (r = fleet_get_item(&c->in, &fs)) > 0)
		r = share_add(c, &fs);
	if (r < 0)
		return r;
	wrong = database_string_check(c->string);
	/* It will not be another one by itself. */
	if (wrong)
		report_refused(c, "the connection string of the database: %s", wrong);
	else
		database_connect(c->database, c->string, c->host);
	return 0;
}

static int on_capacity(struct companion *c, const struct capacity_message *m)
{
	struct share *s = share_find(c, m->filesystem);

	if (!s)
		return -EBADMSG;
	s->capacity = MIN(m->units, (uint64_t)CLAIMS_MOST);
	s->busy = m->works;
	s->rate = MIN(m->rate, (uint64_t)INT64_MAX);
	return 0;
}

/* Without the database it is not published, and reclaimd was told, or is about to be. */
static int on_publish(struct companion *c, const struct publish_message *m)
{
	struct items none = { 0 };
	int r;

	if (c->joined)
		return items_add_publish(&c->items, m, &c->in);
	r = items_add_publish(&none, m, &c->in);
	items_done(&none);
	if (r >= 0)
		report(c, FLEET_PUBLISHED,
		       &(struct published_message){ .serial = m->serial, .published = false });
	return r;
}

static int on_finish(struct companion *c, const struct finish_message *m)
{
	struct claim *claim = claim_find(c, m->token);
	struct items none = { 0 };
	bool lost = !claim || claim->lost;
	int r = items_add_finish(lost ? &none : &c->items, m, &c->in);

	items_done(&none);
	if (r >= 0 && claim)
		claim_remove(c, claim);
	return r;
}

static int on_progress(struct companion *c, const struct unit_progress *m)
{
	struct claim *claim = claim_find(c, m->token);

	/* It may be finished, or lost, meanwhile. */
	if (claim) {
		claim->entries = MIN(m->entries, (uint64_t)ITEMS_NUMBER_MOST);
		claim->bytes = MIN(m->bytes, (uint64_t)ITEMS_NUMBER_MOST);
	}
	return 0;
}

static int on_message(struct companion *c)
{
	union fleet_record m;
	int r = fleet_get(&c->in, &m);

	if (r < 0)
		return r;
	if (!c->string && c->in.type != FLEET_JOIN)
		return -EBADMSG;
	switch ((enum fleet_request)c->in.type) {
	case FLEET_JOIN:
		return on_join_message(c, &m.join_message);
	case FLEET_CAPACITY:
		return on_capacity(c, &m.capacity_message);
	case FLEET_PUBLISH:
		return on_publish(c, &m.publish_message);
	case FLEET_FINISH:
		return on_finish(c, &m.finish_message);
	case FLEET_PROGRESS:
		return on_progress(c, &m.unit_progress);
	case FLEET_RECALL:
		return items_add_recall(&c->items, m.recall_message.job);
	case FLEET_FORGET:
		return items_add_forget(&c->items, m.job_ended.job);
	case FLEET_REQUEST_NONE:
		break;
	}
	return -EBADMSG;
}

static int on_leave_timeout(sd_event_source *s, uint64_t usec, void *userdata)
{
	(void)usec;
	(void)userdata;
	return sd_event_exit(sd_event_source_get_event(s), 0);
}

/* What is done already is still told, and what is claimed given back. */
static void leave(struct companion *c)
{
	c->leaving = true;
	c->requests = sd_event_source_disable_unref(c->requests);
	if (!c->joined) {
		(void)sd_event_exit(c->event, 0);
		return;
	}
	(void)sd_event_add_time_relative(c->event, NULL, CLOCK_MONOTONIC, LEAVE_USEC, 0,
					 on_leave_timeout, NULL);
	session_go_on(c);
}

static int on_requests(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct companion *c = userdata;
	int r = wire_receive(fd, &c->in, MSG_DONTWAIT, /* allow_long= */ false);

	(void)s;
	(void)revents;
	if (r == -EAGAIN)
		return 0;
	if (r == 0 || r == -ECONNRESET) {
		leave(c);
		return 0;
	}
	if (r > 0)
		r = on_message(c);
	if (r < 0) {
		c->error = r;
		return sd_event_exit(c->event, r);
	}
	if (c->items.n >= ITEMS_ENOUGH && c->joined)
		(void)sd_event_source_set_enabled(c->requests, SD_EVENT_OFF);
	session_go_on(c);
	return 0;
}

static int on_signal(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata)
{
	(void)s;
	(void)si;
	leave(userdata);
	return 0;
}

static int companion_begin(struct companion *c)
{
	static const int signals[] = { SIGTERM, SIGINT };
	sigset_t set;
	int r = sd_event_new(&c->event);

	if (r >= 0)
		r = database_new(&c->database, c->event, &database_events, c);
	if (r >= 0)
		r = sd_event_add_time(c->event, &c->wakeup, CLOCK_MONOTONIC, UINT64_MAX,
				      /* accuracy= */ 1, session_wakeup, c);
	if (r >= 0)
		r = sd_event_add_io(c->event, &c->requests, c->sock, EPOLLIN, on_requests, c);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < ELEMENTSOF(signals); i++)
		(void)sigaddset(&set, signals[i]);
	if (r >= 0 && sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		r = -errno;
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(signals); i++)
		r = sd_event_add_signal(c->event, NULL, signals[i], on_signal, c);
	return r;
}

static void companion_done(struct companion *c)
{
	database_free(c->database);
	sd_event_source_disable_unref(c->requests);
	sd_event_source_disable_unref(c->wakeup);
	sd_event_unref(c->event);
	wire_in_done(&c->in);
	wire_out_done(&c->out);
	items_done(&c->items);
	demand_done(&c->demand);
	demand_done(&c->working);
	for (size_t i = 0; i < c->n_shares; i++) {
		free(c->shares[i].identity);
		free(c->shares[i].path);
	}
	free(c->shares);
	free(c->claims);
	free(c->string);
	free(c->boot);
	free(c->uid_space);
	free(c->refused);
}

int companion_run(int sock)
{
	struct companion c = { .sock = sock };
	/* Its other end may be the only one that must not wait. */
	int flags = fcntl(sock, F_GETFL),
	    r = fcntl(sock, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : companion_begin(&c);

	if (r >= 0)
		r = sd_event_loop(c.event);
	if (c.error < 0)
		r = c.error;
	companion_done(&c);
	return r;
}
