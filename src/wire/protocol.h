/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimd and reclaim-worker say to each other. (Where the socket is a stream, the worker is
 * a proxy, and D-Bus or Varlink is spoken: worker/proxy/proxy.h.)
 *
 * The worker's end of the socket is descriptor 3. reclaimd says HELLO first; the worker becomes the
 * submitter, and says WELCOME. Each request has a serial number, which all answers to it carry; the
 * next one comes when the last was answered, but for STOP, DEMAND, UNTIL and the two for
 * remainders, which have no answer of their own, and FLUSH, of which one may be under way beside a
 * RUN. ALIVE, "still at work", may come at any time. What is in each message is said once, below,
 * from which both ends have its struct, and the one function that writes and the one that reads it
 * (with every bound).
 *
 *   request          answers                     request          answers
 *   HELLO            WELCOME                     RESTORE          DONE
 *   ADD_GROUPS       -                           REMOVE_STAGING   DONE
 *   VALIDATE         DIRS, ENTRIES, VALIDATED    LIST_STAGING     LISTING, DONE
 *   FORGET           -                           RUN              SHRINKS, GIVEN, PROBLEM, KEPT,
 *   STAGE            RANGES, STAGED                               RAN
 *   MAKE_STAGING     OPENED                      STOP             -
 *   OPEN_DIR         OPENED                      DEMAND           -
 *   WRITE_MARK       DONE                        UNTIL            -
 *   READ_MARK        MARK                        FREE_REMAINDERS  -
 *   WITHDRAW_MARK    DONE                        TAKE_REMAINDER   -
 *   REMOVE_MARK      DONE                        FLUSH            DONE
 *                                                FILESYSTEM_ID    LISTING, DONE
 *
 * To an intake worker STOP says that the names of the VALIDATE under way are too many: it answers
 * with VALIDATED at once, which fails. One that comes too late means nothing.
 *
 * A unit is a part of a job that another host can do: names in one directory beneath the job's own,
 * or a slice of all that one has (engine/core/name-slice.h). DEMAND says how many units a run that
 * `gives` may give away from then on, instead of what was said before; each GIVEN is one. What is
 * given stays, and so do the directories that it lies in, until a later run of the same names.
 *
 * A run that has an end deletes nothing more from then on, as if it had been stopped, whatever has
 * become of reclaimd meanwhile. UNTIL puts the end off.
 *
 * A run that is stopped with `keep` in the midst of large files says in RAN how much is left of
 * them. Such a worker gets no further RUN: it holds what is left, frees it at its pace after
 * FREE_REMAINDERS, holds it again after STOP with `keep`, lets go of it after STOP without, and
 * ends when nothing is left.
 *
 * SHRINKS brings the descriptor of a large file that has no name any more and is freed from now on.
 * When the worker is done with it, it gives up the lease. Another worker, which gets no RUN, is
 * given what is left by TAKE_REMAINDER, once for each file, and then by FREE_REMAINDERS frees it.
 */
#pragma once

#include <stdatomic.h>

#include "base/error-table.h"
#include "base/lasting-identity.h"
#include "message-types.h"
#include "wire.h"

#define PROTOCOL_VERSION 14

/* Where a worker finds its end of the socket. */
#define PROTOCOL_FD 3

/* What a client speaks: the byte that comes with what a proxy begins with. */
enum protocol_speech { SPEECH_DBUS, SPEECH_VARLINK };

/* What there is in messages: message-types.h. */

/* stall_usec: how long a MooseFS master may be held up by snapshots; 0: not at all. landlock: where
 * it may delete. */
#define FIELDS_hello_message(F)                                                                    \
	F(NUMBER, version)                                                                         \
	F(BOOL, deletes)                                                                           \
	F(ID, uid)                                                                                 \
	F(ID, gid)                                                                                 \
	F(NUMBER, stall_usec)                                                                      \
	F(BYTES, groups)                                                                           \
	F(FD, page)                                                                                \
	F(FD, death_pipe)                                                                          \
	F(OPT_FD, landlock)                                                                        \
	F(OPT_FD, pace)                                                                            \
	F(OPT_FD, pace_page)
#define FIELDS_protected_path(F) F(TEXT, path)
#define FIELDS_groups_message(F) F(NUMBER, session)
/* One directory and the names in it that are submitted. Either dirfd (O_PATH will do), or dir_path
 * (absolute, resolved without following symbolic links), or path: the whole path of one thing, and
 * no names. Names are each ended by NUL, here or in a file. display: how the submitter wrote the
 * directory. list: names that do not exist are counted, not an error. records: the names are
 * records (wire/records.h); only with list. skip_refused: nor is what is refused. */
