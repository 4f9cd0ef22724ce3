/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Why something that reclaimd was asked for is refused or has failed, and what follows from that
 * everywhere: the name of the error on D-Bus and Varlink, a sentence, libreclaim's errno,
 * reclaimctl's exit status, and whether a retry helps. org.reclaimd1(5), reclaim(3) and
 * reclaimctl(1) say the same, which a test compares.
 *
 * The code that decides says the cause. Where only an errno of the kernel is known,
 * error_from_errno is the one place that makes a cause of it. */
#pragma once

/* Before each name on D-Bus. */
#define ERROR_PREFIX "org.reclaimd1.Error."

/* reclaimctl(1), "Exit status". */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PARTLY = 3,
	EXIT_NOT_AUTHORIZED = 4,
	EXIT_NO_DAEMON = 5,
};

/* The numbers are also those of messages between reclaimd and its workers. */
enum error_cause {
	ERROR_NONE, /* no failure; not in the table */
	/* Of what is named, as a worker finds it. */
	ERROR_PROTECTED,
	ERROR_NOT_AUTHORIZED,
	ERROR_CROSSES_MOUNT,
	ERROR_INVALID_PATH,
	ERROR_NO_SUCH_PATH,
	ERROR_IDENTITY_CHANGED,
	ERROR_UNSUPPORTED,
	ERROR_LIMIT_EXCEEDED,
	ERROR_FAILED,
	ERROR_PINNED,
	ERROR_WORKER_LAST = ERROR_PINNED,
	/* Of calls and jobs. */
	ERROR_NO_SUCH_JOB,
	ERROR_WRONG_STATE,
	ERROR_INVALID_ARGUMENT,
	ERROR_BUSY,
	ERROR_CAUSES, /* how many there are, with ERROR_NONE */
};

enum error_retry {
	RETRY_NO,    /* the same is refused until something else is changed */
	RETRY_ANEW,  /* what was known of files or jobs is out of date: find out, then ask again */
	RETRY_LATER, /* the same may succeed in a while */
};

struct error_entry {
	const char *name;
	const char *text; /* a sentence, without what it is about */
	int error;        /* libreclaim's, negative */
	int exit_status;  /* reclaimctl's */
	enum error_retry retry;
};

/* Any cause but ERROR_NONE. */
const struct error_entry *error_entry(enum error_cause cause);

/* By the name on D-Bus, with its prefix; one that only a newer daemon has is ERROR_FAILED, NULL and
 * what is none of reclaimd's ERROR_NONE. */
enum error_cause error_by_bus_name(const char *name);

/* Whose errno it is. */
enum error_place {
	/* The kernel's about what the caller has named. */
	ERROR_AT_PATH,
	/* The engine's about how a path is written: -EPERM is what is never deleted. */
	ERROR_AT_SPELLING,
	/* A quota's for what callers may have at the same time. */
	ERROR_AT_QUOTA,
	/* Of reclaimd itself: its memory, its processes, the job store and its disk. Whatever that
	 * is, the caller has no part in it. */
	ERROR_AT_DAEMON,
};

/* Of a negative errno. Never ERROR_NONE. */
enum error_cause error_from_errno(int error, enum error_place place);
