/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-trim: calls FITRIM for reclaimd, which has no right to. The service manager starts one
 * for each connection to reclaimd-trim.socket, which only root can connect to.
 *
 *   request: a mount point and its device --> opened, compared; all rights but one are given up
 *   steps, as asked for (trim-process.h) --> until the socket is closed
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"
#include "trim-process.h"

/* The request is sent with the connection. */
#define REQUEST_SECONDS 10

static bool is_started_rightly(void)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer), len = sizeof(int);
	int type = 0;

	return getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET &&
	       getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       peer.uid == 0;
}

/* Returns 0 or a negative errno. */
static int request_receive(struct trim_request *q)
{
	struct timeval patience = { .tv_sec = REQUEST_SECONDS }, none = { 0 };
	ssize_t n;

	(void)setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	n = recv(STDIN_FILENO, q, sizeof(*q), MSG_TRUNC);
	(void)setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*q) && q->mount[0] == '/' &&
			       memchr(q->mount, '\0', sizeof(q->mount))
		       ? 0
		       : -EBADMSG;
}

/* Returns a descriptor or a negative errno: -ESTALE if another filesystem is mounted there, -ENOENT
 * if none is. */
static int mount_open(const struct trim_request *q)
{
	_cleanup_close_ int fd =
		open(q->mount, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct statx sx;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_TYPE, &sx) < 0)
		return -errno;
	if (!(sx.stx_attributes_mask & sx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return -ENOENT;
	if (makedev(sx.stx_dev_major, sx.stx_dev_minor) != q->dev)
		return -ESTALE;
	return fd_take(&fd);
}

int main(void)
{
	struct trim_target target;
	static struct trim_request q;
	int fd = -1, r;

	if (!is_started_rightly()) {
		(void)fputs("reclaim-trim: is started by reclaimd-trim.socket, not by hand\n",
			    stderr);
		return EXIT_FAILURE;
	}
	r = request_receive(&q);
	if (r >= 0)
		r = fd = mount_open(&q);
	if (r >= 0)
		r = trim_target_find(&target, fd);
	if (r >= 0 && (dup2(fd, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0U, 0) < 0))
		r = -errno;
	if (r < 0) {
		trim_process_refuse(r);
		return EXIT_FAILURE;
	}
	trim_process_serve(&target, q.min_bytes);
	/* Nothing is left that may be called at an end that is more than that. */
	_exit(EXIT_SUCCESS);
}
