/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-worker processes as reclaimd sees them: whatever touches a user's tree is asked of one.
 *
 *   role     lives as                   may
 *   intake   the submitter              resolve, validate, rename into staging and back
 *   delete   the submitter, confined    unlink and truncate beneath one directory by Landlock
 *
 * A worker drops its credentials for good before it reads its first request. Requests are answered
 * by callbacks on the event loop; a worker does one at a time, more are queued. When it dies, hangs
 * or says what makes no sense, it is killed, and each request that is not answered yet is, with
 * -EPIPE; nothing of it may be taken for done. Workers are not to be trusted more than their
 * submitter: what they say is checked (sizes, numbers, descriptors), and only concerns their own
 * jobs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "store/store.h"
#include "wire/protocol.h"
#include "base/error-table.h"

struct worker;
struct pacers;
struct debt_hold;

enum worker_role { WORKER_INTAKE, WORKER_DELETE };

/* The authority that something is done with. */
struct credentials {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary; the submitter's, malloc'ed */
	size_t n_groups;
};

struct worker_options {
	const char *program; /* path of reclaim-worker, or what worker_program_pin gave */
	enum worker_role role;
	const struct credentials *credentials; /* copied */
	/* WORKER_DELETE: the directory; or, of one that is only to free large files, one of those.
	 * Duplicated. */
	int landlock_fd;
	struct pacers *pacers; /* WORKER_DELETE: what paces it, or NULL */
	/* WORKER_DELETE, root: how long MooseFS's master may be held up; 0: not at all. */
	uint64_t stall_usec;
	const char *const *protect; /* further protected paths (I8), NULL-terminated, or NULL */
	/* It is gone (after all requests were answered with -EPIPE). worker_free may be called in
	 * it. */
	void (*gone)(struct worker *w, const char *how, void *userdata);
	void *userdata;
	/* Nothing is asked of it any more, which is later, or never, than that it has ended: a
	 * process that waits for a filesystem cannot be killed. Then, once, that it has. Neither is
	 * called if worker_new fails. */
	void (*left)(void *userdata);
	void (*reaped)(void *userdata);
	void *process_userdata;
};

/* Opens the program at `path`, and makes a path in its stead that leads to this very file as long
 * as *ret_fd is open: a package that is upgraded brings another one, which need not understand what
 * this reclaimd says to it. The caller frees and closes both. */
int worker_program_pin(const char *path, int *ret_fd, char **ret_program);

/* Starts a worker, which is the caller's to free. Returns 0, or a negative errno of making its
 * socket, page and pipe, of starting the process, or of pacers_attach. */
int worker_new(struct worker **ret, sd_event *event, const struct worker_options *o);
/* Ends the process: at once if it does nothing, else when it has stopped, by force after a second.
 * Callbacks of open requests are called with -ECANCELED before it returns. NULL is accepted. */
struct worker *worker_free(struct worker *w);
/* It has ended already; `gone` will be called in a moment. */
bool worker_ended(const struct worker *w);
/* Requests not answered yet. */
unsigned worker_busy(const struct worker *w);
/* Stops reading its answers, and goes on: for a caller that cannot take more at the moment. The
 * worker waits as soon as the socket is full, and does not count as hung. */
void worker_hold(struct worker *w, bool hold);
/* The Landlock ABI that confines a delete worker; 0: this kernel has none; -1: not known yet. */
int worker_landlock_abi(const struct worker *w);

/* What is asked of a worker returns 0, and its last callback is called exactly once, after the
 * function has returned; or a negative errno, and no callback is called: -EPIPE if the worker has
 * ended, -EINVAL if it has the other role, -ENOMEM, -EMSGSIZE, and those that are named.*/

/* ---- intake ------------------------------------------------------------------------------- */

struct intake_failure {
	enum error_cause cause;
	const char *text; /* "PATH: WHY", escaped */
};

