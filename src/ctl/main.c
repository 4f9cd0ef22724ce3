/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl, the command line.
 *
 *   main.c      this file
 *   verbs.c     the table of verbs; --help, --version
 *   options.c   the options of run and plan
 *   run.c       run: delete in this process
 *   plan.c      plan: what would be done, and why
 *   progress.c  the bar
 *   output.c    errors and JSON
 */
#include <stdio.h>
#include <stdlib.h>

#include "verbs.h"

int main(int argc, char **argv)
{
	int r = verbs_dispatch(argc, argv);

	/* A result that could not be written is not a success. */
	if (fflush(stdout) != 0 && r == 0)
		r = EXIT_FAILURE;
	return r;
}
