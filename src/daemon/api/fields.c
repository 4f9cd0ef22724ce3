/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>

#include "base/macros.h"
#include "base/staging-dir.h"
#include "daemon/fleet/fleet.h"
#include "daemon/spools/spool.h"
#include "daemon/workers/pacers.h"
#include "operations.h"

/* What a text that is made takes, about. */
#define MADE_BYTES 64

#define FIELD(object, name, type, kind, member)                                                    \
	{                                                                                          \
		name, type, FIELD_##kind, offsetof(struct object, member)                          \
	}
#define JOB(name, type, kind, member, ...) FIELD(job_record, name, type, kind, member),
#define DEVICE(name, type, kind, member, ...) FIELD(device_view, name, type, kind, member),
#define SPOOL(name, type, kind, member, ...) FIELD(spool_view, name, type, kind, member),
#define POLICY(name, type, kind, member, ...) FIELD(policy_view, name, type, kind, member),
#define DAEMON(name, type, kind, member, ...) FIELD(daemon_view, name, type, kind, member),

const struct field job_fields[] = { JOB_FIELDS(JOB){ 0 } };
const struct field device_fields[] = { DEVICE_FIELDS(DEVICE){ 0 } };
const struct field spool_fields[] = { SPOOL_FIELDS(SPOOL){ 0 } };
const struct field policy_fields[] = { POLICY_FIELDS(POLICY){ 0 } };
const struct field status_fields[] = { STATUS_FIELDS(DAEMON){ 0 } };
const struct field metrics_fields[] = { METRICS_FIELDS(DAEMON){ 0 } };

const struct field job_line_fields[] = {
	FIELD(job_record, "Id", "t", NUMBER, id),
	FIELD(job_record, "State", "s", STATE, state),
	FIELD(job_record, "Uid", "u", UID, uid),
	FIELD(job_record, "Origin", "s", TEXT, origin),
	FIELD(job_record, "Priority", "s", PRIORITY, priority),
	FIELD(job_record, "Path", "ay", PATH, path),
	FIELD(job_record, "Entries", "t", NUMBER, entries),
	FIELD(job_record, "ProgressEntries", "t", NUMBER, entries_done),
	FIELD(job_record, "Bytes", "t", NUMBER, bytes),
	FIELD(job_record, "ProgressBytes", "t", NUMBER, bytes_freed),
	FIELD(job_record, "Errors", "t", NUMBER, errors),
	FIELD(job_record, "CreatedUSec", "t", USEC, created_usec),
	FIELD(job_record, "HeldUntilUSec", "t", USEC, held_until_usec),
	FIELD(job_record, "FinishedUSec", "t", USEC, finished_usec),
	FIELD(job_record, "StartedUSec", "t", USEC, started_usec),
	FIELD(job_record, "Kind", "s", KIND, kind),
	FIELD(job_record, "Rate", "t", NUMBER, rate_bytes),
	FIELD(job_record, "ExpectedEndUSec", "t", USEC, expected_end_usec),
	FIELD(job_record, "DeadlineUSec", "t", USEC, by_usec),
	FIELD(job_record, "Message", "s", TEXT, message),
	FIELD(job_record, "Names", "t", NUMBER, names),
	{ 0 },
};

const struct field problem_fields[] = {
	FIELD(problem_record, "Path", "ay", PATH, path),
	FIELD(problem_record, "What", "s", TEXT, what),
	FIELD(problem_record, "Errno", "i", ERRNO, error),
	FIELD(problem_record, "IsError", "b", BOOL, is_error),
	{ 0 },
};

const struct field entry_fields[] = {
	FIELD(entry_view, "Path", "ay", PATH, path),
	FIELD(entry_view, "State", "s", ENTRY_STATE, state),
	{ 0 },
};

const struct field kept_fields[] = {
	FIELD(entry_view, "Number", "t", NUMBER, number),
	FIELD(entry_view, "Path", "ay", PATH, path),
	FIELD(entry_view, "Inode", "t", NUMBER, ino),
	FIELD(entry_view, "Birth", "t", NUMBER, btime_nsec),
	FIELD(entry_view, "Type", "t", NUMBER, type),
	{ 0 },
};

const struct field totals_fields[] = {
	FIELD(device_totals, "Name", "s", CHARS, key),
	FIELD(device_totals, "Entries", "t", NUMBER, totals.entries),
	FIELD(device_totals, "Bytes", "t", NUMBER, totals.bytes),
	FIELD(device_totals, "Backoffs", "a{st}", BACKOFFS, totals.backoffs),
	FIELD(device_totals, "Reads", "(tat)", HISTOGRAM, totals.reads),
	FIELD(device_totals, "Syncs", "(tat)", HISTOGRAM, totals.syncs),
	FIELD(device_totals, "Quanta", "(tat)", HISTOGRAM, totals.quanta),
	FIELD(device_totals, "WrittenBack", "t", NUMBER, totals.written_back),
	FIELD(device_totals, "GapReads", "(tat)", HISTOGRAM, totals.gap_reads),
	{ 0 },
};