#define FIELDS_intake_group(F)                                                                     \
	F(BOOL, list)                                                                              \
	F(BOOL, records)                                                                           \
	F(BOOL, skip_refused)                                                                      \
	F(OPT_TEXT, dir_path)                                                                      \
	F(OPT_TEXT, path)                                                                          \
	F(OPT_TEXT, display)                                                                       \
	F(BYTES, names)                                                                            \
	F(OPT_FD, dirfd)                                                                           \
	F(OPT_FD, names_fd)
/* rmdir: what is no empty directory is refused; STAGE leaves it where it is. view: the mount table
 * of the process that asks, unless that is reclaimd. */
#define FIELDS_validate_message(F) F(NUMBER, session) F(BOOL, rmdir) F(OPT_FD, view)
/* wants_dir: STAGED is to bring the directory that the names are in then. always: directories
 * also where the filesystem has no RENAME_NOREPLACE (worker/move.h). */
#define FIELDS_stage_message(F)                                                                    \
	F(NUMBER, session)                                                                         \
	F(NAME, name)                                                                              \
	F(BOOL, wants_dir)                                                                         \
	F(BOOL, always)                                                                            \
	F(FD, staging)
#define FIELDS_forget_message(F) F(NUMBER, session)
/* mnt_id: 0 is whatever is mounted there. make: else only if it is there. uses: names are going to
 * be moved into the directory, or are in it: the daemon's lock is taken again if somebody has
 * removed it (without make, it does not matter if that fails), and the directory is locked against
 * systemd-tmpfiles. holder: this daemon (base/lock-holder.h); NULL: whichever has the mount. host:
 * of a fleet, whose part of .reclaim it is in (base/staging-dir.h); NULL: .reclaim itself. */
#define FIELDS_make_staging_message(F)                                                             \
	F(TEXT, mount_path)                                                                        \
	F(NUMBER, mnt_id)                                                                          \
	F(ID, uid)                                                                                 \
	F(ID, gid)                                                                                 \
	F(BOOL, make)                                                                              \
	F(BOOL, uses)                                                                              \
	F(OPT_TEXT, holder)                                                                        \
	F(OPT_NAME, host)
/* What tells a filesystem from all others, on every host: LISTING brings one name, which is in
 * .reclaim/id. */
#define FIELDS_filesystem_id_message(F) F(TEXT, mount_path) F(NUMBER, mnt_id)
/* Where a mark is: that of a job, by any name of one component that does not begin with a dot, of
 * that host, on the filesystem with that mount (mnt_id as above). holder: this daemon, whose the
 * host's part must be (-EBUSY); NULL: whosever it is. */
#define FIELDS_mark_place(F)                                                                       \
	F(TEXT, mount_path)                                                                        \
	F(NUMBER, mnt_id)                                                                          \
	F(NAME, host)                                                                              \
	F(OPT_TEXT, holder)                                                                        \
	F(NAME, job)
#define FIELDS_write_mark_message(F)                                                               \
	FIELDS_mark_place(F) F(TEXT, space) F(ID, uid) F(ID, gid) F(BYTES, groups)                 \
		F(TEXT, dir_name) F(IDENTITY, dir)
/* checks: it must be the one that id says. foreign: id is of another host, and an fsid of 0 in it
 * is not compared. filesystem: of id only the fsid is compared. */
#define FIELDS_open_dir_message(F)                                                                 \
	F(TEXT, path)                                                                              \
	F(BOOL, checks)                                                                            \
	F(BOOL, foreign)                                                                           \
	F(BOOL, filesystem)                                                                        \
	F(IDENTITY, id)                                                                            \
	F(OPT_FD, at)
/* Puts the thing `id`, which has the name seq in job_dir of staging, back: into the directory `to`,
 * as to_name (NULL: its own name); or where it was, as `name` in dir_path, which must still be
 * dir_id. absent: the staging directory is gone, and `staging` is any directory of its filesystem;
 * the worker only checks whether the thing is back already. view: the mount table of the process
 * that asks, with a number that no other has. */
