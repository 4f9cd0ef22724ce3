/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages are a type, a length and so many bytes, all numbers with their highest byte first. Each
 * but the first begins with a number of ours that its answer repeats. Types with the answer's being
 * one more; an answer of one byte is the master's error. */
#include "master.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

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

#define ANSWER_MOST MiB(16)

struct master {
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

static void put8(struct master *m, uint8_t v)
{
	assert(m->out_len < sizeof(m->out));
	m->out[m->out_len++] = v;
}

static void put32(struct master *m, uint32_t v)
{
	uint32_t be = htobe32(v);

	assert(m->out_len + sizeof(be) <= sizeof(m->out));
	memcpy(m->out + m->out_len, &be, sizeof(be));
	m->out_len += sizeof(be);
}

static void put64(struct master *m, uint64_t v)
{
	put32(m, (uint32_t)(v >> 32));
	put32(m, (uint32_t)v);
}

/* A component. */
static void put_name(struct master *m, const char *name)
{
	size_t len = strlen(name);

	assert(len <= NAME_MAX && m->out_len + 1 + len <= sizeof(m->out));
	put8(m, (uint8_t)len);
	memcpy(m->out + m->out_len, name, len);
	m->out_len += len;
}

/* Who asks: root, and root's group. The master looks at permissions as if it were so. */
static void put_root(struct master *m)
{
	put32(m, 0);
	put32(m, 1);
	put32(m, 0);
}

/* Beyond the end there are zeros, and `at` lies beyond len: see complete(). */
static const uint8_t *get(struct master *m, size_t n)
{
	static const uint8_t zeros[256];
	m->at += n;
	return m->at <= m->len ? m->in + m->at - n : zeros;
}

static uint32_t get32(struct master *m)
{
	uint32_t be;

	memcpy(&be, get(m, sizeof(be)), sizeof(be));
	return be32toh(be);
}

static uint64_t get64(struct master *m)
{
	uint64_t high = get32(m);

	return high << 32 | get32(m);
}

/* Was there all that was read from the answer, and no more? */
static int complete(const struct master *m)
{
	return m->at == m->len ? 0 : -EPROTO;
}

/* ---- the conversation -------------------------------------------------------------------------
 */

/* After a send or a receive that failed. 0: once more. */
static int again(const struct master *m)
{
	if (errno != EINTR && errno != EAGAIN)
		return -EPIPE;
	return now_usec() < m->until_usec ? 0 : -ETIMEDOUT;
}

static int send_all(struct master *m)
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

static int receive_all(struct master *m, void *data, size_t len)
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

static int answer_room(struct master *m, size_t len)
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
static int answer(struct master *m, uint32_t type)
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

static void begin(struct master *m)
{
	m->out_len = 2 * sizeof(uint32_t);
	put32(m, ++m->number);
}

static int exchange(struct master *m, uint32_t type)
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
static int ask(struct master *m, uint32_t type)
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

uint64_t master_took_usec(const struct master *m)
{
	return m->took_usec;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

static int sock_connect(const uint8_t *info, int *ret)
{
	_cleanup_close_ int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval timeout = { .tv_sec = MASTER_PATIENCE_CONNECT / USEC_PER_SEC };
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

int master_connect(struct master **ret, const uint8_t *info)
{
	struct master *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->sock = -1;
	r = sock_connect(info, &m->sock);
	if (r < 0) {
		master_close(m);
		return r;
	}
	*ret = m;
	return 0;
}

int master_register(struct master *m, const uint8_t *info)
{
	int r;

	m->patience_usec = MASTER_PATIENCE_FIRST;
	m->out_len = 8;
	memcpy(m->out + m->out_len, TOOLS, strlen(TOOLS));
	m->out_len += strlen(TOOLS);
	put8(m, REGISTER_TOOLS);
	memcpy(m->out + m->out_len, info + 6, 8); /* session and version, as we were told */
	m->out_len += 8;
	r = exchange(m, SAY_REGISTER);
	m->patience_usec = MASTER_PATIENCE;
	if (r < 0)
		return r;
	return m->len == 1 ? status_errno(*get(m, 1)) : -EPROTO;
}

struct master *master_close(struct master *m)
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

int master_lookup(struct master *m, uint32_t directory, const char *name, uint32_t *ret)
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
static int entry_get(struct master *m, char *name, struct moosefs_entry *ret)
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

int master_list(struct master *m, uint32_t directory, uint32_t most,
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

int master_census(struct master *m, uint32_t inode, struct moosefs_census *ret)
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

int master_mark(struct master *m, uint32_t inode, bool snapshot, uint64_t *ret)
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

int master_remove(struct master *m, uint32_t directory, const char *name)
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

int master_trash_time(struct master *m, uint32_t inode, uint64_t *ret_seconds)
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

int master_backlog(struct master *m, uint64_t *ret_trash_bytes, uint64_t *ret_open_bytes)
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
