/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The process of a worker or of a proxy: started, ended, reaped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

/* Starts the program; `sock` becomes its descriptor 3, and is closed here, also on failure. Returns
 * 0 with *ret_pidfd, the caller's, or the negative errno of posix_spawn(3) or pidfd_open(2). */
int process_start(const char *program, int sock, int *ret_pidfd);

/* How a process ended, in words, which takes it off the process table. False if it lives. */
bool process_ended(int pidfd, char *buf, size_t len);

/* Whether it has been stopped by a signal. */
bool process_stopped(int pidfd);

/* What is told once the process is off the process table, or the loop ends before: only then is
 * what it waited for, in the kernel, over. May be all zero. */
struct process_watch {
	void (*reaped)(void *userdata);
	void *userdata;
};

/* Sees to it that it ends, by force now or after a while, and that it is reaped. Takes over both
 * descriptors. */
void process_reap(sd_event *event, int pidfd, int death_pipe, bool now,
		  const struct process_watch *w);