#define FIELDS_restore_message(F)                                                                  \
	F(NAME, job_dir)                                                                           \
	F(BOOL, absent)                                                                            \
	F(NUMBER, seq)                                                                             \
	F(NAME, name)                                                                              \
	F(TEXT, dir_path)                                                                          \
	F(IDENTITY, dir_id)                                                                        \
	F(IDENTITY, id)                                                                            \
	F(OPT_TEXT, to_name)                                                                       \
	F(NUMBER, view_number)                                                                     \
	F(FD, staging)                                                                             \
	F(OPT_FD, to)                                                                              \
	F(OPT_FD, view)
#define FIELDS_remove_staging_message(F) F(NAME, job_dir) F(FD, staging)
/* job_dir: NULL is `staging` itself. names: 0: of each its identity, too, which takes a look at it;
 * else so many names alone (-E2BIG: there are more). */
#define FIELDS_list_staging_message(F) F(OPT_NAME, job_dir) F(NUMBER, names) F(FD, staging)
/* may_wait: what is gone need not be durable yet, if RAN says so and FLUSH, or a RUN with `owes`,
 * follows. owes: what was gone before in this directory is not. rmdir: names go only if they are
 * empty directories. gives: see above. unit: unless NULL, the names are in the directory of that
 * path, which must be unit_id, and dir is the job's; slices: there are no names, but all goes that
 * is in it and in that slice. Of a unit's identities an fsid of 0 is not compared. until_usec: its
 * end, by boot_usec; 0: it has none. */
#define FIELDS_run_message(F)                                                                      \
	F(TEXT, display)                                                                           \
	F(BOOL, check_dir)                                                                         \
	F(IDENTITY, dir_id)                                                                        \
	F(NUMBER, unmoved_usec)                                                                    \
	F(BOOL, may_wait)                                                                          \
	F(BOOL, owes)                                                                              \
	F(BOOL, rmdir)                                                                             \
	F(BOOL, gives)                                                                             \
	F(OPT_PATH, unit)                                                                          \
	F(IDENTITY, unit_id)                                                                       \
	F(NUMBER, slice)                                                                           \
	F(NUMBER, slices)                                                                          \
	F(NUMBER, until_usec)                                                                      \
	F(FD, dir)
/* name, in dir: the number as a decimal in staging, or the original name. */
#define FIELDS_run_item(F) F(NUMBER, seq) F(NAME, name) F(IDENTITY, id)
#define FIELDS_stop_message(F) F(BOOL, keep)
#define FIELDS_demand_message(F) F(NUMBER, units)
#define FIELDS_until_message(F) F(NUMBER, usec)
#define FIELDS_take_remainder_message(F) F(FD, file)
#define FIELDS_flush_message(F) F(FD, dir)
#define FIELDS_flush_item(F) F(NAME, name)
#define FIELDS_welcome_message(F) F(NUMBER, version) F(NUMBER, landlock_abi)
/* dir: its number, from 1. path: as the kernel names it; for people, and to find it by after a
 * restart. */
#define FIELDS_intake_dir(F) F(NUMBER, dir) F(TEXT, path) F(IDENTITY, id)
/* The first has the number 1. */
#define FIELDS_intake_entry(F) F(NUMBER, dir) F(NAME, name) F(IDENTITY, id)
/* entries, bytes: in all, if no directory is among them; else 0: not known. mnt_id: all are on it.
 * cause and text: of a failure, "PATH: WHY", escaped; or ERROR_NONE. */
#define FIELDS_intake_validated(F)                                                                 \
	F(NUMBER, names)                                                                           \
	F(NUMBER, missing)                                                                         \
	F(NUMBER, entries)                                                                         \
	F(NUMBER, bytes)                                                                           \
	F(NUMBER, mnt_id)                                                                          \
	F(NUMBER, dev)                                                                             \
	F(BOOL, discards)                                                                          \
	F(CAUSE, cause)                                                                            \
	F(OPT_TEXT, text)
/* dir: the job's directory, if there is one and no failure. */
#define FIELDS_staged_message(F)                                                                   \
	F(IDENTITY, staging_id)                                                                    \
	F(CAUSE, cause)                                                                            \
	F(OPT_TEXT, text)                                                                          \
	F(OPT_FD, dir)
/* What a mark says of a job (worker/marks.c): on whose authority it is, and which its directory in
 * staging is and how that is called, with an fsid of 0. space: of which uid space the numbers are;
 * that and dir_name: printable ASCII without blanks and slashes, 1 to 200. groups: gid_t,
 * PROTOCOL_MARK_GROUPS at most. */
