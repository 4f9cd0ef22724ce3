/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages are a type, a length and so many bytes, all numbers with their highest byte first. Each
 * but the first begins with a number of ours that its answer repeats. Types with the answer's being
 * one more; an answer of one byte is the master's error. */
#include "moosefs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"
#include "engine/filesystem/profile.h"

enum {
	SAY_NOTHING = 0, /* sent now and then while an answer takes long */
	SAY_REGISTER = 400,
	SAY_STATFS = 402,
	SAY_LOOKUP = 406,
	SAY_READDIR = 428,
	SAY_GETTRASHTIME = 442,
	SAY_SNAPSHOT = 468,
	SAY_GETEATTR = 472,
	SAY_SETEATTR = 474,
};

/* What tools introduce themselves with. */
#define TOOLS "DjI1GAQDULI5d2YjA26ypc3ovkhjvhciTQVx3CS4nYgtBoUcsljiVpsErJENHaw0"
#define REGISTER_TOOLS 4

#define LIST_ATTRIBUTES 1
#define SNAPSHOT_DELETE 0x80
#define MARK_ADD 1
#define MARK_TAKE 2
#define MARK_RECURSIVE 4
#define TREE 1 /* how far a question goes */

#define EATTR_SNAPSHOT 0x10
/* Undeletable, append-only, immutable: rm would be refused them. */
#define EATTR_KEPT 0xe0

/* An entry's attributes: where its type and its links are in them. */
#define ATTRIBUTES 36
#define ATTRIBUTE_TYPE 1
#define ATTRIBUTE_NLINK 23
#define ATTRIBUTE_LENGTH 27
#define TYPE_FILE 1
#define TYPE_DIRECTORY 2

#define CHUNK_BYTES MiB(64)

/* The file that says where the mount listens: any directory has it. */
#define MASTERINFO ".masterinfo"
#define MASTERINFO_INODE 0x7fffffff

/* An answer may take so long, whatever of it has come: longer than any stall that may be asked for,
 * and less than the daemon waits for a worker that is to stop. */
#define PATIENCE (20 * USEC_PER_SEC)
/* And the first: that worker has not told the daemon yet that it is there. */
#define PATIENCE_FIRST (5 * USEC_PER_SEC)
#define PATIENCE_CONNECT (2 * USEC_PER_SEC)
#define ANSWER_MOST MiB(16)

struct moosefs {
	int sock;
	uint32_t number;
	uint64_t took_usec, patience_usec, until_usec;
	int error;   /* that ended it: where in the stream an answer begins is not known since */
	uint8_t *in; /* the answer's bytes, without its number */
	size_t len, at, cap;
	uint8_t out[512];
	size_t out_len;
};

/* ---- numbers in messages ----------------------------------------------------------------------
 */

static void put8(struct moosefs *m, uint8_t v)
{
	m->out[m->out_len++] = v;
}

static void put32(struct moosefs *m, uint32_t v)
{
	uint32_t be = htobe32(v);

	memcpy(m->out + m->out_len, &be, sizeof(be));
	m->out_len += sizeof(be);
}

static void put64(struct moosefs *m, uint64_t v)
{
	put32(m, (uint32_t)(v >> 32));
	put32(m, (uint32_t)v);
}

/* A component. */
static void put_name(struct moosefs *m, const char *name)
{
	size_t len = strlen(name);

	put8(m, (uint8_t)len);
	memcpy(m->out + m->out_len, name, len);
	m->out_len += len;
}

/* Who asks: root, and root's group. The master looks at permissions as if it were so. */
static void put_root(struct moosefs *m)
{
	put32(m, 0);
	put32(m, 1);
	put32(m, 0);
}

/* Beyond the end there are zeros, and `at` lies beyond len: see complete(). */
static const uint8_t *get(struct moosefs *m, size_t n)
{
	static const uint8_t zeros[256];
	m->at += n;
	return m->at <= m->len ? m->in + m->at - n : zeros;
}

static uint32_t get32(struct moosefs *m)
{
	uint32_t be;

	memcpy(&be, get(m, sizeof(be)), sizeof(be));
	return be32toh(be);
}

static uint64_t get64(struct moosefs *m)
{
	uint64_t high = get32(m);

	return high << 32 | get32(m);
}

/* Was there all that was read from the answer, and no more? */
static int complete(const struct moosefs *m)
{
	return m->at == m->len ? 0 : -EPROTO;
}

