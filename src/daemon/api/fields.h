/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the objects of the API consist of, once for D-Bus and Varlink: a table of fields for each
 * kind of object, which ends with an empty one. A field is named as the property on D-Bus is;
 * Varlink's name begins with a small letter. That of a time ends in USec. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pacing/control/totals.h"
#include "store/store.h"

enum field_kind {
	/* Of these there is a text. */
	FIELD_TEXT,        /* const char *; NULL is "" */
	FIELD_CHARS,       /* char[] */
	FIELD_BYTES,       /* as FIELD_TEXT, as bytes with their NUL on D-Bus */
	FIELD_PATH,        /* as FIELD_BYTES; on Varlink with pathBase64 where it needs that */
	FIELD_STATE,       /* enum job_state */
	FIELD_KIND,        /* enum job_kind */
	FIELD_PRIORITY,    /* enum job_priority */
	FIELD_ENTRY_STATE, /* enum entry_state */
	FIELD_UUID,        /* 16 bytes */
	FIELD_STAGING,     /* of a job record: where its directory is; "" if it has none */
	/* Of these a number. */
	FIELD_NUMBER, /* uint64_t */
	FIELD_USEC,   /* the same, a time */
	FIELD_UID,    /* uid_t */
	/* Of these numbers by name. */
	FIELD_UNFINISHED, /* uint64_t[JOB_STATES] */
	FIELD_FINISHED,   /* the same */
	FIELD_ERRORS,     /* uint64_t[ERROR_KINDS], without those that are 0 */
	FIELD_BACKOFFS,   /* uint64_t[PACING_BACKOFFS] */
	/* The rest. */
	FIELD_BOOL,
	FIELD_ERRNO, /* int, negative */
	FIELD_RATE,  /* double */
	FIELD_HISTOGRAM,
	FIELD_BOUNDS,  /* of all histograms */
	FIELD_STRINGS, /* const char *const *, NULL-terminated; NULL: none */
};

struct field {
	const char *name; /* NULL: there are no more */
	const char *type; /* on D-Bus */
	enum field_kind kind;
	size_t offset;
};

/* Whether a property on D-Bus tells that it has changed: no; it never changes; with its value; only
 * that it has. */
#define FIELD_VARIES 0
#define FIELD_CONST SD_BUS_VTABLE_PROPERTY_CONST
#define FIELD_TOLD SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define FIELD_CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION

/* Of struct job_record. */
#define JOB_FIELDS(F)                                                                              \
	F("Id", "t", NUMBER, id, CONST)                                                            \
	F("Uuid", "s", UUID, uuid, CONST)                                                          \
	F("Kind", "s", KIND, kind, CONST)                                                          \
	F("State", "s", STATE, state, TOLD)                                                        \
	F("Uid", "u", UID, uid, CONST)                                                             \
	F("Origin", "s", TEXT, origin, CONST)                                                      \
	F("Priority", "s", PRIORITY, priority, CHANGES)                                            \
	F("Path", "ay", PATH, path, CONST)                                                         \
	F("Staging", "ay", STAGING, staging, CHANGES)                                              \
	F("Inplace", "s", TEXT, inplace, CHANGES)                                                  \
	F("Mount", "ay", BYTES, mount, CONST)                                                      \
	F("Names", "t", NUMBER, names, CHANGES)                                                    \
	F("Entries", "t", NUMBER, entries, CHANGES)                                                \
	F("ProgressEntries", "t", NUMBER, entries_done, CHANGES)                                   \
	F("Bytes", "t", NUMBER, bytes, CHANGES)                                                    \
	F("ProgressBytes", "t", NUMBER, bytes_freed, CHANGES)                                      \
	F("Rate", "t", NUMBER, rate_bytes, CHANGES)                                                \
	F("EntriesRate", "t", NUMBER, rate_entries, CHANGES)                                       \
	F("ExpectedEndUSec", "t", USEC, expected_end_usec, CHANGES)                                \
	F("Errors", "t", NUMBER, errors, CHANGES)                                                  \
	F("Skipped", "t", NUMBER, skipped, CHANGES)                                                \
	F("CreatedUSec", "t", USEC, created_usec, CONST)                                           \
	F("HeldUntilUSec", "t", USEC, held_until_usec, CHANGES)                                    \
	F("DeadlineUSec", "t", USEC, by_usec, CHANGES)                                             \
	F("StartedUSec", "t", USEC, started_usec, CHANGES)                                         \
	F("FinishedUSec", "t", USEC, finished_usec, CHANGES)                                       \
	F("Message", "s", TEXT, message, CHANGES)                                                  \
	F("Strategy", "s", TEXT, strategy, CHANGES)                                                \
	F("Settling", "b", BOOL, settling, CHANGES)                                                \
	F("Owed", "t", NUMBER, owed_bytes, CHANGES)                                                \
	F("UnitsOpen", "t", NUMBER, units_open, CHANGES)                                           \
	F("OthersClaimed", "t", NUMBER, others_claimed, CHANGES)                                   \
	F("OthersUnits", "t", NUMBER, others_units, CHANGES)                                       \
	F("OthersEntries", "t", NUMBER, others_entries, CHANGES)                                   \
	F("OthersBytes", "t", NUMBER, others_bytes, CHANGES)

