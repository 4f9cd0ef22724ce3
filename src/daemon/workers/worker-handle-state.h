/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of a worker share. Private to them.
 *
 *   worker-life.c     its life: made, stopped, failed, freed
 *   worker-process.c  the process
 *   worker-send.c     requests, put into messages, and sent when the socket takes them
 *   worker-receive.c  answers, checked, and handed to callbacks */
#pragma once

#include <sys/queue.h>

#include "wire/protocol.h"
#include "worker-handle.h"
#include "worker-process.h"

enum request_kind {
	KIND_VALIDATE,
	KIND_STAGE,
	KIND_FORGET, /* has no answer */
	KIND_OPEN,
	KIND_DONE,
	KIND_LIST,
	KIND_MARK,
	KIND_RUN,
};

struct message {
	STAILQ_ENTRY(message) entry;
	struct wire_out out; /* packed */
};

STAILQ_HEAD(messages, message);

struct request {
	STAILQ_ENTRY(request) entry;
	enum request_kind kind;
	uint32_t serial;
	struct messages messages; /* not sent yet, as its turn has not come */
	bool begun;
	bool wants_path_fd; /* KIND_OPEN: with O_PATH */
	uint64_t dirs, seq; /* told so far */
	uint64_t least, most;
	unsigned problems;
	uint64_t demanded, given; /* units: so many may be given, and were */
	union {
		struct intake_callbacks validate;
		struct staged_callbacks stage;
		struct run_callbacks run;
		void (*opened)(int r, int fd, void *userdata);
		void (*done)(int r, void *userdata);
		void (*marked)(int r, const struct mark_message *mark, void *userdata);
		struct {
			void (*entry)(const char *name, const struct lasting_identity *id,
				      void *userdata);
			void (*listed)(int r, void *userdata);
		} list;
	};
	void *userdata;
};

struct worker {
	unsigned n_refs;
	bool ended;   /* failed or freed: nothing is asked of it any more */
	bool closed;  /* its end of the socket */
	bool welcome; /* it has said so */
	bool held;
	bool keeps; /* was stopped so that it keeps what is left of large files */
	enum worker_role role;
	int landlock_abi;
	struct paced *paced; /* or NULL */
	sd_event *event;
	sd_event_source *io, *process, *limit;
	int sock, pidfd;
	int death_pipe; /* the end of a pipe: closing it kills, whatever credentials the process has
			   by now */
	struct worker_page *page;
	struct messages out;
	STAILQ_HEAD(, request) requests;
	struct request *flush; /* beside them, or NULL */
	unsigned n_requests;
	uint32_t serial;
	struct wire_in in;
	uint64_t heard_usec, stopped_usec, closed_usec; /* 0: not */
	uint64_t signal_usec; /* since then it was stopped by a signal whenever looked at; 0: not */
	void (*gone)(struct worker *w, const char *how, void *userdata);
	void *userdata;
	void (*left)(void *userdata);
	struct process_watch watch;
};

struct worker *worker_ref(struct worker *w);
struct worker *worker_unref(struct worker *w);

/* It is of no use any more: kills it, answers all, and tells the owner, which may free it: the
 * caller holds a reference. */
void worker_fail(struct worker *w, const char *how);

/* Something has happened after which it may have to be given up at some time. */
void worker_limit(struct worker *w);

/* worker-send.c */
/* Fills what is not there yet of *h, and sends it. */
int worker_greet(struct worker *w, const struct worker_options *o, struct hello_message *h);
void worker_send(struct worker *w);
void messages_free(struct messages *m);
/* Its devices need not be looked at for now, unless a flush still waits for its turn. */
void worker_suspend_pacing(struct worker *w);
/* Begins with the first request if it has not been begun. */
void worker_next(struct worker *w);
void request_free(struct request *rq);

/* worker-receive.c */

/* Takes one message. Returns as wire_receive. */
int worker_receive(struct worker *w);
/* Calls the request's last callback. Takes it over. */
void request_fail(struct request *rq, int error);
/* Takes the first request off the list. */
struct request *request_take(struct worker *w);
