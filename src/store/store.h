/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The job store: what has been accepted and how far it has come, in SQLite (WAL, synchronous=FULL)
 * in the state directory. What a call here has returned 0 for is durable once its transaction is.
 *
 *   jobs      one row each; finished ones stay as history
 *   entries   the names a job consists of: where each was and who it is (I3 of SECURITY.md)
 *   problems  what could not be deleted, and why; the first thousand of a job, up to 256 KiB
 *
 * Not thread-safe: one thread writes, and another one may read (see store-queue.h). All times are
 * microseconds of CLOCK_REALTIME, 0 for "not". Strings that are handed out live until the callback
 * returns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lasting-identity.h"

struct store;

enum job_state {
	JOB_ACCEPTED, /* recorded; names may be on their way into staging */
	JOB_HELD,     /* out of the way, and still to be had back */
	JOB_QUEUED,
	JOB_RUNNING,
	JOB_PAUSED,
	JOB_DONE, /* from here on: finished */
	JOB_PARTIAL,
	JOB_FAILED,
	JOB_CANCELLED,
	JOB_RESTORED,
	JOB_STATES
};

enum job_kind {
	JOB_DELETE,
	JOB_RMDIR = 2, /* deletes directories only if they are still empty */
	JOB_KINDS
};

enum job_priority { PRIORITY_LOW, PRIORITY_NORMAL, PRIORITY_HIGH };

enum entry_state {
	ENTRY_WAITING, /* where it was; or on its way into staging: look at both places */
	ENTRY_STAGED,
	ENTRY_GONE,
	ENTRY_KEPT, /* not deleted: the job's problems say why */
	ENTRY_RESTORED,
	ENTRY_LOST, /* another process removed it from staging, so it could not be restored */
	ENTRY_STATES
};

/* Everything about a job. */
struct job_record {
	uint64_t id; /* 0 for a new one: the store chooses */
	uint8_t uuid[16];
	enum job_kind kind;
	enum job_state state, resume_state; /* resume_state: what a paused job goes back to */
	enum job_priority priority;
	uid_t uid;
	gid_t gid;
	const gid_t *groups; /* as the kernel gave them at submit */
	size_t n_groups;
	const char *origin;  /* "submit", "spool:/backups/.trash", "policy:NAME", ... */
	const char *path;    /* of the first entry, as people know it */
	const char *mount;   /* mount point; of the staging directory or the entries */
	const char *staging; /* name of the job's own directory below <mount>/.reclaim/<uid>; "" if
			      * in place */
	const char *host; /* below <mount>/.reclaim/@<host>/<uid>, that of a fleet; "": of none */
	const char *inplace; /* why in place, or "" */
	const char *message; /* how it ended or why it waits, or "" */
	const char *strategy;
	struct lasting_identity staging_id; /* of the job's own directory; ino is 0 if unknown */
	uint64_t names;                     /* entries in the table */
	uint64_t entries, bytes;            /* found so far below them; 0: not known */
	uint64_t entries_done, bytes_freed, errors, skipped;
	uint64_t created_usec, held_until_usec, by_usec, started_usec, finished_usec;
	uint32_t attempts; /* interruptions in a row without progress */
	/* What other hosts of a fleet have done of it: parts that have ended, and what was in all.
	 */
	uint64_t others_units, others_entries, others_bytes;
	/* Not on record; 0 and false as it is read. Of a job that runs: what it does in a second,
	 * and when it will have ended at that rate, 0 if that is not known. */
	uint64_t rate_bytes, rate_entries, expected_end_usec;
	bool settling; /* running, and all is deleted: what that leaves is being written back */
	uint64_t owed_bytes; /* so much of that there still is on its devices */
	/* Parts of it that no host of the fleet has begun with, and that other hosts are at. */
	uint64_t units_open, others_claimed;
};

struct entry_record {
	uint64_t seq; /* 1, 2, ... within the job; also its name in the job's staging directory, in
			 decimal */
	uint64_t dir; /* number of its directory, see store_dir_add */
	const char *name;
	struct lasting_identity id;
	enum entry_state state;
};