/* Of struct device_view. */
#define DEVICE_FIELDS(F)                                                                           \
	F("Name", "s", TEXT, name, VARIES)                                                         \
	F("Mode", "s", TEXT, mode, VARIES)                                                         \
	F("Observed", "b", BOOL, observed, VARIES)                                                 \
	F("LatencyTargetUSec", "t", USEC, target_usec, VARIES)                                     \
	F("SyncLatencyUSec", "t", USEC, sync_usec, VARIES)                                         \
	F("QuantumCostUSec", "t", USEC, quantum_usec, VARIES)                                      \
	F("EntriesPerSecond", "d", RATE, entries_rate, VARIES)                                     \
	F("BytesPerSecond", "d", RATE, bytes_rate, VARIES)                                         \
	F("Owed", "t", NUMBER, owed_bytes, VARIES)

/* Of struct spool_view. */
#define SPOOL_FIELDS(F)                                                                            \
	F("Path", "ay", PATH, path, VARIES)                                                        \
	F("State", "s", TEXT, state_name, VARIES)                                                  \
	F("Message", "s", TEXT, message, VARIES)                                                   \
	F("SettleUSec", "t", USEC, settle_usec, VARIES)                                            \
	F("UndoUSec", "t", USEC, undo_usec, VARIES)                                                \
	F("Waiting", "t", NUMBER, waiting, VARIES)

/* Of struct policy_view (operations.h). */
#define POLICY_FIELDS(F)                                                                           \
	F("Name", "s", TEXT, name, VARIES)                                                         \
	F("Path", "ay", PATH, path, VARIES)                                                        \
	F("Match", "as", STRINGS, match, VARIES)                                                   \
	F("Schedule", "s", TEXT, schedule, VARIES)                                                 \
	F("Watched", "b", BOOL, watched, VARIES)                                                   \
	F("MaxDelete", "d", RATE, max_delete, VARIES)                                              \
	F("UndoUSec", "t", USEC, undo_usec, VARIES)                                                \
	F("Running", "b", BOOL, running, VARIES)                                                   \
	F("Job", "t", NUMBER, job, VARIES)                                                         \
	F("NextElapseUSec", "t", USEC, next_usec, VARIES)                                          \
	F("LastRunUSec", "t", USEC, last_usec, VARIES)                                             \
	F("LastResult", "s", TEXT, last_result, VARIES)                                            \
	F("LastJob", "t", NUMBER, last_job, VARIES)                                                \
	F("LastRefused", "t", NUMBER, refused, VARIES)                                             \
	F("LastExcess", "t", NUMBER, excess, VARIES)                                               \
	F("LastWhy", "as", STRINGS, why, VARIES)                                                   \
	F("LastSuccessUSec", "t", USEC, success_usec, VARIES)                                      \
	F("OldestKeptUSec", "t", USEC, oldest_usec, VARIES)

