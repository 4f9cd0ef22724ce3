/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl, the command line.
 *
 *   main.c          this file
 *   verbs.c         the table of verbs; --version; help.c: --help
 *   options.c       the options of all verbs, in one table; timestamps.c (times of day), space.c
 * (how much is to be free) remote.c        -H: the same on another machine arguments.c     the
 * paths that run and submit are given, checked as a whole messages.c        errors and JSON;
 * screen.c (terminal, pager), table.c, printer.c
 *
 * With the daemon:
 *   client.c        the way to it, and its errors; agent.c (who asks for a password)
 *   submit.c        submit; batches.c (what goes into which call), names-file.c (names by the file)
 *   list.c          list; job-list.c asks, job-table.c, job-json.c and job-print.c show
 *   show.c          show; job-view.c asks
 *   wait.c          wait for jobs; wait-free.c for space
 *   job-actions.c       cancel, pause, resume, restore
 *   status.c        status; spools.c: spools
 *   top-start.c     top: becomes reclaim-top, of top-main.c, top.c (keys, the loop), top-draw.c
 * (the terminal) and top-model.c (what is shown) metrics.c       metrics; metrics-get.c asks,
 * metrics-text.c writes
 *
 * Without it:
 *   check-config.c  check-config: what is wrong with the daemon's configuration
 *   policies.c        policy: what the configuration's policies are and would delete; prints with
 *                   policy-text.c and policy-json.c; policy-run.c: policy run, one at a time
 *                   (policy-turn.c)
 *   run.c           run: delete in this process
 *   prescan.c       counts ahead of run, for its bar
 *   progress.c      the bar
 *   plan.c          plan: what would be done, and why; prints with plan-text.c, plan-json.c and
 *                   plan-costs.c (what makes it expensive)
 *   devices.c       devices: what the sensors say of a path's devices; looks with
 * device-snapshot.c, prints with devices-text.c and devices-json.c; daemon-devices.c (what reclaimd
 * does there) survey.c        reads a tree for plan; sampler.c
 * (which entries), holders.c (what has files open), surroundings.c (a path's filesystem and
 * devices), snapshots.c (btrfs), estimate.c (how long it may take)
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/debug.h"
#include "ctl/common/verbs.h"

int main(int argc, char **argv)
{
	int r;

	debug_begin();
	r = verbs_dispatch(argc, argv);

	/* A result that could not be written is not a success. */
	if (fflush(stdout) != 0 && r == 0)
		r = EXIT_FAILURE;
	return r;
}
