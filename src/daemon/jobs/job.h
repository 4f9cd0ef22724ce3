/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An unfinished job as the daemon holds it, and the table of all of them.
 *
 * Memory is ahead of the store: a change is made here and posted (job_save); what has been posted
 * first is durable first. What is answered to a client waits for the durable part. Names are not
 * held here but read from the store in chunks.
 *
 * Each unfinished job has a struct job_stub, which is what scheduling needs. Its struct job, with
 * the whole record and the state of whatever works for it, exists only while something happens to
 * the job. job-rest.h frees it and reads it again from the store.
 *
 * What goes on with a job is its phase (job-life.h), and only job_enter changes it.
 */
#pragma once

#include <sys/queue.h>

#include "base/macros.h"
#include "daemon/submitters/staging-area.h"
#include "due-heap.h"
#include "job-life.h"
#include "job-rate.h"
#include "sharing.h"
#include "store/store.h"

struct remainder;
struct settlement;
struct shrinking;
struct shrinking_file;
struct job_run;
struct pacing_window;
struct submit;
struct wake;
struct withdrawal;

/* Errnos that entries are counted by. Of Linux there are fewer. */
#define ERROR_KINDS 160

SLIST_HEAD(shrinking_files, shrinking_file);

/* The part of an unfinished job that always stays in memory: at most 200 bytes, places in the table
 * and in the heap of times included, because users may have a hundred thousand jobs each. */
struct job_stub {
	uint64_t id;
	uint8_t uuid[16];
	struct jobs *jobs;
	struct submitter *submitter;
	struct staging_area *area;
	struct job *job;   /* NULL while the job rests */
	struct wake *wake; /* while the record is being read; else NULL */
	/* held_until_usec of the record, which the store may be behind with. Not kept up to date
	 * while `job` is set, like `phase`. */
	uint64_t held_until_usec;
	struct due due; /* while the job waits for a time: undo-deadline.h */
	TAILQ_ENTRY(job_stub) in_order, in_queue;
	struct job_stub *next_same_hash;
	enum job_phase phase : 8;
	enum job_priority priority : 8;
	enum stub_place {
		STUB_NOWHERE,
		STUB_QUEUED, /* in its staging area's queue */
		STUB_TURN,   /* in jobs->turns */
	} place : 8;         /* which list in_queue is for */
	bool started;        /* true if the job has begun to delete; an undo window is over then */
	bool takes_back;     /* true if its names are to go back, as its record says */
	bool has_turn;       /* true if it is counted in jobs->n_turns */
};

struct job {
	struct job_stub *stub;
	/* Strings are the job's own but for mount and host, which are the staging area's; staging
	 * is "" or uuid_text; groups are the submitter's. */
	struct job_record r;
	char uuid_text[33];
	enum job_phase phase;  /* r.state is its state */
	bool unsaved;          /* the store could not take the last change */
	int unmarked;          /* why it is not known which names were moved; 0: it is */
	bool told;             /* that there is such a job has been announced */
	unsigned saving;       /* changes posted and not answered yet */
	bool refused;          /* taken out: it goes when none of these is left */
	uint64_t retry_usec;   /* by deadline_clock: not before is it tried again; 0: any time */
	uint64_t changed_usec; /* when progress was told last */
	struct job_rate rate;  /* as of then, while it runs */
	struct jobs *jobs;
	struct submitter *submitter;
	struct staging_area *area;
	struct job_run *run;
	struct submit *submit;            /* while its names are being moved out of the way */
	struct remainder *remainder;      /* of large files, or NULL */
	struct shrinking_files shrinking; /* those of them that are kept */
	/* What works for it just now, for job_snapshot: a worker that deletes its names, or NULL;
	 * and one that frees its remainder, or NULL, with the bytes of that which the record has.
	 */
	struct worker *deletes, *frees;
	/* What pays for it when all is deleted, or NULL. */
	struct settlement *settles;
	uint64_t frees_from_bytes;
	bool silent; /* its run gets no further: its filesystem may hang */
	/* Other hosts of a fleet may have a part of it, or have had one before the daemon was
	 * started; marked: its mark was made since. And what sees to it that they have
	 * none any more, or NULL. */
	bool shared, marked;
	struct withdrawal *withdrawal;
	/* Of what asked for its names not to be moved any further while it is submitted, or NULL:
	 * called when they have been, or when it has been refused, and is finished then. */
	void (*stopped)(struct job *j, void *userdata);
	void *stopped_userdata;
	TAILQ_ENTRY(job) awake;
	LIST_ENTRY(job) may_rest; /* if rest_asked */
	bool rest_asked;
};