/* Of struct daemon_view: how it is, and what has happened since it was started. */
#define STATUS_FIELDS(F)                                                                           \
	F("Version", "s", TEXT, version, CONST)                                                    \
	F("Features", "as", STRINGS, features, CONST)                                              \
	F("Paused", "b", BOOL, paused, TOLD)                                                       \
	F("PacingWindow", "s", TEXT, window, TOLD)                                                 \
	F("PacingWindowRate", "t", NUMBER, window_rate, TOLD)                                      \
	F("PacingWindowUntilUSec", "t", USEC, window_until_usec, TOLD)                             \
	F("ConfigurationError", "s", TEXT, configuration_error, TOLD)                              \
	F("StoreError", "s", TEXT, store_error, TOLD)                                              \
	F("Orphans", "t", NUMBER, orphans, TOLD)                                                   \
	F("Jobs", "a{st}", UNFINISHED, jobs, VARIES)                                               \
	F("EntriesFreed", "t", NUMBER, entries_freed, VARIES)                                      \
	F("BytesFreed", "t", NUMBER, bytes_freed, VARIES)                                          \
	F("FleetHost", "s", CHARS, fleet.host, TOLD)                                               \
	F("FleetConnected", "b", BOOL, fleet.connected, TOLD)                                      \
	F("FleetSinceUSec", "t", USEC, fleet.since_usec, TOLD)                                     \
	F("FleetError", "s", TEXT, fleet.error, TOLD)
#define METRICS_FIELDS(F)                                                                          \
	F("JobsFinished", "a{st}", FINISHED, finished, VARIES)                                     \
	F("Interruptions", "t", NUMBER, interruptions, VARIES)                                     \
	F("Errors", "a{st}", ERRORS, errors, VARIES)                                               \
	F("LatencyBoundsUSec", "at", BOUNDS, jobs, CONST)                                          \
	F("FleetPublishedUnits", "t", NUMBER, fleet.published, VARIES)                             \
	F("FleetClaimedUnits", "t", NUMBER, fleet.claimed, VARIES)                                 \
	F("FleetDoneUnits", "t", NUMBER, fleet.done.units, VARIES)                                 \
	F("FleetDoneEntries", "t", NUMBER, fleet.done.entries, VARIES)                             \
	F("FleetDoneBytes", "t", NUMBER, fleet.done.bytes, VARIES)                                 \
	F("FleetOthersUnits", "t", NUMBER, fleet.others.units, VARIES)                             \
	F("FleetOthersEntries", "t", NUMBER, fleet.others.entries, VARIES)                         \
	F("FleetOthersBytes", "t", NUMBER, fleet.others.bytes, VARIES)

extern const struct field job_fields[], device_fields[], spool_fields[], policy_fields[],
	status_fields[], metrics_fields[];
/* What a line of a list of jobs has; of a problem_record, an entry_view (and with who it is), a
 * device_totals. */
extern const struct field job_line_fields[], problem_fields[], entry_fields[], kept_fields[],
	totals_fields[];
/* Of a device_latency (daemon/workers/pacers.h). */
extern const struct field latency_fields[];

struct device_view {
	char *name;
	const char *mode;
	bool observed;
	uint64_t target_usec, sync_usec, quantum_usec;
	double entries_rate, bytes_rate;
	uint64_t owed_bytes;
};

struct entry_view {
	const char *path;
	enum entry_state state;
	uint64_t number, ino, btime_nsec, type; /* who it was when it was submitted */
};

/* NULL if there is none of that name. */
const struct field *field_find(const struct field *fields, const char *name);

static inline bool field_is_text(const struct field *f)
{
	return f->kind <= FIELD_STAGING;
}

static inline bool field_is_number(const struct field *f)
{
	return f->kind >= FIELD_NUMBER && f->kind <= FIELD_UID;
}

/* The text of a field that has one, as it is: where it must be made, *ret_made is it, too, and the
 * caller's to free. NULL: out of memory. */
const char *field_text(const struct field *f, const void *object, char **ret_made);
uint64_t field_number(const struct field *f, const void *object);

/* Numbers by name, from *i = 0 on: false where there are no more. */
bool field_count(const struct field *f, const void *object, unsigned *i, const char **ret_name,
		 uint64_t *ret);

/* What all fields take, packed: 8 bytes for a number, and texts with a NUL each; about, where a
 * text must be made. */
size_t fields_bytes(const struct field *fields, const void *object);
