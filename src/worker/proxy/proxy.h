/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The proxy role: stands between reclaimd and one client of one of its sockets, as the client's
 * user.
 *
 * A process that receives a descriptor has to close it, and closing a file may wait for the process
 * that serves its filesystem: for ever, and no signal helps. So the proxy receives descriptors, and
 * passes on two kinds only: directories, opened with O_DIRECTORY, and regular files open for
 * reading in memory or on a local filesystem. It replaces any other descriptor by one of /dev/null,
 * which the daemon or a worker then refuses. From clients of Varlink it passes on none, because no
 * method there takes any.
 *
 * And a process that is sent half a message keeps it until the other half comes. So messages have a
 * limit, and of those that are longer than a page or two, a user has only as many on their way as
 * there are permits (daemon/bus-quota.h). What of Varlink is short is only sent when it is whole.
 */
#pragma once

/* Serves until either side closes; sock is reclaimd's, on which the client's connection and the
 * permits come first. Gives up all rights but those of the client's user. Returns 0 or a negative
 * errno. */
int proxy_serve(int sock);
