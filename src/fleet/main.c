/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-fleet: speaks to the database of a fleet for reclaimd, so that what comes over the
 * network is read by a process that can delete nothing itself: no capability, no writing, no
 * program. With words it does what reclaimctl fleet asks for, as the user who calls that.
 *
 *   companion         reclaimd's part in the fleet: one socket, one connection
 *   database          the connection, on an event loop
 *   items             what reclaimd wants to have done, in its order
 *   demand            what other hosts would take
 *   unit-columns      a unit as it is in the database, checked
 *   parameters        those of a statement, as texts
 *   statement-budget  so many statements a second
 *   schema, sql/      the schema of the database, in steps
 *   verbs             what reclaimctl fleet calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/debug.h"
#include "companion.h"
#include "sandbox/credentials.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"
#include "verbs.h"
#include "wire/fleet-messages.h"

static int companion(void)
{
	int r = close_range(FLEET_FD + 1, ~0U, 0);

	if (r >= 0)
		r = credentials_drop_all();
	if (r >= 0)
		r = landlock_restrict_reader();
	if (r >= 0)
		r = seccomp_restrict_network();
	if (r >= 0)
		r = companion_run(FLEET_FD);
	/* Not exit: a process that may not be traced cannot be looked through for leaks. */
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	socklen_t len = sizeof(int);
	int type = 0;

	debug_begin();
	if (argc > 1)
		return verbs_run(argc - 1, argv + 1);
	if (getsockopt(FLEET_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		(void)fputs("reclaim-fleet: is started by reclaimd and reclaimctl, not by hand\n",
			    stderr);
		return EXIT_FAILURE;
	}
	return companion();
}
