/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "moosefs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mounts.h"
#include "base/program.h"
#include "base/spawn.h"
#include "engine/filesystem/profile.h"
#include "wire/wire.h"

/* The file that says where the mount listens: any directory has it. */
#define MASTERINFO ".masterinfo"
#define MASTERINFO_INODE 0x7fffffff

/* The program keeps to its own times; it is given so much more before it counts as hanging. */
#define GRACE (2 * USEC_PER_SEC)

static_assert(MASTER_FD == SPAWN_FD && MASTER_PIPE_FD == SPAWN_FD + 1,
	      "where the program finds what it is given");

struct moosefs {
	int sock;
	int pipe; /* the only end for writing: with it the program ends */
	pid_t pid;
	int error; /* that ended the conversation */
	uint64_t took_usec, patience_usec;
	struct wire_in in;
	struct wire_out out;
};

/* ---- beginning and end ------------------------------------------------------------------------
 */

/* By the mount table alone until it is known that no user serves the filesystem: a deleter comes
 * here while it is root still, and must not wait for a user's program (negative test 13). */
static int mount_check(int fd, const struct mounts *mounts)
{
	struct mounts own = { 0 };
	const struct mount *m = NULL;
	struct fs_profile profile;
	struct statfs sfs;
	uint64_t mnt_id;
	int r = fd_mount_id(fd, &mnt_id);

	if (r >= 0 && !mounts)
		r = mounts_read(&own, "/proc/self/mountinfo");
	if (r < 0)
		return r;
	m = mounts_by_id(mounts ? mounts : &own, mnt_id);
	if (!m)
		r = -EOPNOTSUPP;
	else if (mount_is_users(m))
		r = -EPERM;
	else if (fstatfs(fd, &sfs) < 0)
		r = -errno;
	if (r >= 0) {
		profile_find((uint32_t)sfs.f_type, m, &profile);
		r = strcmp(profile.family, "moosefs") == 0 ? 0 : -EOPNOTSUPP;
	}
	mounts_done(&own);
	return r;
}