#define FIELDS_mark_message(F)                                                                     \
	F(ERROR, error)                                                                            \
	F(TEXT, space)                                                                             \
	F(ID, uid)                                                                                 \
	F(ID, gid)                                                                                 \
	F(BYTES, groups)                                                                           \
	F(TEXT, dir_name)                                                                          \
	F(IDENTITY, dir)
#define FIELDS_staged_range(F) F(NUMBER, from) F(NUMBER, to) F(ERROR, error)
#define FIELDS_opened_message(F) F(ERROR, error) F(OPT_FD, fd)
#define FIELDS_done_message(F) F(ERROR, error)
#define FIELDS_listing_item(F) F(NAME, name) F(IDENTITY, id)
/* path: beneath the directory that RUN has, of a unit of that as well. Identities are those of any
 * host: their fsid is 0. slices: as in RUN. */
#define FIELDS_given_message(F)                                                                    \
	F(PATH, path)                                                                              \
	F(IDENTITY, id)                                                                            \
	F(NUMBER, slice)                                                                           \
	F(NUMBER, slices)
#define FIELDS_given_name(F) F(NAME, name) F(IDENTITY, id)
/* bytes: what it took on the disk. */
#define FIELDS_shrinks_message(F) F(NUMBER, bytes) F(FD, file)
#define FIELDS_problem_message(F) F(TEXT, path) F(TEXT, what) F(ERROR, error) F(BOOL, is_error)
#define FIELDS_kept_item(F) F(NUMBER, seq) F(ERROR, error)
/* unflushed: gone, but not durably: FLUSH has to follow. remainder_bytes: left of large files in
 * whose midst it was stopped, and held. given: so many units were. strategy: "ext: threads, 2
 * lanes, inode order". */
#define FIELDS_run_result(F)                                                                       \
	F(ERROR, error)                                                                            \
	F(NUMBER, entries)                                                                         \
	F(NUMBER, bytes)                                                                           \
	F(NUMBER, errors)                                                                          \
	F(NUMBER, skipped)                                                                         \
	F(BOOL, cancelled)                                                                         \
	F(BOOL, unflushed)                                                                         \
	F(NUMBER, remainder_bytes)                                                                 \
	F(NUMBER, given)                                                                           \
	F(TEXT, strategy)

#define PROTOCOL_RECORDS(R)                                                                        \
	R(hello_message)                                                                           \
	R(protected_path)                                                                          \
	R(groups_message)                                                                          \
	R(intake_group)                                                                            \
	R(validate_message)                                                                        \
	R(stage_message)                                                                           \
	R(intake_validated)                                                                        \
	R(staged_message)                                                                          \
	R(forget_message)                                                                          \
	R(make_staging_message)                                                                    \
	R(open_dir_message)                                                                        \
	R(restore_message)                                                                         \
	R(remove_staging_message)                                                                  \
	R(list_staging_message)                                                                    \
	R(filesystem_id_message)                                                                   \
	R(mark_place)                                                                              \
	R(write_mark_message)                                                                      \
	R(mark_message)                                                                            \
	R(run_message)                                                                             \
	R(run_item)                                                                                \
	R(stop_message)                                                                            \
	R(demand_message)                                                                          \
	R(until_message)                                                                           \
	R(take_remainder_message)                                                                  \
	R(flush_message)                                                                           \
	R(flush_item)                                                                              \
	R(welcome_message)                                                                         \
	R(intake_dir)                                                                              \
	R(intake_entry)                                                                            \
	R(staged_range)                                                                            \
	R(opened_message)                                                                          \
	R(done_message)                                                                            \
	R(listing_item)                                                                            \
	R(shrinks_message)                                                                         \
	R(given_message)                                                                           \
	R(given_name)                                                                              \
	R(problem_message)                                                                         \
	R(kept_item)                                                                               \
	R(run_result)

PROTOCOL_RECORDS(MESSAGE_STRUCT)

