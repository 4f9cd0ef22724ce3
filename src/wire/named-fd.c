/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "named-fd.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

struct message {
	char verb;
	char name[NAMED_FD_NAME];
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int named_fd_send(int sock, enum named_fd_verb verb, const char *name, int fd, int flags)
{
	struct message m = { .verb = (char)verb };
	union control control = { 0 };
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (strlen(name) >= sizeof(m.name))
		return -EMSGSIZE;
	memcpy(m.name, name, strlen(name));
	if (fd >= 0) {
		struct cmsghdr *c;

		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(sock, &h, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int named_fd_receive(int sock, enum named_fd_verb *ret_verb, char ret_name[NAMED_FD_NAME],
		     int *ret_fd)
{
	struct message m;
	union control control;
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n;

	*ret_fd = -1;
	do
		n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	/* There is room for one descriptor, and the kernel gives no more. */
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	if (n != sizeof(m) || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !memchr(m.name, '\0', sizeof(m.name))) {
		fd_closep(ret_fd);
		return -EBADMSG;
	}
	*ret_verb = (enum named_fd_verb)m.verb;
	memcpy(ret_name, m.name, sizeof(m.name));
	return 1;
}