struct problem_record {
	const char *path; /* raw bytes */
	const char *what;
	int error; /* negative errno, or 0 */
	bool is_error;
};

/* Opens or makes the store in a directory (the state directory: ours, and writable by no other
 * user, else -EPERM; -EBUSY where another process has it). What is there is checked; what is
 * damaged, empty, or of a newer version is set aside under another name, and *ret_set_aside
 * (malloc'ed, else NULL) says what was found, in words, and where it is now: also where the new one
 * then cannot be opened, because the next start finds nothing to tell of. An error of the disk sets
 * nothing aside. Returns 0 or a negative errno with *ret_why (static) in words.
 *
 * An older copy of the file, put in its place while nothing runs, is what it is: jobs submitted
 * since are not known, their numbers are given again, and entries deleted since are still listed.
 * Hence a directory in staging needs a name that is not the job's number alone, and every entry is
 * compared with its identity before anything is done to it. */
int store_open(struct store **ret, const char *dir, char **ret_set_aside, const char **ret_why);
/* NULL is accepted; returns NULL. */
struct store *store_close(struct store *s);
/* Opens a second connection to an open store, which only reads, for another thread. It sees what is
 * committed, and neither of the two waits for the other. Close it before the store. Returns 0 or a
 * negative errno. */
int store_open_reader(struct store **ret, struct store *s);

/* Transactions. Everything below may be called inside or outside one; outside, each call is its
 * own. store_commit returns 0 only when it is durable; on failure all of it is undone. -ENOSPC,
 * -EIO, -EROFS tell what the disk says. A commit that failed because the disk did not confirm it
 * may be found done after a crash that follows at once, but never in part. */
int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s);
/* Whether a commit is durable when it returns, as it is from the start; else it is with the next
 * one that is, which fails if it is not. Between transactions. Returns 0 or a negative errno, and
 * then nothing has changed. */
int store_set_durable(struct store *s, bool durable);

/* Room for the ends of what was accepted. As long as the filesystem has some, a reserve is kept in
 * the directory. Where a transaction has failed with -ENOSPC, store_room_make makes some outside of
 * one: by taking the log back into the database at attempt 0, and by giving up the reserve at
 * attempt 1. Returns whether there was anything left to try. From then on the store is short of
 * room, and nothing new should be accepted, until store_room_check finds room for a reserve again.
 * Where there is room, but the reserve cannot be made for another reason, the store does without;
 * store_unreserved then returns that, a negative errno, else 0. */
bool store_room_make(struct store *s, unsigned attempt);
void store_room_check(struct store *s);
bool store_is_short(const struct store *s);
int store_unreserved(const struct store *s);

/* A new job; r->id is ignored. */
int store_job_add(struct store *s, const struct job_record *r, uint64_t *ret_id);
/* Forgets a job that was never answered for, with all it had. -ENOENT if there is none. */
int store_job_remove(struct store *s, uint64_t id);
/* Sets everything that may change after submit: all but who, what and when it was submitted, and
 * staging_id. What has finished stays so. */
int store_job_update(struct store *s, const struct job_record *r);
/* Moves the end of the undo window of every job that has not begun to delete by `usec`. */
int store_windows_move(struct store *s, int64_t usec);
/* Sets staging_id. A job that has none may have names in staging that are not marked as such: it is
 * set in the transaction that marks them. */
int store_job_staged(struct store *s, uint64_t id, const struct lasting_identity *staging_id);
/* -ENOENT if there is none. */
int store_job_get(struct store *s, uint64_t id,
		  int (*job)(const struct job_record *r, void *userdata), void *userdata);

/* Copies a record with its texts, which are one piece of memory that the caller frees; the groups
 * are left out. Returns 0 or -ENOMEM. */
int job_record_copy(struct job_record *ret, const struct job_record *r, char **ret_texts);

