/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The proxy role: stands between reclaimd and one client of one of its sockets, as the client's
 * user.
 *
 * A process that receives a descriptor has to close it, and closing a file may wait for the process
 * that serves its filesystem: for ever, and no signal helps. So it is here that descriptors are
 * received. reclaimd gets those that it can close: opened with O_PATH, directories, and files on
 * filesystems of the kernel's own. A descriptor of /dev/null stands for any other, and is refused
 * by what the call wants one for. Of Varlink's clients it gets none: no method there takes any.
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