/* ---- the conversation -------------------------------------------------------------------------
 */

/* After a send or a receive that failed. 0: once more. */
static int again(const struct moosefs *m)
{
	if (errno != EINTR && errno != EAGAIN)
		return -EPIPE;
	return now_usec() < m->until_usec ? 0 : -ETIMEDOUT;
}

static int send_all(struct moosefs *m)
{
	for (size_t at = 0; at < m->out_len;) {
		ssize_t n = send(m->sock, m->out + at, m->out_len - at, MSG_NOSIGNAL);
		int r = n < 0 ? again(m) : 0;

		if (r < 0)
			return r;
		at += n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

static int receive_all(struct moosefs *m, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = recv(m->sock, p, len, MSG_WAITALL);
		int r = n < 0 ? again(m) : n == 0 ? -EPIPE : 0;

		if (r < 0)
			return r;
		n = MAX(n, (ssize_t)0);
		p += n;
		len -= (size_t)n;
		/* Nor may it come in drops. */
		if (len > 0 && now_usec() >= m->until_usec)
			return -ETIMEDOUT;
	}
	return 0;
}

static int answer_room(struct moosefs *m, size_t len)
{
	uint8_t *bigger;

	if (len > ANSWER_MOST)
		return -EPROTO;
	if (len <= m->cap)
		return 0;
	bigger = realloc(m->in, len);
	if (!bigger)
		return -ENOMEM;
	m->in = bigger;
	m->cap = len;
	return 0;
}

/* Receives the answer of this type, past any nothing. */
static int answer(struct moosefs *m, uint32_t type)
{
	uint32_t head[2] = { 0 };
	int r;

	do {
		r = now_usec() < m->until_usec ? receive_all(m, head, sizeof(head)) : -ETIMEDOUT;
		m->len = be32toh(head[1]);
		if (r >= 0)
			r = answer_room(m, m->len);
		if (r >= 0)
			r = receive_all(m, m->in, m->len);
	} while (r >= 0 && be32toh(head[0]) == SAY_NOTHING);
	m->at = 0;
	return r < 0 ? r : be32toh(head[0]) == type ? 0 : -EPROTO;
}

static void begin(struct moosefs *m)
{
	m->out_len = 2 * sizeof(uint32_t);
	put32(m, ++m->number);
}

static int exchange(struct moosefs *m, uint32_t type)
{
	uint32_t head[2] = { htobe32(type), htobe32((uint32_t)m->out_len - 8) };
	uint64_t began = now_usec();
	int r;

	if (m->error < 0)
		return m->error;
	m->until_usec = began + m->patience_usec;
	memcpy(m->out, head, sizeof(head));
	r = send_all(m);
	if (r >= 0)
		r = answer(m, type + 1);
	m->took_usec = now_usec() - began;
	m->error = MIN(r, 0);
	return r;
}

/* The master's errors that are told apart here. */
static int status_errno(uint8_t status)
{
	switch (status) {
	case 0:
		return 0;
	case 1:
		return -EPERM;
	case 3:
		return -ENOENT;
	case 4:
		return -EACCES;
	default:
		return -EIO;
	}
}

/* Asks what has been put, and waits for the answer, whose bytes behind its number are then read. */
static int ask(struct moosefs *m, uint32_t type)
{
	int r = exchange(m, type);

	if (r < 0)
		return r;
	if (get32(m) != m->number || m->at > m->len)
		return m->error = -EPROTO;
	if (m->len != m->at + 1)
		return 0;
	/* Where success has nothing more to say, it is the status 0. */
	return status_errno(*get(m, 1));
}

uint64_t moosefs_took_usec(const struct moosefs *m)
{
	return m->took_usec;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

static int mount_check(int fd, const struct mounts *mounts)
{
	struct mounts own = { 0 };
	const struct mount *m = NULL;
	struct identity id;
	struct statfs sfs;
	struct fs_profile w;
	int r = -EOPNOTSUPP;

	if (fstatfs(fd, &sfs) < 0)
		return -errno;
	if (fd_identity(fd, "", &id) >= 0 &&
	    (mounts || mounts_read(&own, "/proc/self/mountinfo") >= 0))
		m = mounts_by_id(mounts ? mounts : &own, id.mnt_id);
	if (m) {
		profile_find(&(struct profile_query){ .f_type = (uint32_t)sfs.f_type,
						      .type = m->type,
						      .source = m->source },
			     &w);
		if (strcmp(w.family, "moosefs") == 0)
			r = mount_is_users(m) ? -EPERM : 0;
	}
	mounts_done(&own);
	return r;
}

/* Where the mount listens. The file is the mount's own: no other has that inode number. */
static int masterinfo_read(int fd, uint8_t buf[14])
{
	_cleanup_close_ int info =
		openat(fd, MASTERINFO, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	struct stat st, dir;

	if (info < 0)
		return errno == ENOENT ? -EOPNOTSUPP : -errno;
	if (fstat(info, &st) < 0 || fstat(fd, &dir) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_dev != dir.st_dev || st.st_ino != MASTERINFO_INODE ||
	    st.st_uid != 0 || st.st_size != 14 || pread(info, buf, 14, 0) != 14)
		return -EOPNOTSUPP;
	/* Behind address, port and session there is the version; later ones were never spoken to.
	 */
	return buf[11] == 3 && buf[10] == 0 ? 0 : -EOPNOTSUPP;
}

static int sock_connect(const uint8_t info[14], int *ret)
{
	_cleanup_close_ int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval timeout = { .tv_sec = PATIENCE_CONNECT / USEC_PER_SEC };
	int one = 1;

	if (sock < 0)
		return -errno;
	memcpy(&to.sin_addr, info, 4);
	memcpy(&to.sin_port, info + 4, 2);
	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    connect(sock, (struct sockaddr *)&to, sizeof(to)) < 0)
		return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	*ret = fd_take(&sock);
	return 0;
}

static int introduce(struct moosefs *m, const uint8_t info[14])
{
	int r;

	m->out_len = 8;
	memcpy(m->out + m->out_len, TOOLS, strlen(TOOLS));
	m->out_len += strlen(TOOLS);
	put8(m, REGISTER_TOOLS);
	memcpy(m->out + m->out_len, info + 6, 8); /* session and version, as we were told */
	m->out_len += 8;
	r = exchange(m, SAY_REGISTER);
	if (r < 0)
		return r;
	return m->len == 1 ? status_errno(*get(m, 1)) : -EPROTO;
}

int moosefs_open(struct moosefs **ret, int fd, const struct mounts *mounts)
{
	struct moosefs *m = NULL;
	uint8_t info[14];
	int r = mount_check(fd, mounts);

	if (r >= 0)
		r = masterinfo_read(fd, info);
	if (r < 0)
		return r;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->sock = -1;
	m->patience_usec = PATIENCE_FIRST;
	r = sock_connect(info, &m->sock);
	if (r >= 0)
		r = introduce(m, info);
	if (r < 0) {
		moosefs_close(m);
		return r;
	}
	m->patience_usec = PATIENCE;
	*ret = m;
	return 0;
}

struct moosefs *moosefs_close(struct moosefs *m)
{
	if (!m)
		return NULL;
	fd_closep(&m->sock);
	free(m->in);
	free(m);
	return NULL;
}

/* ---- what can be asked ------------------------------------------------------------------------
 */

int moosefs_lookup(struct moosefs *m, uint32_t directory, const char *name, uint32_t *ret)
{
	int r;

	begin(m);
	put32(m, directory);
	put_name(m, name);
	put_root(m);
	r = ask(m, SAY_LOOKUP);
	if (r < 0)
		return r;
	if (m->len < m->at + 4 + ATTRIBUTES)
		return -EPROTO;
	*ret = get32(m);
	return 0;
}

/* Reads an entry of a list. Returns 1, 0 if it is the directory itself or the one above, or a
 * negative errno. */
static int entry_get(struct moosefs *m, char *name, struct moosefs_entry *ret)
{
	size_t len = *get(m, 1);
	const uint8_t *attributes;
	uint64_t length;
	uint32_t be;

	memcpy(name, get(m, len), len);
	name[len] = '\0';
	*ret = (struct moosefs_entry){ .name = name, .inode = get32(m) };
	attributes = get(m, ATTRIBUTES);
	memcpy(&be, attributes + ATTRIBUTE_NLINK, sizeof(be));
	ret->nlink = be32toh(be);
	ret->is_directory = attributes[ATTRIBUTE_TYPE] >> 4 == TYPE_DIRECTORY;
	memcpy(&length, attributes + ATTRIBUTE_LENGTH, sizeof(length));
	if (attributes[ATTRIBUTE_TYPE] >> 4 == TYPE_FILE)
		ret->chunks = be64toh(length) / CHUNK_BYTES + (be64toh(length) > 0);
	if (m->at > m->len || len == 0 || memchr(name, '\0', len) || memchr(name, '/', len))
		return -EPROTO;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int moosefs_list(struct moosefs *m, uint32_t directory, uint32_t most,
		 int (*each)(const struct moosefs_entry *e, void *userdata), void *userdata)
{
	struct moosefs_entry e;
	char name[256];
	int r, n = 0;

	begin(m);
	put32(m, directory);
	put_root(m);
	put8(m, LIST_ATTRIBUTES);
	put32(m, most + 2); /* the directory itself and the one above are in it */
	put64(m, 0);        /* from the beginning */
	r = ask(m, SAY_READDIR);
	if (r >= 0 && m->len < m->at + 8)
		r = -EPROTO;
	if (r >= 0)
		(void)get64(m);
	while (r >= 0 && m->at < m->len) {
		r = entry_get(m, name, &e);
		if (r <= 0)
			continue;
		if ((uint32_t)++n > most)
			return -EPROTO;
		if (each)
			r = each(&e, userdata);
	}
	return r < 0 ? r : n;
}

int moosefs_census(struct moosefs *m, uint32_t inode, struct moosefs_census *ret)
{
	struct moosefs_census found = { 0 };
	unsigned directories, all;
	int r;

	begin(m);
	put32(m, inode);
	put8(m, TREE);
	r = ask(m, SAY_GETEATTR);
	if (r < 0)
		return r;
	directories = *get(m, 1);
	all = directories + *get(m, 1);
	for (unsigned i = 0; i < all; i++) {
		uint8_t attributes = *get(m, 1);
		uint32_t n = get32(m);

		found.entries += n;
		found.directories += i < directories ? n : 0;
		found.kept += attributes & EATTR_KEPT ? n : 0;
		found.marked += attributes & EATTR_SNAPSHOT ? n : 0;
	}
	r = complete(m);
	if (r >= 0)
		*ret = found;
	return r;
}

int moosefs_mark(struct moosefs *m, uint32_t inode, bool snapshot, uint64_t *ret)
{
	uint64_t n;
	int r;

	begin(m);
	put32(m, inode);
	put32(m, 0); /* root */
	put8(m, EATTR_SNAPSHOT);
	put8(m, (snapshot ? MARK_ADD : MARK_TAKE) | MARK_RECURSIVE);
	r = ask(m, SAY_SETEATTR);
	if (r < 0)
		return r;
	n = get32(m);
	n += get32(m);
	(void)get32(m); /* refused */
	r = complete(m);
	if (r >= 0)
		*ret = n;
	return r;
}

int moosefs_remove(struct moosefs *m, uint32_t directory, const char *name)
{
	int r;

	begin(m);
	put32(m, 0); /* no source */
	put32(m, directory);
	put_name(m, name);
	put_root(m);
	put8(m, SNAPSHOT_DELETE);
	put8(m, 0); /* umask */
	put8(m, 0);
	r = ask(m, SAY_SNAPSHOT);
	return r < 0 ? r : complete(m);
}

int moosefs_trash_time(struct moosefs *m, uint32_t inode, uint64_t *ret_seconds)
{
	uint32_t kinds, seconds;
	int r;

	begin(m);
	put32(m, inode);
	put8(m, 0); /* only this one */
	r = ask(m, SAY_GETTRASHTIME);
	if (r < 0)
		return r;
	kinds = get32(m);
	kinds += get32(m);
	seconds = get32(m);
	(void)get32(m); /* how many: one */
	r = kinds == 1 ? complete(m) : -EPROTO;
	if (r >= 0)
		*ret_seconds = seconds;
	return r;
}

int moosefs_backlog(struct moosefs *m, uint64_t *ret_trash_bytes, uint64_t *ret_open_bytes)
{
	uint64_t trash, open;
	int r;

	begin(m);
	r = ask(m, SAY_STATFS);
	if (r < 0)
		return r;
	(void)get64(m); /* all, available, and since 3.0.102 free */
	(void)get64(m);
	if (m->len - m->at > 20)
		(void)get64(m);
	trash = get64(m);
	open = get64(m);
	(void)get32(m); /* inodes */
	r = complete(m);
	if (r < 0)
		return r;
	*ret_trash_bytes = trash;
	*ret_open_bytes = open;
	return 0;
}