/* R(type, what a message has once, what is repeated behind that, up to its end). */
#define PROTOCOL_REQUESTS(R)                                                                       \
	R(REQUEST_HELLO, hello_message, protected_path)                                            \
	R(REQUEST_ADD_GROUPS, groups_message, intake_group)                                        \
	R(REQUEST_VALIDATE, validate_message, nothing)                                             \
	R(REQUEST_FORGET, forget_message, nothing)                                                 \
	R(REQUEST_STAGE, stage_message, nothing)                                                   \
	R(REQUEST_MAKE_STAGING, make_staging_message, nothing)                                     \
	R(REQUEST_OPEN_DIR, open_dir_message, nothing)                                             \
	R(REQUEST_RESTORE, restore_message, nothing)                                               \
	R(REQUEST_REMOVE_STAGING, remove_staging_message, nothing)                                 \
	R(REQUEST_LIST_STAGING, list_staging_message, nothing)                                     \
	R(REQUEST_RUN, run_message, run_item)                                                      \
	R(REQUEST_STOP, stop_message, nothing)                                                     \
	R(REQUEST_FLUSH, flush_message, flush_item)                                                \
	R(REQUEST_TAKE_REMAINDER, take_remainder_message, nothing)                                 \
	R(REQUEST_FREE_REMAINDERS, nothing, nothing)                                               \
	R(REQUEST_DEMAND, demand_message, nothing)                                                 \
	R(REQUEST_WRITE_MARK, write_mark_message, nothing)                                         \
	R(REQUEST_READ_MARK, mark_place, nothing)                                                  \
	R(REQUEST_REMOVE_MARK, mark_place, nothing)                                                \
	R(REQUEST_FILESYSTEM_ID, filesystem_id_message, nothing)                                   \
	R(REQUEST_WITHDRAW_MARK, mark_place, nothing)                                              \
	R(REQUEST_UNTIL, until_message, nothing)
#define PROTOCOL_ANSWERS(R)                                                                        \
	R(ANSWER_WELCOME, welcome_message, nothing)                                                \
	R(ANSWER_ALIVE, nothing, nothing)                                                          \
	R(ANSWER_DIRS, nothing, intake_dir)                                                        \
	R(ANSWER_ENTRIES, nothing, intake_entry)                                                   \
	R(ANSWER_VALIDATED, intake_validated, nothing)                                             \
	R(ANSWER_RANGES, nothing, staged_range)                                                    \
	R(ANSWER_STAGED, staged_message, nothing)                                                  \
	R(ANSWER_OPENED, opened_message, nothing)                                                  \
	R(ANSWER_DONE, done_message, nothing)                                                      \
	R(ANSWER_LISTING, nothing, listing_item)                                                   \
	R(ANSWER_SHRINKS, shrinks_message, nothing)                                                \
	R(ANSWER_PROBLEM, problem_message, nothing)                                                \
	R(ANSWER_KEPT, nothing, kept_item)                                                         \
	R(ANSWER_RAN, run_result, nothing)                                                         \
	R(ANSWER_GIVEN, given_message, given_name)                                                 \
	R(ANSWER_MARK, mark_message, nothing)

enum protocol_request { REQUEST_NONE, PROTOCOL_REQUESTS(MESSAGE_TYPE) };
enum protocol_answer { ANSWER_NONE = 63, PROTOCOL_ANSWERS(MESSAGE_TYPE) };

union protocol_record {
	PROTOCOL_RECORDS(MESSAGE_UNION)
};

/* Of one run. */
#define PROTOCOL_ITEMS 65536
#define PROTOCOL_PROBLEMS 1000

/* Names of one GIVEN. */
#define PROTOCOL_GIVEN 256

/* Groups of one mark. */
#define PROTOCOL_MARK_GROUPS 1024

/* Names of one FLUSH. */
#define PROTOCOL_FLUSH 256

/* Shared by a worker and reclaimd. What the worker writes may be anything. */
struct worker_page {
	/* by the worker: of the run that is going on; entries, of a STAGE, too */
	_Atomic uint64_t entries, bytes;
};

/* Puts what a message of o's type has once, and each of what it repeats, if there is such.
 * Descriptors stay the caller's. */
void protocol_put(struct wire_out *o, const void *once);
void protocol_put_item(struct wire_out *o, const void *item);

/* Reads what a message has once: texts are valid until the next receive, and so are descriptors,
 * which are the message's (wire_keep_fd). Returns 0; or -EBADMSG if anything is not as its type has
 * it, if there is more than that in a message where nothing is repeated, or if there are no such
 * messages. */
int protocol_get(struct wire_in *in, void *ret);
/* Reads one of what is repeated, behind a protocol_get that succeeded. Returns 1; 0 at the end of
 * the message; or -EBADMSG. */
int protocol_get_item(struct wire_in *in, void *ret);
