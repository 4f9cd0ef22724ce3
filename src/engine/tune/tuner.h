/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the better setting by trying: backend and number of lanes.
 *
 * Pure: samples and times in, setting out; no clock, no threads. It stays with what is best so far
 * and tries a neighbour for a short while when that promises something, with two bounds. Time lost
 * in trials that did not pay may not exceed a small part of all time, so `auto` is never much
 * slower than the better of its settings. And what was tried in vain is tried again only after a
 * long while.
 *
 * What promises something: lanes that wait for a disk's or a server's answer call for more lanes,
 * or for a ring. Lanes that compute call for neither, as more of them than CPUs only get in each
 * other's way; and so do lanes that wait for each other's locks or for the journal.
 *
 * Where a server answers, what an operation takes may be bounded, as what foreign ones take there
 * grows with it. Only the operations' own time counts: in small directories half of the time goes
 * into opening and listing, for all lanes at once, and windows differ. More lanes are then taken
 * only while that stays within the bound, and fewer as soon as it does not. If fewer make no
 * difference, the server is slow by itself, and that is the measure from then on: what an operation
 * takes alone is seen at the beginning only.
 *
 * Behind a server it takes 100 ms and more until all of that is found out, and a run may be as
 * short as that: the next one there goes on where it was, if it comes soon. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/setting.h"

struct tuner_sample {
	uint64_t now_usec;
	uint64_t entries;  /* removed since the beginning */
	uint64_t cpu_usec; /* used by the whole process since the beginning, or waited for */
	uint64_t reads;    /* sectors of 512 bytes read from disks since the beginning */
	uint64_t ops;      /* of them, those whose time was taken: where a server answers */
	uint64_t op_usec;  /* what these took, all together */
	bool starved;      /* lanes are without work: none of this is looked at */
};

#define TUNER_OP_AUTO UINT64_MAX

struct tuner_options {
	struct setting start;
	unsigned lanes_max, cpus;
	bool uring_possible, fixed_backend, fixed_lanes;
	bool remote; /* waits that no disk of this machine sees */
	/* What an operation may take; 0: anything; TUNER_OP_AUTO: half more than alone. */
	uint64_t op_usec;
	uint64_t filesystem; /* which it is: a number of its own */
};

struct tuner {
	struct tuner_options o;
	struct setting best, now;
	double best_rate;         /* entries per second, smoothed */
	double best_op, alone_op; /* usec that an operation takes: smoothed; with one lane */
	uint64_t op_retry_usec;   /* how long until more lanes are tried again */
	uint64_t began_usec;
	uint64_t ended_usec;        /* of the run before; 0: there was none */
	struct tuner_sample window; /* as it began */
	uint64_t lost_usec;         /* in trials that did not pay */
	bool trying, settling;
	bool fresh;              /* nothing was judged yet */
	bool unseen;             /* where the window began nothing was to be seen */
	bool leap;               /* the next trial of more lanes goes far at once */
	unsigned shrink;         /* after a leap that paid behind a server: 1, what it brought is
				  * measured; 2, fewer lanes are tried */
	bool relief;             /* it is tried because operations take too long */
	uint64_t retry_usec[16]; /* per neighbour: not before */
	unsigned tried;          /* index into it */
	unsigned too_many;       /* lanes with which an operation took too long; 0: not known */
	unsigned long_windows;   /* in a row, in which operations took too long */
	const char *why;         /* of the last change of `now`; NULL: none yet */
};

void tuner_init(struct tuner *t, const struct tuner_options *o);

/* The same, or all that was found out by a run that ended not long before, if it was on the same
 * filesystem, behind a server, with the same options; t->now is what is to be used then. t is
 * zeroed, or what tuner_end has left. */
void tuner_begin(struct tuner *t, const struct tuner_options *o, uint64_t now_usec);
void tuner_end(struct tuner *t, uint64_t now_usec);

/* For who keeps it from run to run. NULL: out of memory. */
struct tuner *tuner_new(void);
struct tuner *tuner_free(struct tuner *t);

/* The ring that was asked for cannot be had: what is to be used instead, now and from now on. */
struct setting tuner_without_ring(struct tuner *t);

/* From now on an operation may take so long; as in the options. */
void tuner_bound(struct tuner *t, uint64_t op_usec);

/* Takes a sample and says what is to be used from now on. */
struct setting tuner_next(struct tuner *t, const struct tuner_sample *s);
