/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The job store as a thing that may be full, read-only or broken: what is done then, and that it is
 * tried again. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <time.h>

#include "base/macros.h"
#include "context.h"
#include "log.h"

#define RETRY_USEC (1 * USEC_PER_SEC)

static int probe_work(struct store *s, void *userdata)
{
	(void)userdata;
	return store_meta_set(s, "probe", "");
}

static void probe_done(int r, void *userdata)
{
	store_says(userdata, r);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct context *c = userdata;

	(void)source;
	(void)usec;
	c->health.retry(c->health.userdata);
	if (c->health.error)
		(void)store_queue_accept(c->store, probe_work, probe_done, c);
	return 0;
}

static void retry_later(struct context *c)
{
	struct store_health *h = &c->health;

	if (h->timer) {
		(void)sd_event_source_set_time_relative(h->timer, RETRY_USEC);
		(void)sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
	} else if (sd_event_add_time_relative(c->event, &h->timer, CLOCK_MONOTONIC, RETRY_USEC, 0,
					      on_retry, c) >= 0) {
		(void)sd_event_source_set_description(h->timer, "store-retry");
	}
}

void store_says(struct context *c, int r)
{
	struct store_health *h = &c->health;

	if (r == -ENOENT || r == -ESTALE || c->ended)
		return; /* about what it was asked, not about itself */
	if (r < 0) {
		retry_later(c);
		if (h->error)
			return;
		if (asprintf(&h->error,
			     "the job store in %s cannot be written (%s): nothing new is accepted; "
			     "what runs goes on",
			     c->o.state_dir, strerror(-r)) < 0)
			h->error = NULL;
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
			  "The job store in %s cannot be written (%s)", c->o.state_dir,
			  strerror(-r));
	} else if (h->error) {
		free(h->error);
		h->error = NULL;
		log_event(LOG_NOTICE, MESSAGE_STORE_TROUBLE, "The job store can be written again");
		retry_later(c); /* once more, for jobs that were not saved */
		h->recovered(h->userdata);
	} else {
		return;
	}
	tell_daemon_changed(c, "StoreError");
}

int store_name_holder(struct context *c, struct store *s)
{
	_cleanup_free_ char *known = NULL;
	char made[SD_ID128_STRING_MAX];
	sd_id128_t id;
	int r = store_meta_get(s, "id", &known);

	if (r >= 0 && known && strlen(known) == SD_ID128_STRING_MAX - 1)
		return holder_format(c->holder, known);
	r = sd_id128_randomize(&id);
	if (r < 0)
		return r;
	/* If it cannot be kept, the next life of this daemon sees by the process that this one has
	 * ended. */
	(void)store_meta_set(s, "id", sd_id128_to_string(id, made));
	return holder_format(c->holder, made);
}

/* Returns 0 after a while, or -ECANCELED if it is to end instead. */
static int wait_for_room(void)
{
	const struct timespec pause = { .tv_sec = RETRY_USEC / USEC_PER_SEC };
	sigset_t ends;
	int sig;

	(void)sd_notifyf(
		/* unset_environment= */ 0,
		"STATUS=Waits for room in the state directory\nEXTEND_TIMEOUT_USEC=%" PRIu64,
		(uint64_t)(60 * USEC_PER_SEC));
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGINT);
	sig = sigtimedwait(&ends, NULL, &pause);
	return sig > 0 ? -ECANCELED : 0;
}

int store_open_patiently(struct context *c, struct store **ret)
{
	const char *why = NULL;
	bool said = false;
	int r, waited = 0;

	do {
		_cleanup_free_ char *set_aside = NULL;

		r = store_open(ret, c->o.state_dir, &set_aside, &why);
		if (set_aside)
			log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
				  "The job store was set aside: %s. Nothing was deleted; what lies "
				  "in staging without a job is told of below",
				  set_aside);
		if (r == -ENOSPC && !said)
			log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
				  "%s in %s: reclaimd waits until there is some", why,
				  c->o.state_dir);
		said = true;
	} while (r == -ENOSPC && (waited = wait_for_room()) == 0);
	if (waited < 0)
		return waited;
	if (r < 0)
		log_event(LOG_ERR, MESSAGE_STORE_TROUBLE,
			  "The state directory %s cannot be used: %s", c->o.state_dir,
			  why ? why : strerror(-r));
	else if (store_unreserved(*ret) < 0)
		log_event(LOG_WARNING, MESSAGE_STORE_TROUBLE,
			  "No room is kept in %s for the ends of jobs: its reserve cannot be made: "
			  "%s. While the directory is full, none is recorded",
			  c->o.state_dir, strerror(-store_unreserved(*ret)));
	return r;
}