TAILQ_HEAD(awake_list, job);
LIST_HEAD(rest_list, job);

struct job_table {
	struct job_list in_order; /* of ids */
	struct job_stub **buckets;
	size_t n_buckets, n;
	struct awake_list awake; /* jobs that do not rest */
	size_t n_awake;
};

void job_table_add(struct job_table *t, struct job *j);
/* Removes a job that does not rest, and its stub. */
void job_table_remove(struct job_table *t, struct job *j);
struct job_stub *job_table_find(const struct job_table *t, uint64_t id);
/* Returns the job with this number if it does not rest; NULL if it rests or there is none. */
struct job *job_table_find_awake(const struct job_table *t, uint64_t id);
/* Returns the first stub with this number or a larger one, or NULL. */
struct job_stub *job_table_from(const struct job_table *t, uint64_t id);
void job_table_done(struct job_table *t);

LIST_HEAD(remainder_list, remainder);
LIST_HEAD(mark_removal_list, mark_removal);

/* The job that was staged last, and its directory: if it begins at once, nothing has to open that
 * again. Of one job at a time: a descriptor pins a filesystem, only until the schedule has been
 * gone through. */
struct at_hand {
	const struct job *job; /* NULL: none */
	int dirfd;             /* -1: none */
};

/* All jobs, and what is counted of them. */
struct jobs {
	struct context *context;
	struct submitters *submitters;
	struct job_table table;
	struct due_heap waiting;   /* for a time */
	struct rest_list may_rest; /* job-rest.h */
	struct job_list turns;     /* stubs that wait for their turn to be woken: job-rest.h */
	unsigned n_turns;          /* jobs whose turn it is */
	bool unreadable; /* true if the last record that was to be read could not be read */
	sd_event_source *rest_source;
	struct remainder_list remainders;
	struct mark_removal_list mark_removals; /* withdrawal.c */
	unsigned n_mark_removals;
	struct shrinking *shrinking; /* NULL: no large file is kept */
	struct at_hand at_hand;
	int64_t clock_offset; /* by which windows are reckoned: deadline_clock */
	sd_event_source *deadline_timer;
	sd_event_source *schedule_source; /* deferred: one choice for many changes */
	sd_event_source *boost_timer;     /* while something runs */
	sd_event_source *history_timer;
	sd_event_source *staging_timer;  /* while staging could not be listed for some jobs */
	void (*begin)(struct job *j);    /* what schedule.h calls: job-run.h */
	void (*due)(struct job_stub *s); /* what undo-deadline.h calls: schedule.h */
	void (*turn)(struct job *j);     /* what job-rest.h calls for a job whose turn it is */
	void (*staging_changed)(struct jobs *jobs); /* job-recover.h, for what waits for staging */
	/* In a pacing window that pauses. */
	void (*rest)(struct jobs *jobs); /* what schedule.h calls: boost.h */
	/* What pacing-window.h and boost.h call, for what may run now, and may not: jobs.h. */
	void (*window_changed)(struct jobs *jobs);
	struct pacing_window *window;  /* NULL: none is looked for */
	const struct sharing *sharing; /* NULL: jobs are not shared with other hosts */
	struct sharing_state fleet;
	bool paused;
	unsigned running; /* jobs that delete */
	unsigned waking;  /* jobs that schedule.c has chosen, and whose record is being read */
	uint64_t views;   /* counts those of callers, for their numbers */
	uint64_t served;  /* counts the jobs that have begun, for fairness */

