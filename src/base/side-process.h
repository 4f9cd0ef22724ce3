/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process of its own for calls that may hang: a frozen filesystem or a dead device holds the task
 * that makes them, and a thread that waits there would keep the whole process, with its sockets and
 * locks, from ending. It is forked from a program with threads, so it makes system calls only. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct side_process {
	int sock;  /* to it: SOCK_SEQPACKET; -1: none */
	pid_t pid; /* 0: it has ended, and was reaped */
};

/* Its standard input is its end of the socket; its standard output is `fd` (-1: none); all else is
 * closed. It calls `run`, whose return ends it; name: at most 15 bytes. Returns 0 or a negative
 * errno: what socketpair(2) or fork(2) says. */
int side_process_start(struct side_process *p, const char *name, int fd, void (*run)(void *arg),
		       void *arg);

/* It has ended: as soon as that is so it is reaped. */
void side_process_reap(struct side_process *p);

/* Has it end, and waits for that a little, so that what it holds is free when this returns; idle:
 * it is not in a call that may hang. If it hangs, it is left behind and reaped later. */
void side_process_end(struct side_process *p, bool idle);
