/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimd and reclaim-fleet say to each other. reclaim-fleet is the only program that speaks
 * to the database of a fleet; its end of the socket is descriptor 3. reclaimd says JOIN first.
 * Either may say anything at any time after that; nothing is answered but PUBLISH.
 *
 *   reclaimd says                         reclaim-fleet says
 *   JOIN      once: who this host is      JOINED     this host is one of the fleet
 *   CAPACITY  what it would do, and does  REFUSED    it is not, and why; asked again later
 *   PUBLISH   a unit for any host         LOST       the database is gone: JOINED or REFUSED follow
 *   FINISH    of a claimed unit           PUBLISHED  other hosts can claim it
 *   PROGRESS  of a claimed unit           CLAIMED    this host is to do that unit
 *   RECALL    units of a job back         REVOKED    this host is to stop that unit
 *   FORGET    the job has ended           DEMAND     units that other hosts would take now
 *                                         JOB        what is left of a job of this host
 *                                         PROBLEM    met with a job of this host by another one
 *                                         LEASE      how long this host's claims last
 *                                         WORKING    other hosts that delete now
 *
 * LOST says that what was not PUBLISHED will not be, and that no host wants anything. A unit that
 * is claimed stays this host's while the database is gone, until its LEASE is over; what has become
 * of the claim is told when it is there again. When reclaim-fleet itself ends, all claims are lost.
 *
 * A unit is a directory beneath that of a job in staging, and either names in it, or a slice of
 * all that it has. */
#pragma once

#include <stdbool.h>

#include "base/fleet-name.h"
#include "message-types.h"

#define FLEET_VERSION 1

/* Where reclaim-fleet finds its end of the socket. */
#define FLEET_FD 3

/* Of one unit. */
#define FLEET_NAMES 512
#define FLEET_NAMES_BYTES KiB(32)
#define FLEET_PATH_SIZE 4096 /* with its NUL */
#define FLEET_SLICES 65536

/* Filesystems of one host; problems in one FINISH, and bytes of their texts. */
#define FLEET_FILESYSTEMS 64
#define FLEET_PROBLEMS 32
#define FLEET_TEXT_SIZE 1024

/* database: a connection string of libpq. boot: this boot of this host. uid_space: hosts with the
 * same have the same numbers for the same users. lease_msec: how long this host's claims last when
 * it says nothing; 0: as it is by default. */
#define FIELDS_join_message(F)                                                                     \
	F(NUMBER, version)                                                                         \
	F(TEXT, database)                                                                          \
	F(TEXT, host)                                                                              \
	F(TEXT, boot)                                                                              \
	F(TEXT, uid_space)                                                                         \
	F(NUMBER, lease_msec)
/* identity: the same text on all hosts that mount it, and no other filesystem's. */
#define FIELDS_join_filesystem(F) F(TEXT, name) F(TEXT, identity) F(TEXT, path)
/* units: claimed at the same time, those that it has included, until they are FINISHed. works: a
 * job of this host's own runs there; one that does units is known to work. rate: bytes per second
 * of all hosts together, as this one has it; 0: unlimited. */
#define FIELDS_capacity_message(F)                                                                 \
	F(TEXT, filesystem) F(NUMBER, units) F(BOOL, works) F(NUMBER, rate)
/* owner: NULL is this host; else the unit is a part of one that is claimed with that token.
 * directory: components beneath the job's with a slash between them, "" is the job's itself.
 * slices: 0 is the names that follow; else all names whose hash modulo slices is slice. */
#define FIELDS_publish_message(F)                                                                  \
	F(NUMBER, serial)                                                                          \
	F(OPT_TEXT, owner)                                                                         \
	F(NUMBER, token)                                                                           \
	F(NUMBER, job)                                                                             \
	F(ID, uid)                                                                                 \
	F(TEXT, filesystem)                                                                        \
	F(PATH, directory)                                                                         \
	F(SHARED_IDENTITY, parent)                                                                 \
	F(NUMBER, slice)                                                                           \
	F(NUMBER, slices)
#define FIELDS_unit_name(F) F(NAME, name) F(SHARED_IDENTITY, id)
/* ended: else it is given back, for any host to do what is left of it. */
#define FIELDS_finish_message(F)                                                                   \
	F(NUMBER, unit)                                                                            \
	F(NUMBER, token)                                                                           \
	F(NUMBER, entries)                                                                         \
	F(NUMBER, bytes)                                                                           \
	F(NUMBER, errors)                                                                          \
	F(BOOL, ended)
#define FIELDS_unit_problem(F) F(TEXT, path) F(TEXT, what) F(ERROR, error)
#define FIELDS_unit_progress(F) F(NUMBER, token) F(NUMBER, entries) F(NUMBER, bytes)
#define FIELDS_recall_message(F) F(NUMBER, job)
#define FIELDS_job_ended(F) F(NUMBER, job)
/* For a person, escaped. */
#define FIELDS_refused_message(F) F(TEXT, text)
#define FIELDS_lost_message(F) F(TEXT, text)
/* published: else the job was recalled, or the claim it is a part of is lost. */
#define FIELDS_published_message(F) F(NUMBER, serial) F(BOOL, published)
/* As in PUBLISH. owner: the host whose staging it is in, which may be this one. */
#define FIELDS_claimed_message(F)                                                                  \
	F(NUMBER, unit)                                                                            \
	F(NUMBER, token)                                                                           \
	F(TEXT, owner)                                                                             \
	F(NUMBER, job)                                                                             \
	F(ID, uid)                                                                                 \
	F(TEXT, filesystem)                                                                        \
	F(PATH, directory)                                                                         \
	F(SHARED_IDENTITY, parent)                                                                 \
	F(NUMBER, slice)                                                                           \
	F(NUMBER, slices)
