/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimd's part in the fleet, as reclaim-fleet does it: what reclaimd says is done in the
 * database, and what becomes of it there is said to reclaimd (wire/fleet-messages.h). One statement
 * at a time; none while there is nothing to do, but for the renewal of the lease. */
#pragma once

#include <systemd/sd-event.h>

/* Serves the socket until it is closed, or the process is told to end; then gives back what is
 * claimed, as far as that goes at once. Returns 0 or a negative errno: -EBADMSG for what is no
 * message. */
int companion_run(int sock);
