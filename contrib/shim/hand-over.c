/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the shim runs in place of unlink(2): reclaim-hand-over FD NAME USEC submits NAME in the
 * directory that FD is, and waits no longer than that for the answer. Starts no daemon. The
 * caller looks whether the name is gone; the exit status is for people. */
#include <stdlib.h>
#include <unistd.h>

#include "reclaim.h"

int main(int argc, char **argv)
{
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct reclaim *r = NULL;
	int error;

	if (argc != 4)
		return EXIT_FAILURE;
	o.timeout_usec = strtoull(argv[3], NULL, 10);
	error = reclaim_open(&r, RECLAIM_NO_START);
	if (error >= 0)
		error = reclaim_submit_at(r, (int)strtol(argv[1], NULL, 10), argv[2], &o, NULL);
	/* Nothing is closed first: the caller waits for the end alone. */
	_exit(error < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