const struct field latency_fields[] = {
	FIELD(device_latency, "Name", "s", TEXT, key),
	FIELD(device_latency, "Of", "s", TEXT, of),
	FIELD(device_latency, "Deleting", "b", BOOL, deleting),
	FIELD(device_latency, "BeginUSec", "t", USEC, begin_usec),
	FIELD(device_latency, "Count", "t", NUMBER, count),
	FIELD(device_latency, "HalfUSec", "t", USEC, half_usec),
	FIELD(device_latency, "MostUSec", "t", USEC, most_usec),
	{ 0 },
};

const struct field *field_find(const struct field *fields, const char *name)
{
	while (fields->name && strcmp(fields->name, name) != 0)
		fields++;
	return fields->name ? fields : NULL;
}

/* Malloc'ed. */
static char *staging_path(const struct job_record *r)
{
	_cleanup_free_ char *dir = NULL;
	char *path;

	if (!r->staging || r->staging[0] == '\0')
		return strdup("");
	dir = staging_dir_path(r->mount, r->host ? r->host : "");
	return !dir || asprintf(&path, "%s/%u/%s", dir, (unsigned)r->uid, r->staging) < 0 ? NULL
											  : path;
}

const char *field_text(const struct field *f, const void *object, char **ret_made)
{
	const void *at = (const char *)object + f->offset;
	const char *text;
	sd_id128_t id;

	assert(object && field_is_text(f));
	if (f->kind == FIELD_CHARS)
		return at;
	if (f->kind == FIELD_STATE)
		return job_state_name(*(const enum job_state *)at);
	if (f->kind == FIELD_KIND)
		return job_kind_name(*(const enum job_kind *)at);
	if (f->kind == FIELD_PRIORITY)
		return job_priority_name(*(const enum job_priority *)at);
	if (f->kind == FIELD_ENTRY_STATE)
		return entry_state_name(*(const enum entry_state *)at);
	if (f->kind == FIELD_STAGING)
		return *ret_made = staging_path(object);
	if (f->kind == FIELD_UUID) {
		memcpy(id.bytes, at, sizeof(id.bytes));
		*ret_made = malloc(SD_ID128_STRING_MAX);
		return *ret_made ? sd_id128_to_string(id, *ret_made) : NULL;
	}
	text = *(const char *const *)at;
	return text ? text : "";
}

uint64_t field_number(const struct field *f, const void *object)
{
	const void *at = (const char *)object + f->offset;

	assert(field_is_number(f));
	return f->kind == FIELD_UID ? *(const uid_t *)at : *(const uint64_t *)at;
}

static const char *state_name(unsigned i)
{
	return job_state_name((enum job_state)i);
}

static const char *errno_name(unsigned i)
{
	return i > 0 ? strerrorname_np((int)i) : "other";
}

static const char *backoff_name(unsigned i)
{
	return pacing_backoff_name((enum pacing_backoff)i);
}

bool field_count(const struct field *f, const void *object, unsigned *i, const char **ret_name,
		 uint64_t *ret)
{
	static const struct {
		unsigned from, to;
		const char *(*name)(unsigned i);
	} counts[] = {
		[FIELD_UNFINISHED] = { 0, JOB_DONE, state_name },
		[FIELD_FINISHED] = { JOB_DONE, JOB_STATES, state_name },
		[FIELD_ERRORS] = { 0, ERROR_KINDS, errno_name },
		[FIELD_BACKOFFS] = { 0, PACING_BACKOFFS, backoff_name },
	};
	const uint64_t *v = (const void *)((const char *)object + f->offset);

	assert(f->kind >= FIELD_UNFINISHED && f->kind <= FIELD_BACKOFFS);
	for (*i = MAX(*i, counts[f->kind].from); *i < counts[f->kind].to;) {
		*ret = v[*i];
		*ret_name = counts[f->kind].name((*i)++);
		if (*ret_name && (*ret > 0 || f->kind != FIELD_ERRORS))
			return true;
	}
	return false;
}

size_t fields_bytes(const struct field *fields, const void *object)
{
	size_t bytes = 0;

	for (; fields->name; fields++) {
		if (!field_is_text(fields))
			bytes += sizeof(uint64_t);
		else if (fields->kind == FIELD_UUID || fields->kind == FIELD_STAGING)
			bytes += MADE_BYTES;
		else
			bytes += strlen(field_text(fields, object, NULL)) + 1;
	}
	return bytes;
}