struct intake_callbacks {
	/* What was found, in chunks: directories before their entries. All texts are valid in the
	 * call. */
	void (*dir)(const struct intake_dir *d, void *userdata);
	/* seq counts from 1 over the session; state is ENTRY_WAITING. */
	void (*entry)(const struct entry_record *e, void *userdata);
	/* r: 0; or that of the cause, and why; or what has become of the worker, and NULL. Then
	 * nothing has been done. */
	void (*validated)(int r, const struct intake_validated *l, const struct intake_failure *f,
			  void *userdata);
};

/* Looks at everything once, as the submitter, and keeps the list for worker_stage. `session` is the
 * caller's number for it. rmdir: only empty directories are to be among them. view_fd: the mount
 * table of the process that asks, or -1 if that is reclaimd. All groups must be on one mount
 * (-EXDEV). */
int worker_validate(struct worker *w, uint64_t session, const struct intake_group *groups, size_t n,
		    bool rmdir, int view_fd, const struct intake_callbacks *cb, void *userdata);

/* From a callback of worker_validate: what it validates is not wanted any more, and the callback
 * `validated` is to come soon. */
void worker_validate_stop(struct worker *w);

/* Forgets a session, before anything else that is asked of the worker is begun. */
int worker_forget(struct worker *w, uint64_t session);

struct staged_callbacks {
	/* Names from..to are in staging now, or (error < 0) stay where they are. */
	void (*range)(uint64_t from, uint64_t to, int error, void *userdata);
	/* r < 0: stopped at a name that the submitter may not remove or that is not any more what
	 * it was; what had been moved is back in its place, or is named by range. dirfd is the
	 * directory they are in, if m->wants_dir, for the callee to close; or -1. */
	void (*staged)(int r, int dirfd, const struct lasting_identity *staging_id,
		       const struct intake_failure *f, void *userdata);
};

/* Renames each name of a validated session to its number, in the new directory m->name beneath
 * m->staging (the submitter's own, see worker_make_staging). Where it cannot be renamed though it
 * may be deleted (EXDEV, a directory without write permission, a mount above), it stays and range
 * says why. */
int worker_stage(struct worker *w, const struct stage_message *m, const struct staged_callbacks *cb,
		 void *userdata);

/* root's intake worker only: makes sure of <mount>/.reclaim (root's, 0711) and <mount>/.reclaim/UID
 * (0700, the submitter's own) and opens the latter. m->mount_path must be the root of the mount
 * m->mnt_id. fd is the callback's, -1 if r < 0: -EROFS, -EXDEV (something else is there), -EPERM
 * (.reclaim is not ours), -ENOENT (only without m->make), -EBUSY (the mount is another daemon's,
 * and m->holder is given)... */
int worker_make_staging(struct worker *w, const struct make_staging_message *m,
			void (*made)(int r, int fd, void *userdata), void *userdata);

/* Opens a directory (O_PATH) as the submitter: an absolute path without symbolic links, or, if
 * at_fd >= 0, one component beneath it. id: it must still be that one (-ESTALE), or NULL. The
 * descriptor is the callback's; -1 if r < 0. */
int worker_open_dir(struct worker *w, int at_fd, const char *path,
		    const struct lasting_identity *id,
		    void (*opened)(int r, int fd, void *userdata), void *userdata);

/* The same with an absolute path, if that is on the filesystem with this lasting id, which is not 0
 * (-ESTALE). */
int worker_open_on_filesystem(struct worker *w, const char *path, uint64_t fsid,
			      void (*opened)(int r, int fd, void *userdata), void *userdata);

/* The same beneath a staging directory of another host, with an identity that is known from there:
 * an fsid of 0 in it is not compared. */
int worker_open_job_dir(struct worker *w, int staging_fd, const char *name,
			const struct lasting_identity *id,
			void (*opened)(int r, int fd, void *userdata), void *userdata);

