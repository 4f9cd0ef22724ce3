/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimd and its keeper (worker/keeper.h) say to each other over a SOCK_SEQPACKET socket:
 * one verb, one name, and with some of them one descriptor. A keeper outlives an upgrade of
 * reclaimd, so this stays as it is. */
#pragma once

#include <stddef.h>

#define NAMED_FD_NAME 32 /* with its NUL */

enum named_fd_verb {
	NAMED_FD_LIST = '?', /* reclaimd: asks what there is. (Not told unasked: what was not read
			      * when one end closes takes along what the other has not read.) */
	NAMED_FD_HELD = '=', /* keeper: this ... */
	NAMED_FD_ALL = '.',  /* ... and that was all */
	NAMED_FD_PUT = '+',  /* reclaimd: to be held */
	NAMED_FD_DROP = '-', /* reclaimd: to be closed, all of that name */
};

/* fd: -1 for none. flags as of send(2). Returns 0 or a negative errno. */
int named_fd_send(int sock, enum named_fd_verb verb, const char *name, int fd, int flags);

/* *ret_fd is the caller's; -1 if there is none. Returns 1; 0 if the other end is closed; -EBADMSG;
 * or another negative errno. */
int named_fd_receive(int sock, enum named_fd_verb *ret_verb, char ret_name[NAMED_FD_NAME],
		     int *ret_fd);
