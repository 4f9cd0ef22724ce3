/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How `run`, `trim` and scans are paced, and what `run` says of that with -v. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"

struct engine;
struct pace;
struct pacer;

/* Embedded by its users; all zero is one that does nothing. */
struct pacing {
	struct pacer *pacer; /* of the filesystem being worked on, or NULL */
	FILE *trace;
	uint64_t told_usec; /* when pacing_tell last said something */
	int dirfd;          /* a directory that something was removed from; with a pacer only */
};

/* Opens the trace, if one is asked for. Returns 0, or EXIT_FAILED after having said why. */
int pacing_trace(struct pacing *p, const struct options *o);

/* Has the engine paced, if that is asked for and there is a disk. dirfd is a directory on the
 * engine's filesystem. What cannot be had is said and done without. */
void pacing_start(struct pacing *p, const struct options *o, struct engine *e, int dirfd);

/* The same for a scan of dirfd's filesystem. Returns the pace of the scan, or NULL if it is
 * not paced. */
const struct pace *pacing_start_scan(struct pacing *p, const struct options *o, int dirfd);

/* The same for trimming fd's filesystem. Returns the pacer, or NULL if it is not paced. */
struct pacer *pacing_start_trim(struct pacing *p, const struct options *o, int fd, bool is_dir);

/* The engine has run: waits until what it left to be written back is written (pacer_settle), or
 * *cancelled. With -v it says what that came to. */
void pacing_settle(struct pacing *p, const struct options *o, const _Atomic bool *cancelled);

/* The engine or the scan has run. */
void pacing_stop(struct pacing *p);
void pacing_done(struct pacing *p);

/* True once a second while there is something to tell. */
bool pacing_due(const struct pacing *p);

/* Says on stderr what the device is like, what a quantum may cost, and how fast it goes. */
void pacing_tell(struct pacing *p);