/* Puts one thing back, never over another (renameat2 NOREPLACE): where it was, or, if m->to >= 0,
 * into that directory. m->view is -1 if reclaimd itself asks. r is 0 if the thing is there now,
 * also if it was before. Otherwise: -ENOENT   it is neither in staging nor where it was to go
 *   -EUCLEAN  the same, and something else has its number in staging
 *   -ENODEV   the same, but the filesystem may be another one
 *   -EEXIST   something has its name there
 *   -ESTALE   the directory that it was in is gone or is another one
 *   -EROFS    the process that asks may not write there */
int worker_restore(struct worker *w, const struct restore_message *m,
		   void (*restored)(int r, void *userdata), void *userdata);

/* Removes the job's own directory in staging, if it is empty. */
int worker_remove_staging(struct worker *w, int staging_fd, const char *job_dir,
			  void (*removed)(int r, void *userdata), void *userdata);

/* What is in the submitter's staging directory: job directories, and what is in each, for recovery.
 * name is "JOBDIR" or "JOBDIR/SEQ". */
int worker_list_staging(struct worker *w, int staging_fd, const char *job_dir /* NULL: itself */,
			void (*entry)(const char *name, const struct lasting_identity *id,
				      void *userdata),
			void (*listed)(int r, void *userdata), void *userdata);

/* The same, without looking at each, and no more than so many (-E2BIG: there are): id is all zero.
 */
int worker_list_names(struct worker *w, int staging_fd, const char *job_dir, uint64_t most,
		      void (*entry)(const char *name, const struct lasting_identity *id,
				    void *userdata),
		      void (*listed)(int r, void *userdata), void *userdata);

/* root's intake worker only: what tells the filesystem of a mount from all others, on every host:
 * the name of one entry, made at random by the host that asks first. */
int worker_filesystem_id(struct worker *w, const struct filesystem_id_message *m,
			 void (*entry)(const char *name, const struct lasting_identity *id,
				       void *userdata),
			 void (*listed)(int r, void *userdata), void *userdata);

/* root's intake worker only. Says beside the staging directories of m->host, which must be there,
 * that other hosts may help with the job; or what has been said (r 0; -ENOENT: nothing, or that it
 * is withdrawn; -EPERM: not by root); or withdraws it, so that there is still something that tells
 * of it (r 0; -ENOENT: there was nothing); or removes it, where nothing to remove is no error. What
 * mark has is valid in the call; its directory has an fsid of 0. */
int worker_write_mark(struct worker *w, const struct write_mark_message *m,
		      void (*written)(int r, void *userdata), void *userdata);
int worker_read_mark(struct worker *w, const struct mark_place *m,
		     void (*read)(int r, const struct mark_message *mark, void *userdata),
		     void *userdata);
int worker_withdraw_mark(struct worker *w, const struct mark_place *m,
			 void (*withdrawn)(int r, void *userdata), void *userdata);
int worker_remove_mark(struct worker *w, const struct mark_place *m,
		       void (*removed)(int r, void *userdata), void *userdata);
/* ---- delete ------------------------------------------------------------------------------- */

struct run_progress {
	uint64_t entries, bytes; /* of this run, so far */
};

/* A unit of a job, beneath the job's directory: names in a directory, or a slice of it. */
struct run_unit {
	const char *path;           /* of the directory; "" is the job's */
	struct lasting_identity id; /* which it must be (-ESTALE); fsid 0: of any filesystem */
	uint64_t slice, slices;     /* slices > 0: this one of so many, and no names */
};

/* One that is given away: what a run of that unit is to be asked for. */
struct given_unit {
	struct run_unit unit;
	const struct given_name *names;
	size_t n;
};

