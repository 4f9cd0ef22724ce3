/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "util/escape.h"

#define FIELDS_MAX 12
#define FIELD_BYTES 1200

struct fields {
	struct iovec v[FIELDS_MAX];
	char text[FIELDS_MAX][FIELD_BYTES];
	int n;
};

static void field_add(struct fields *f, const char *format, ...) _printf_(2, 3);

static void field_add(struct fields *f, const char *format, ...)
{
	char *text = f->text[f->n];
	va_list ap;
	int len;

	va_start(ap, format);
	len = vsnprintf(text, FIELD_BYTES, format, ap);
	va_end(ap);
	if (len < 0)
		return;
	f->v[f->n].iov_base = text;
	f->v[f->n].iov_len = MIN((size_t)len, (size_t)FIELD_BYTES - 1);
	f->n++;
}

/* systemd.exec(5): standard error is the journal's if it is the file that this variable names. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static void fields_send(struct fields *f, int level, const char *text)
{
	if (!stderr_is_journal()) {
		fprintf(stderr, "reclaimd: %s\n", text);
		return;
	}
	field_add(f, "PRIORITY=%i", level);
	field_add(f, "MESSAGE=%s", text);
	field_add(f, "SYSLOG_IDENTIFIER=reclaimd");
	(void)sd_journal_sendv(f->v, f->n);
}

static void field_add_message(struct fields *f, sd_id128_t message)
{
	char text[SD_ID128_STRING_MAX];

	field_add(f, "MESSAGE_ID=%s", sd_id128_to_string(message, text));
}

void log_line(int level, const char *format, ...)
{
	struct fields f = { 0 };
	char text[FIELD_BYTES - 16];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fields_send(&f, level, text);
}

void log_event(int level, sd_id128_t message, const char *format, ...)
{
	struct fields f = { 0 };
	char text[FIELD_BYTES - 16];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	field_add_message(&f, message);
	fields_send(&f, level, text);
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
	field_add(f, "FREED_BYTES=%" PRIu64, r->bytes_freed);
	field_add(f, "SUBMITTER_UID=%u", (unsigned)r->uid);
}

void log_job(int level, sd_id128_t message, const struct job_record *r, const char *format, ...)
{
	struct fields f = { 0 };
	char text[FIELD_BYTES - 16];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	field_add_message(&f, message);
	field_add_job(&f, r);
	fields_send(&f, level, text);
}