/* lost: another host may have it already; else its job was recalled, and what is not done of it is
 * to be given back. FINISH is expected for both. */
#define FIELDS_revoked_message(F) F(NUMBER, unit) F(NUMBER, token) F(BOOL, lost)
/* units: in all, now. What is published after that counts against it, until it is told again. */
#define FIELDS_wanted_message(F) F(TEXT, filesystem) F(NUMBER, units)
/* Told anew with each JOINED; without the database, what it was last is the best that is known. */
#define FIELDS_working_message(F) F(TEXT, filesystem) F(NUMBER, hosts)
/* Units of the job that no host has, and that one has; what all of them have done. It counts every
 * unit that was PUBLISHED before. others: of those, what hosts other than this one have, and have
 * done. */
#define FIELDS_job_message(F)                                                                      \
	F(NUMBER, job)                                                                             \
	F(NUMBER, open)                                                                            \
	F(NUMBER, claimed)                                                                         \
	F(NUMBER, entries)                                                                         \
	F(NUMBER, bytes)                                                                           \
	F(NUMBER, errors)                                                                          \
	F(NUMBER, others_claimed)                                                                  \
	F(NUMBER, others_units)                                                                    \
	F(NUMBER, others_entries)                                                                  \
	F(NUMBER, others_bytes)
#define FIELDS_job_problem(F) F(NUMBER, job) F(TEXT, path) F(TEXT, what) F(ERROR, error)
/* By boot_usec: so long no other host is given what this one has claimed. */
#define FIELDS_lease_message(F) F(NUMBER, until_usec)

#define FLEET_RECORDS(R)                                                                           \
	R(join_message)                                                                            \
	R(join_filesystem)                                                                         \
	R(capacity_message)                                                                        \
	R(publish_message)                                                                         \
	R(unit_name)                                                                               \
	R(finish_message)                                                                          \
	R(unit_problem)                                                                            \
	R(unit_progress)                                                                           \
	R(recall_message)                                                                          \
	R(job_ended)                                                                               \
	R(refused_message)                                                                         \
	R(lost_message)                                                                            \
	R(published_message)                                                                       \
	R(claimed_message)                                                                         \
	R(revoked_message)                                                                         \
	R(wanted_message)                                                                          \
	R(job_message)                                                                             \
	R(job_problem)                                                                             \
	R(lease_message)                                                                           \
	R(working_message)

FLEET_RECORDS(MESSAGE_STRUCT)

/* R(type, what a message has once, what is repeated behind that, up to its end). */
#define FLEET_REQUESTS(R)                                                                          \
	R(FLEET_JOIN, join_message, join_filesystem)                                               \
	R(FLEET_CAPACITY, capacity_message, nothing)                                               \
	R(FLEET_PUBLISH, publish_message, unit_name)                                               \
	R(FLEET_FINISH, finish_message, unit_problem)                                              \
	R(FLEET_PROGRESS, unit_progress, nothing)                                                  \
	R(FLEET_RECALL, recall_message, nothing)                                                   \
	R(FLEET_FORGET, job_ended, nothing)
#define FLEET_REPORTS(R)                                                                           \
	R(FLEET_JOINED, nothing, nothing)                                                          \
	R(FLEET_REFUSED, refused_message, nothing)                                                 \
	R(FLEET_LOST, lost_message, nothing)                                                       \
	R(FLEET_PUBLISHED, published_message, nothing)                                             \
	R(FLEET_CLAIMED, claimed_message, unit_name)                                               \
	R(FLEET_REVOKED, revoked_message, nothing)                                                 \
	R(FLEET_DEMAND, wanted_message, nothing)                                                   \
	R(FLEET_JOB, job_message, nothing)                                                         \
	R(FLEET_PROBLEM, job_problem, nothing)                                                     \
	R(FLEET_LEASE, lease_message, nothing)                                                     \
	R(FLEET_WORKING, working_message, nothing)

enum fleet_request { FLEET_REQUEST_NONE, FLEET_REQUESTS(MESSAGE_TYPE) };
enum fleet_report { FLEET_REPORT_NONE = 31, FLEET_REPORTS(MESSAGE_TYPE) };

union fleet_record {
	FLEET_RECORDS(MESSAGE_UNION)
};

/* As protocol_put, protocol_put_item, protocol_get and protocol_get_item. */
void fleet_put(struct wire_out *o, const void *once);
void fleet_put_item(struct wire_out *o, const void *item);
int fleet_get(struct wire_in *in, void *ret);
int fleet_get_item(struct wire_in *in, void *ret);

/* Do slice and slices of a unit belong together, and has it so many names? */
bool fleet_slice_is_valid(uint64_t slice, uint64_t slices, size_t n_names);