struct job_filter {
	uint32_t states; /* 1 << enum job_state; 0 for all finished states */
	bool one_uid;
	uid_t uid;
	uint64_t since_id; /* ids from here on */
	uint64_t limit;    /* 0: none */
};

/* Calls `job` for each job that the filter lets through, in the order of ids. The states must be
 * either all unfinished or all finished; 0 means all finished states. If a callback returns a value
 * other than 0, the walk ends and returns that value. */
int store_jobs_each(struct store *s, const struct job_filter *f,
		    int (*job)(const struct job_record *r, void *userdata), void *userdata);

/* The same for finished jobs only, and faster: the record has the owner, the times and the numbers.
 * The only texts are origin and path; the others are empty. States of unfinished jobs in the filter
 * match nothing. */
int store_history_each(struct store *s, const struct job_filter *f,
		       int (*job)(const struct job_record *r, void *userdata), void *userdata);

/* The directory that entries of a job were in: a path to find it by, and its identity. The walk
 * goes over the directories with the numbers from..to (inclusive). */
int store_dir_add(struct store *s, uint64_t job, uint64_t dir, const char *path,
		  const struct lasting_identity *id);
int store_dirs_each(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		    int (*dir)(uint64_t dir, const char *path, const struct lasting_identity *id,
			       void *userdata),
		    void *userdata);

/* Entries, at least 200,000 a second: prepared statements, one row each. */
int store_entry_add(struct store *s, uint64_t job, const struct entry_record *e);
/* All entries of the job with a seq from..to (inclusive). */
int store_entries_set(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		      enum entry_state state);
/* From seq `from` on, at most `limit` (0: all). */
int store_entries_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		       int (*entry)(const struct entry_record *e, void *userdata), void *userdata);

/* The same for the entries of state ENTRY_KEPT only, however many others there are. */
int store_kept_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		    int (*entry)(const struct entry_record *e, void *userdata), void *userdata);

/* Of jobs from spools that were cancelled or restored, or are being so: who each name is that was
 * put back, or stayed where it was, and when its job ended (0: it has not). */
int store_returned_each(struct store *s,
			int (*entry)(const struct lasting_identity *id, uint64_t finished_usec,
				     void *userdata),
			void *userdata);

/* Records a problem of a job, unless the job has a thousand of them or 256 KiB of paths and texts.
 */
int store_problem_add(struct store *s, uint64_t job, const struct problem_record *p);
int store_problems_each(struct store *s, uint64_t job, uint64_t offset, uint64_t limit,
			int (*problem)(const struct problem_record *p, void *userdata),
			void *userdata);

/* The largest number of those in it, or 0. */
int store_history_last(struct store *s, uint64_t *ret_id);

/* How much history is kept. A job of the account with the most history is removed first, and the
 * oldest job of an account first. Jobs whose names were put back into spools have accounts of their
 * own. */
struct history_limits {
	uint64_t before_usec; /* jobs that finished before this time are removed */
	uint64_t jobs, bytes; /* of all accounts together; one account may have half of each */
};

/* Sets the limits. A store that was just opened has none. */
void store_history_limit(struct store *s, const struct history_limits *limits);

/* Does the next step of removing the jobs that exceed the limits. If the filesystem is full,
 * removes more, until the reserve can be made again or about 1 MiB of history is left. To be called
 * outside of a transaction, after jobs have finished and until it returns 0. Returns 1 if there may
 * be more to do, or a negative errno. What it has removed may be there again after a crash. */
int store_history_step(struct store *s);

/* Removes history because the filesystem is full, until there is room for the reserve and as much
 * again. To be called outside of a transaction. Returns true if there is more room than before. */
bool store_history_make_room(struct store *s);

/* A few words that are to last: whether all pauses. *ret is malloc'ed; -ENOENT if it was never set.
 */
int store_meta_set(struct store *s, const char *key, const char *value);
int store_meta_get(struct store *s, const char *key, char **ret);

const char *job_state_name(enum job_state s);
const char *job_kind_name(enum job_kind k);
const char *job_priority_name(enum job_priority p);
const char *entry_state_name(enum entry_state s);