/* Where the mount listens. The file is the mount's own: no other has that inode number. */
static int masterinfo_read(int fd, uint8_t *buf)
{
	_cleanup_close_ int info =
		openat(fd, MASTERINFO, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	struct stat st, dir;

	if (info < 0)
		return errno == ENOENT ? -EOPNOTSUPP : -errno;
	if (fstat(info, &st) < 0 || fstat(fd, &dir) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_dev != dir.st_dev || st.st_ino != MASTERINFO_INODE ||
	    st.st_uid != 0 || st.st_size != MASTERINFO_BYTES ||
	    pread(info, buf, MASTERINFO_BYTES, 0) != MASTERINFO_BYTES)
		return -EOPNOTSUPP;
	/* Behind address, port and session there is the version; later ones were never spoken to.
	 */
	return buf[11] == 3 && buf[10] == 0 ? 0 : -EOPNOTSUPP;
}

int moosefs_start(struct moosefs **ret, int fd, const struct mounts *mounts)
{
	_cleanup_close_ int sock = -1, its_sock = -1, end = -1, its_end = -1;
	char *const env[] = { NULL };
	int r = mount_check(fd, mounts), pair[2];
	char path[PATH_MAX];
	struct moosefs *m;

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	sock = pair[0];
	its_sock = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	its_end = pair[0];
	end = pair[1];
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	r = program_find("reclaim-moosefs", path, sizeof(path));
	if (r >= 0)
		r = spawn_program(path, "reclaim-moosefs", env, (int[]){ its_sock, its_end }, 2,
				  /* own_group= */ true, &m->pid);
	if (r < 0) {
		free(m);
		return r;
	}
	m->sock = fd_take(&sock);
	m->pipe = fd_take(&end);
	*ret = m;
	return 0;
}

struct moosefs *moosefs_close(struct moosefs *m)
{
	if (!m)
		return NULL;
	fd_closep(&m->sock);
	/* The kernel kills it now, wherever it is. */
	fd_closep(&m->pipe);
	(void)waitpid(m->pid, NULL, 0);
	wire_in_done(&m->in);
	wire_out_done(&m->out);
	free(m);
	return NULL;
}

/* ---- requests ---------------------------------------------------------------------------------
 */

struct listing {
	uint32_t most, n;
	moosefs_entry_t each;
	void *userdata;
};

/* Receives one message of the answer. Returns 0 or a negative errno. */
static int receive(struct moosefs *m, uint64_t until_usec)
{
	struct pollfd p = { .fd = m->sock, .events = POLLIN };
	int r;

	do {
		uint64_t now = now_usec();

		r = poll(&p, 1, now < until_usec ? (int)((until_usec - now) / USEC_PER_MSEC) : 0);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	r = wire_receive(m->sock, &m->in, MSG_DONTWAIT, /* allow_long= */ false);
	/* A reset is an end with a request unread. */
	return r > 0 ? 0 : r == 0 || r == -ECONNRESET ? -EPIPE : r == -EBADMSG ? -EPROTO : r;
}

/* Takes the entries of one message. Returns 0, -EPROTO, or the error of `each`. */
static int entries_take(struct wire_in *in, struct listing *l)
{
	while (!in->error && in->left > 0) {
		struct moosefs_entry e = { .inode = (uint32_t)wire_get_most(in, UINT32_MAX) };
		int r;

		e.nlink = (uint32_t)wire_get_most(in, UINT32_MAX);
		e.chunks = wire_get(in);
		e.is_directory = wire_get_most(in, 1);
		e.name = wire_get_string(in);
		if (in->error || ++l->n > l->most || e.name[0] == '\0' || strchr(e.name, '/') ||
		    strlen(e.name) > NAME_MAX)
			return -EPROTO;
		r = l->each(&e, l->userdata);
		if (r < 0)
			return r;
	}
	return wire_end(in) < 0 ? -EPROTO : 0;
}

/* Takes what DONE says. Returns 0 or a negative errno. */
static int done_take(struct moosefs *m, union master_values *ret)
{
	uint64_t error = wire_get_most(&m->in, 4095), took = wire_get(&m->in);
	union master_values values;

	for (size_t i = 0; error == 0 && i < ELEMENTSOF(values.v); i++)
		values.v[i] = wire_get(&m->in);
	if (wire_end(&m->in) < 0)
		return -EPROTO;
	m->took_usec = took;
	if (error == 0)
		*ret = values;
	return -(int)error;
}

/* Sends the request that was put, and takes the answer: its values, and entries if there is a
 * listing. Returns 0 or a negative errno. */
static int ask(struct moosefs *m, union master_values *ret, struct listing *l)
{
	uint64_t until = now_usec() + m->patience_usec + GRACE;
	int r;

	if (m->error < 0)
		return m->error;
	r = wire_post(m->sock, &m->out);
	if (r >= 0)
		r = receive(m, until);
	while (r >= 0 && m->in.type == MASTER_ENTRIES && l) {
		r = entries_take(&m->in, l);
		if (r >= 0)
			r = receive(m, until);
	}
	if (r >= 0)
		r = m->in.type == MASTER_DONE ? done_take(m, ret) : -EPROTO;
	/* What the master itself refuses does not end the conversation. */
	if (r != -EPERM && r != -ENOENT && r != -EACCES && r != -EIO)
		m->error = r;
	return r;
}

int moosefs_connect(struct moosefs *m, int fd)
{
	uint8_t info[MASTERINFO_BYTES];
	union master_values none;
	int r = masterinfo_read(fd, info);

	if (r < 0)
		return r;
	wire_begin(&m->out, MASTER_OPEN, 0);
	wire_put_string(&m->out, RECLAIM_VERSION);
	wire_put_bytes(&m->out, info, sizeof(info));
	m->patience_usec = MASTER_PATIENCE_CONNECT + MASTER_PATIENCE_FIRST;
	r = ask(m, &none, NULL);
	m->patience_usec = MASTER_PATIENCE;
	return r;
}

int moosefs_open(struct moosefs **ret, int fd, const struct mounts *mounts)
{
	struct moosefs *m = NULL;
	int r = moosefs_start(&m, fd, mounts);

	if (r < 0)
		return r;
	assert(m);
	r = moosefs_connect(m, fd);
	if (r < 0) {
		moosefs_close(m);
		return r;
	}
	*ret = m;
	return 0;
}

uint64_t moosefs_took_usec(const struct moosefs *m)
{
	return m->took_usec;
}

static void request_put(struct moosefs *m, const struct master_request *q)
{
	wire_begin(&m->out, q->type, 0);
	wire_put(&m->out, q->inode);
	wire_put(&m->out, q->number);
	wire_put_string(&m->out, q->name ? q->name : "");
}

int moosefs_ask(struct moosefs *m, const struct master_request *q, union master_values *ret)
{
	assert(q->type != MASTER_LIST);
	request_put(m, q);
	return ask(m, ret, NULL);
}

int moosefs_list(struct moosefs *m, uint32_t directory, uint32_t most, moosefs_entry_t each,
		 void *userdata)
{
	struct listing l = { .most = most, .each = each, .userdata = userdata };
	union master_values values = { .listed = 0 };
	int r;

	request_put(m, &(struct master_request){ MASTER_LIST, directory, most, NULL });
	r = ask(m, &values, &l);
	if (r >= 0 && values.listed != l.n)
		r = m->error = -EPROTO;
	return r < 0 ? r : (int)l.n;
}