struct run_callbacks {
	void (*problem)(const struct problem_record *p, void *userdata);
	/* This name is gone (error 0), missing (-ENOENT) or still there. Told only for names that
	 * are not gone; what is not told, is. Of a unit's names none is told, gone or not. */
	void (*kept)(uint64_t seq, int error, void *userdata);
	void (*ran)(int r, const struct run_result *result, void *userdata);
	bool may_wait; /* what is gone need not be durable yet: see run_result.unflushed */
	bool owes;     /* what was gone before in that directory is not */
	bool rmdir;    /* names go only if they are empty directories (-ENOTEMPTY) */
	/* A large file, which took so many bytes, has no name any more and is being freed by the
	 * worker, as long as its lease is on fd, which is the callee's. Nothing of fd is checked.
	 * NULL: it is of no interest. */
	void (*shrinks)(int fd, uint64_t bytes, void *userdata);
	/* The worker will not touch that unit, nor the directories that it lies in: names that stay
	 * for that alone are told with -EINPROGRESS, and a later run of them takes what is left.
	 * Never more units than worker_demand asked for. All is valid in the call. NULL: the run
	 * gives nothing away. */
	void (*given)(const struct given_unit *u, void *userdata);
	/* Of a unit: dirfd is then the job's directory. Or NULL. */
	const struct run_unit *unit;
	/* From then on (boot_usec) nothing more is deleted, whatever has become of this process or
	 * of the worker meanwhile: ran comes with cancelled set. worker_until puts it off. 0: there
	 * is no such time. */
	uint64_t until_usec;
};

/* Deletes names in dirfd (the directory of landlock_fd or one beneath it), each only if it still is
 * what it was; at most 65,536 at a time. dir_id: the directory itself must still be that one
 * (-ESTALE), or NULL; of a unit's run an fsid of 0 in identities is not compared. unmoved_usec:
 * unless 0, all that was changed or moved since, and others of the same names, is as if it were not
 * there (-ENOENT). */
int worker_run(struct worker *w, int dirfd, const struct lasting_identity *dir_id,
	       uint64_t unmoved_usec, const char *display, const struct run_item *items, size_t n,
	       const struct run_callbacks *cb, void *userdata);

/* Other hosts would take so many units of the run that is going on, instead of what was said
 * before. Nothing if there is none, or it does not give. */
void worker_demand(struct worker *w, unsigned units);

/* Another end for the run with that userdata, if it is going on, and has one. */
void worker_until(struct worker *w, const void *userdata, uint64_t usec);

/* Makes durable what runs that have ended have removed in these directories of one, at most
 * WORKER_FLUSH, in the order in which they ended. Goes on beside a run; but one at a time, else
 * -EBUSY. */
#define WORKER_FLUSH 256
int worker_flush(struct worker *w, int dirfd, const char *const *names, size_t n,
		 void (*flushed)(int r, void *userdata), void *userdata);
/* When the next may be made, on now_usec's clock, for the sake of foreground I/O; 0: at any time.
 */
uint64_t worker_flush_from(const struct worker *w);

/* A hold on its devices until what it leaves to be written back is paid (pacers.h), the caller's;
 * NULL where nothing is paced. */
struct debt_hold *worker_debt(struct worker *w);

/* Stops the run at the next entry; its ran callback comes with cancelled set. What is left of large
 * files that are being freed is held by the process: if there is any (remainder_bytes), it is of no
 * other use any more, and ends when nothing is left, which `gone` is told as any other end. */
void worker_stop(struct worker *w);

/* Of a worker that gets no run: it holds what is left of this large file, too, whose descriptor has
 * our lease. Returns 0 or a negative errno. */
int worker_remainder_take(struct worker *w, int fd);

/* Of a worker that holds what is left: it is freed at its pace; it is held again, or let go of.
 * What is freed adds to the bytes of worker_progress. */
void worker_remainders_free(struct worker *w);
void worker_remainders_stop(struct worker *w, bool keep);

/* Another callback is told of its end from now on. */
void worker_give(struct worker *w, void (*gone)(struct worker *w, const char *how, void *userdata),
		 void *userdata);

/* Speed wins over latency for it, and for all on its devices, or not any more. */
void worker_urgent(struct worker *w, bool on);

/* Of the run that is going on. Cheap. */
void worker_progress(const struct worker *w, struct run_progress *ret);
