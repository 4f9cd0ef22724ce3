/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "base/debug.h"
#include "base/escape.h"
#include "base/fd.h"

#define FIELDS_MAX 14

/* So much is told in a minute about one user: of what goes well, and once more of what does not;
 * and about all users. The journal itself takes 20,000 lines a minute from a service
 * (RateLimitBurst= in journald.conf(5)), and then drops what the daemon says of itself, too. */
#define USER_LINES_MOST 300
#define ALL_LINES_MOST 5000
/* So many users are told apart in a minute; further ones share what is told about one. */
#define USERS_MOST 128
#define MINUTE_USEC (60 * USEC_PER_SEC)

struct user_lines {
	uid_t uid; /* UID_NONE: further users */
	unsigned good, bad, left_out;
};

/* A process has one log. */
static struct {
	sd_event_source *timer;
	uint64_t since_usec;
	unsigned lines;
	struct user_lines users[USERS_MOST + 1];
	size_t n;
} minute;

struct fields {
	struct iovec v[FIELDS_MAX];
	struct safe_text text[FIELDS_MAX];
	int n;
};

static void field_add(struct fields *f, const char *format, ...) _printf_(2, 3);

static void field_add(struct fields *f, const char *format, ...)
{
	struct safe_text *t = &f->text[f->n];
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(t, format, ap);
	va_end(ap);
	f->v[f->n].iov_base = t->line;
	f->v[f->n].iov_len = strlen(t->line);
	f->n++;
}

static void field_add_job(struct fields *f, const struct job_record *r)
{
	_cleanup_free_ char *path = escape_name(r->path);
	char uuid[SD_ID128_STRING_MAX];
	sd_id128_t id;

	memcpy(id.bytes, r->uuid, sizeof(id.bytes));
	field_add(f, "JOB=%" PRIu64, r->id);
	field_add(f, "JOB_UUID=%s", sd_id128_to_string(id, uuid));
	if (path)
		field_add(f, "PATH=%s", path);
	if (r->origin)
		field_add(f, "ORIGIN=%s", r->origin);
	field_add(f, "DEVICE=%s", r->mount);
	field_add(f, "KIND=%s", job_kind_name(r->kind));
	field_add(f, "FREED_BYTES=%" PRIu64, r->bytes_freed);
	field_add(f, "SUBMITTER_UID=%u", (unsigned)r->uid);
}

/* ---- what a user does --------------------------------------------------------------------- */

static void minute_end(void)
{
	size_t n = minute.n;

	minute.n = 0;
	minute.lines = 0;
	for (size_t i = 0; i < n; i++) {
		const struct user_lines *u = &minute.users[i];

		if (u->left_out > 0 && u->uid == UID_NONE)
			log_line(LOG_WARNING,
				 "%u more messages about other users suppressed in the last minute",
				 u->left_out);
		else if (u->left_out > 0)
			log_line(LOG_WARNING,
				 "%u more messages about user %u suppressed in the last minute; "
				 "reclaimctl list --all has all jobs",
				 u->left_out, (unsigned)u->uid);
	}
}

static int on_minute(sd_event_source *s, uint64_t usec, void *userdata)
{
	(void)s;
	(void)usec;
	(void)userdata;
	minute_end();
	return 0;
}

static struct user_lines *lines_of(uid_t uid)
{
	for (size_t i = 0; i < minute.n; i++)
		if (minute.users[i].uid == uid || i == USERS_MOST)
			return &minute.users[i];
	minute.users[minute.n] =
		(struct user_lines){ .uid = minute.n < USERS_MOST ? uid : UID_NONE };
	return &minute.users[minute.n++];
}

/* Whether one more line about a user may be told; notes it either way. */
static bool minute_takes(uid_t uid, int level)
{
	uint64_t now = now_usec();
	struct user_lines *u;
	unsigned *lines;

	if (uid == UID_NONE)
		return true;
	if (now - minute.since_usec >= MINUTE_USEC) {
		minute_end();
		minute.since_usec = now;
	}
	u = lines_of(uid);
	lines = level <= LOG_WARNING ? &u->bad : &u->good;
	if (*lines < USER_LINES_MOST && minute.lines < ALL_LINES_MOST) {
		++*lines;
		minute.lines++;
		return true;
	}
	if (u->left_out++ == 0 && minute.timer &&
	    sd_event_source_set_time(minute.timer, minute.since_usec + MINUTE_USEC) >= 0)
		(void)sd_event_source_set_enabled(minute.timer, SD_EVENT_ONESHOT);
	return false;
}

int log_begin(sd_event *e)
{
	int r = sd_event_add_time(e, &minute.timer, CLOCK_MONOTONIC, UINT64_MAX, 0, on_minute,
				  NULL);

	if (r < 0)
		return r;
	(void)sd_event_source_set_description(minute.timer, "log");
	return sd_event_source_set_enabled(minute.timer, SD_EVENT_OFF);
}

void log_end(void)
{
	minute.timer = sd_event_source_disable_unref(minute.timer);
	minute_end();
	minute.since_usec = 0;
}

void log_message(int level, uid_t uid, sd_id128_t message, const struct job_record *r,
		 const char *format, ...)
{
	struct fields f = { .n = 0 };
	char id[SD_ID128_STRING_MAX];
	struct safe_text t;
	va_list ap;

	if (!minute_takes(uid, level))
		return;
	va_start(ap, format);
	safe_text_formatv(&t, format, ap);
	va_end(ap);
	if (!stderr_is_journal()) {
		safe_text_print("reclaimd", &t);
		return;
	}
	if (!sd_id128_is_null(message))
		field_add(&f, "MESSAGE_ID=%s", sd_id128_to_string(message, id));
	if (r)
		field_add_job(&f, r);
	field_add(&f, "PRIORITY=%i", level);
	field_add(&f, "MESSAGE=%s", t.line);
	field_add(&f, "SYSLOG_IDENTIFIER=reclaimd");
	(void)sd_journal_sendv(f.v, f.n);
}