	uint64_t counts[JOB_STATES];
	uint64_t entries_freed, bytes_freed, orphans;
	uint64_t entries_told, bytes_told; /* what running jobs have done, too */
	uint64_t finished[JOB_STATES];     /* since we began, by how they ended */
	uint64_t finished_last;            /* no job with a larger number has finished; 0: none */
	uint64_t interruptions;            /* of jobs, by workers that died or could not begin */
	unsigned settling;            /* jobs whose names are gone, and whose debt is being paid */
	uint64_t errors[ERROR_KINDS]; /* by errno; 0: all others */
};

/* Walks the jobs that do not rest. The loop may free this one, and no other. */
#define JOBS_FOREACH_SAFE(j, next, jobs)                                                           \
	for ((j) = TAILQ_FIRST(&(jobs)->table.awake);                                              \
	     (j) && ((next) = TAILQ_NEXT(j, awake), true); (j) = (next))

/* Room for n in all, in the table and to wait for a time: adding then cannot fail. Returns 0 or
 * -ENOMEM. */
int jobs_reserve(struct jobs *jobs, size_t n);
/* The same for all that are there, and all that may become one while another one is recorded. */
int jobs_reserve_all(struct jobs *jobs);

/* Makes a job with its stub, which is not in the table yet. Copies what the record says, its
 * strings too; takes references on submitter and area. Returns 0 or -ENOMEM. */
int job_new(struct job **ret, struct jobs *jobs, const struct job_record *r,
	    struct submitter *submitter, struct staging_area *area);
/* Makes the job of a stub that rests, as job_new. */
int job_awaken(struct job_stub *s, const struct job_record *r);
/* Frees a job that is not in the table, and its stub. NULL is accepted; returns NULL. */
struct job *job_free(struct job *j);
/* Frees the job and leaves its stub in the table. */
void job_sleep(struct job *j);
/* Has the job rest soon, but not in this call, if nothing happens to it then: job-rest.h. */
void job_rest_later(struct job *j);
/* Returns the part of the record that decides who may see the job. */
struct job_record job_stub_key(const struct job_stub *s);
void job_uuid_format(const uint8_t uuid[static 16], char ret[static 33]);
static inline void job_freep(struct job **j)
{
	(void)job_free(*j);
}

/* Takes dirfd over, and closes what is there of another job. */
void at_hand_put(struct job *j, int dirfd);
/* Gives it to the caller; -1 if it is not this job's. */
int at_hand_take(const struct job *j);
void at_hand_clear(struct jobs *jobs);

/* Sets r.message, and tells whether it changed; words are lost rather than the job when memory is
 * out. */
bool job_say(struct job *j, const char *format, ...) _printf_(2, 3);
void job_set_text(const char **text, const char *to);

/* Changes its phase, which must be able to follow the one it is in (job-life.h), and its state, and
 * tells the listeners. Posts nothing. */
void job_enter(struct job *j, enum job_phase to);
/* Tells the listeners that something of it has changed. */
void job_tell(struct job *j);
/* Tells of progress, at most every half second. */
void job_progressed(struct job *j);

/* Posts the record as it is now. saved may be NULL; it is called once, in this call if nothing
 * could be posted. A change that the store refused is posted again later. */
void job_save(struct job *j, void (*saved)(int r, void *userdata), void *userdata);
/* For outcome_record, where the record is of which names were moved into staging: if the store
 * refuses it, they are looked for there before anything else is done with the job. */
void job_marked(int r, void *userdata);
/* Posts again what the store has refused. */
void job_save_retry(struct job *j);

/* Returns true if the record is certain which names are in staging. It is not after a run that was
 * interrupted, because names may be gone that are not on record as gone, and after other hosts had
 * parts of the job. */
bool job_knows_staged(const struct job *j);

/* The record with the progress of what is going on just now. */
void job_snapshot(const struct job *j, struct job_record *ret);

bool job_state_finished(enum job_state s);
