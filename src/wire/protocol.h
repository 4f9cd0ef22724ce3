/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimd and reclaim-worker say to each other. (Where the socket is a stream, the worker is
 * a proxy, and D-Bus or Varlink is spoken: worker/proxy/proxy.h.)
 *
 * The worker's end of the socket is descriptor 3. reclaimd says HELLO first; the worker becomes the
 * submitter, and says WELCOME. Each request has a serial number, which all answers to it carry; the
 * next one comes when the last was answered, but for STOP and FREE_REMAINDERS, which have no answer
 * of their own, and FLUSH, of which one may be under way beside a RUN. "n * (...)" is repeated up
 * to the end of the message. Errors are negative errnos; a failure is a cause of
 * base/error-table.h and its text; ? may be NULL or absent.
 *
 *   request          content                                      answers
 *   HELLO            version, role, uid, gid, flags, µs that a    WELCOME: version, Landlock's ABI
 *                    MooseFS master may be held up by snapshots   or 0
 *                    (0: none), groups, n * (protected path);
 *                    fds: page, death_pipe, landlock? (delete), pace,
 *                    its page?
 *   ADD_GROUPS       session, n * (flags, dir_path?, path?,       -
 *                    display?, names); fds: dir?, names?
 *   VALIDATE         session, flags; fd: mount table of the       DIRS, ENTRIES, VALIDATED
 *                    process that asks?
 *   FORGET           session                                      -
 *   STAGE            session, name; fd: staging                   RANGES, STAGED
 *   MAKE_STAGING     path, mount id, uid, gid, make, holder?      OPENED
 *   OPEN_DIR         path, flags, identity; fd: at?               OPENED
 *   RESTORE          flags, job_dir, seq, name, dir_path,         DONE
 *                    dir's identity, identity, to_name?,
 *                    number of the view (0: none);
 *                    fds: staging, to?, mount table of the
 *                    process that asks?
 *   REMOVE_STAGING   job_dir; fd: staging                         DONE
 *   LIST_STAGING     job_dir?; fd: staging                        LISTING, DONE
 *   RUN              display, flags, dir's identity,              PROBLEM, KEPT, RAN
 *                    n * (seq, name, identity); fd: dir
 *   STOP             keep                                         -
 *   FREE_REMAINDERS  -                                                 -
 *   FLUSH            n * (name); fd: where they are               DONE
 *
 * To an intake worker STOP says that the names of the VALIDATE under way are too many: it answers
 * with VALIDATED at once, which fails. One that comes too late means nothing.
 *
 * A run that is stopped with `keep` in the midst of large files says in RAN how much is left of
 * them. Such a worker gets no further RUN: it holds what is left, frees it at its pace after
 * FREE_REMAINDERS, holds it again after STOP with `keep`, lets go of it after STOP without, and
 * ends when nothing is left.
 */
#pragma once

#include <stdatomic.h>

#include "base/lasting-identity.h"
#include "wire.h"

#define PROTOCOL_VERSION 7

/* Where a worker finds its end of the socket. */
#define PROTOCOL_FD 3

/* What a client speaks: the byte that comes with what a proxy begins with. */
enum protocol_speech { SPEECH_DBUS, SPEECH_VARLINK };

enum protocol_request {
	REQUEST_HELLO = 1,
	REQUEST_ADD_GROUPS,
	REQUEST_VALIDATE,
	REQUEST_FORGET,
	REQUEST_STAGE,
	REQUEST_MAKE_STAGING,
	REQUEST_OPEN_DIR,
	REQUEST_RESTORE,
	REQUEST_REMOVE_STAGING,
	REQUEST_LIST_STAGING,
	REQUEST_RUN,
	REQUEST_STOP,
	REQUEST_FLUSH,
	REQUEST_FREE_REMAINDERS,
};

enum protocol_answer {
	ANSWER_WELCOME = 64,
	ANSWER_ALIVE,     /* still at work */
	ANSWER_DIRS,      /* n * (number, path, identity) */
	ANSWER_ENTRIES,   /* n * (dir, name, identity), seq counting from 1 */
	ANSWER_VALIDATED, /* names, missing, entries, bytes, mount id, dev, discards, failure */
	ANSWER_RANGES,    /* n * (from, to, error) */
	ANSWER_STAGED, /* identity, failure; fd: the job's directory, if there is one and no failure
			*/
	ANSWER_OPENED, /* error; fd if 0 */
	ANSWER_DONE,   /* error */
	ANSWER_LISTING, /* n * (name, identity) */
	ANSWER_PROBLEM, /* path, what, error, is_error */
	ANSWER_KEPT,    /* n * (seq, error) */
	ANSWER_RAN,     /* error, entries, bytes, errors, skipped, cancelled, unflushed, remainder,
			 * strategy */
};

enum protocol_hello_flags { HELLO_PACED = 1 << 0 };
enum protocol_group_flags {
	GROUP_FD = 1 << 0,
	GROUP_NAMES_FD = 1 << 1,
	GROUP_LIST = 1 << 2,
	GROUP_RECORDS = 1 << 3
};
enum protocol_validate_flags { VALIDATE_VIEW = 1 << 0 };
enum protocol_open_flags { OPEN_AT = 1 << 0, OPEN_IDENTITY = 1 << 1 };
enum protocol_restore_flags { RESTORE_TO = 1 << 0 };
/* RUN_FLUSH_LATER: what is gone need not be durable yet, if RAN says so and FLUSH follows. */
enum protocol_run_flags { RUN_DIR_IDENTITY = 1 << 0, RUN_FLUSH_LATER = 1 << 1 };

/* Of one run. */
#define PROTOCOL_ITEMS 65536
#define PROTOCOL_PROBLEMS 1000

/* Names of one FLUSH. */
#define PROTOCOL_FLUSH 256

/* Shared by a worker and reclaimd. What the worker writes may be anything. */
struct worker_page {
	/* by the worker: of the run that is going on */
	_Atomic uint64_t entries, bytes;
};

/* A negative errno, or 0. */
void wire_put_error(struct wire_out *o, int error);
/* -4095 to 0; another value is an error of the message. */
int wire_get_error(struct wire_in *in);

/* A type that is none of S_IFMT is an error of the message. */
void wire_put_identity(struct wire_out *o, const struct lasting_identity *id);
struct lasting_identity wire_get_identity(struct wire_in *in);

/* A name that can only mean one thing in one directory: 1 to 255 bytes, no slash, not . or .. */
bool is_component(const char *name);
/* Anything else is an error of the message. Valid until the next receive. */
const char *wire_get_component(struct wire_in *in);
